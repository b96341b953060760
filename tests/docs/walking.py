"""Follow a page as its reader would: its files are written, its commands typed, its links clicked, in its order.

A page is a sequence of steps. What a step is, is told by how it is written:

- a block ``sh`` is typed line by line; one that starts a web server or a worker goes to a terminal of its own;
- a block ``python`` begins with ``# path``: it is the file's text, or what is added "at the end" of it; without a path
  it is typed into Django's shell;
- a block ``text`` is what the command before it has to print;
- ``Open <address>``, ``Click **name**``, ``log in as `name` with the password `word` `` and ``the message "text"`` are
  done in a browser; ``Ctrl-C`` ends the program of the terminal that was opened last, "in both terminals" of each.

Changed is only what two test runs cannot share: the name of the database and the port.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from playwright.sync_api import Page as Tab

from tests.worker.waiting import until

STEP = re.compile(
    r"^```(?P<language>\w+)\n(?P<block>.*?)^```$"
    r"|Open <(?P<open>[^>]+)>"
    r"|Click \*\*(?P<click>[^*]+)\*\*"
    r"|log in as `(?P<user>[^`]+)` with the password `(?P<password>[^`]+)`"
    r'|the message "(?P<message>[^"]+)"'
    r"|Press\s+(?P<stop>Ctrl-C(?: in both terminals)?)",
    re.MULTILINE | re.DOTALL,
)
STAYS = re.compile(r"manage\.py (runserver\b.*|runworker)$")
WITHIN = 60.0  # seconds, for what a worker does meanwhile


class Step(NamedTuple):
    """One thing that the reader does: what kind, and the text of it."""

    kind: str
    text: str
    more: str = ""


def steps(page: Path) -> Iterator[Step]:
    """Yield what a page has its reader do, in order."""
    for found in STEP.finditer(page.read_text(encoding="utf-8")):
        groups = {name: text for name, text in found.groupdict().items() if text is not None}
        if "block" in groups:
            yield Step(groups["language"], groups["block"])
        elif "user" in groups:
            yield Step("login", groups["user"], groups["password"])
        else:
            (kind, text) = next(iter(groups.items()))
            yield Step(kind, text)


class Reader:
    """Somebody who does what a page says, in one folder.

    ``environment`` is what the shell has; ``installed`` says that environment and packages are there already, so that
    the lines which make them are read and left out. ``instead`` are texts to replace: database and port.
    """

    def __init__(
        self, folder: Path, environment: dict[str, str], instead: dict[str, str], tab: Tab, *, installed: bool
    ) -> None:
        self.folder, self.environment, self.instead, self.tab = folder, environment, instead, tab
        self.installed = installed
        self.terminals: list[subprocess.Popen[bytes]] = []
        self.command = self.printed = self.all_printed = ""

    def follow(self, page: Path) -> None:
        """Take every step of the page; raise AssertionError at the first that does not do what it says."""
        for step in steps(page):
            text = step.text
            for old, new in self.instead.items():
                text = text.replace(old, new)
            getattr(self, f"do_{step.kind}")(*[text, step.more][: 2 if step.more else 1])

    def close(self) -> None:
        """End whatever still runs."""
        for terminal in self.terminals:
            _signal(terminal, signal.SIGKILL)
            terminal.wait(timeout=WITHIN)

    def do_sh(self, block: str) -> None:
        """Type the lines of a block."""
        for line in block.splitlines():
            self.type(line)

    def type(self, line: str) -> None:
        """Type one command, and keep what it prints."""
        if re.search(r"-m venv|/activate$", line) or "-m pip install" in line:
            self.prepare(line)
        elif STAYS.search(line):
            self.terminals.append(self.start(line))
        else:
            self.command, self.printed = line, self.run(line)

    def prepare(self, line: str) -> None:
        """Make the environment, unless that was done."""
        if self.installed:
            return
        if line.endswith("/activate"):
            self.environment["PATH"] = f"{self.folder}/.venv/bin:{self.environment['PATH']}"
        else:
            self.run(line)

    def run(self, line: str) -> str:
        """Return what a command prints; it has to end well."""
        done = subprocess.run(
            ["bash", "-c", line],
            cwd=self.folder, env=self.environment, text=True, capture_output=True, timeout=300, check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
        self.all_printed += done.stdout
        return done.stdout

    def start(self, line: str) -> subprocess.Popen[bytes]:
        """Start a program that stays, and wait until it says that it is ready."""
        log = self.folder.parent / f"terminal-{len(self.terminals)}.log"
        with log.open("wb") as output:
            terminal = subprocess.Popen(
                shlex.split(line),
                cwd=self.folder, env=self.environment, stdout=output, stderr=output, start_new_session=True,
            )  # fmt: skip
        ready = b"Quit the server" if "runserver" in line else b""
        until(
            lambda: ready in log.read_bytes() and terminal.poll() is None,
            within=WITHIN,
            what=lambda: f"{line}\n{log.read_text()}",
        )
        return terminal

    def do_text(self, expected: str) -> None:
        """Look for the lines in what was printed; a worker may need a moment, and the reader types it again."""

        def shown() -> bool:
            if all(line in self.printed for line in expected.splitlines()):
                return True
            self.printed = self.run(self.command)
            return False

        def said() -> str:
            return f"{self.command}\nprinted {self.printed!r}, not {expected!r}"

        if self.terminals and "manage.py" in self.command:  # curl would order again
            until(shown, within=WITHIN, what=said)
        else:
            assert shown(), said()

    def do_python(self, block: str) -> None:
        """Write the file, or add to its end, or type it into the shell."""
        first, _, text = block.partition("\n")
        if not re.match(r"# \S+\.py\b", first):
            self.type(f"python manage.py shell -v 0 -c {shlex.quote(block)}")
            return
        name, _, where = first.removeprefix("# ").partition(",")
        file = self.folder / name
        assert file.parent.is_dir(), f"{name}: the page made no such folder"
        if where:
            assert where.strip() == "at the end", first
            text = f"{file.read_text(encoding='utf-8')}\n{text}"
        file.write_text(text, encoding="utf-8")

    def do_stop(self, where: str) -> None:
        """Press Ctrl-C, which goes to all processes of a terminal."""
        for terminal in reversed(self.terminals) if "both" in where else self.terminals[-1:]:
            _signal(terminal, signal.SIGINT)
            terminal.wait(timeout=WITHIN)
        del self.terminals[0 if "both" in where else -1 :]

    def do_open(self, address: str) -> None:
        """Go to an address."""
        answer = self.tab.goto(address)
        assert answer is not None
        assert answer.status == 200, address

    def do_login(self, user: str, password: str) -> None:
        """Fill in the form of the admin."""
        self.tab.get_by_label("Username").fill(user)
        self.tab.get_by_label("Password").fill(password)
        self.tab.get_by_role("button", name="Log in").click()
        self.tab.get_by_role("button", name="Log out").wait_for()

    def do_click(self, name: str) -> None:
        """Click a link or a button, the first of that name."""
        link, button = (self.tab.get_by_role(role, name=name, exact=True) for role in ("link", "button"))
        link.or_(button).first.click()

    def do_message(self, text: str) -> None:
        """See the message."""
        until(lambda: text in self.tab.inner_text("body"), within=WITHIN, what=lambda: self.tab.inner_text("body"))


def _signal(terminal: subprocess.Popen[bytes], number: signal.Signals) -> None:
    if terminal.poll() is None:
        os.killpg(terminal.pid, number)
