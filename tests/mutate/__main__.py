"""Take each guard out in turn and run its tests: `python -m tests.mutate [--only NAME] [--jobs N]`.

Statements of jobqueue/sql are changed in the memory of a run of pytest that goes through many of them (session.py);
other files in a copy of the tree below the temp folder, with a run for each. Every run has a test database of its own,
on a server that is made for this and waits for no disk. Ends with 1 where a guard is gone and no test fails, or where
one fails although every guard stands.
"""

import argparse
import json
import os
import selectors
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from tests.faults.servers import PrivateServer, new_home

from .guard import ROOT, Guard
from .table import GUARDS

SILENCE_SECONDS = 180  # a run that says nothing for so long hangs: the guard's absence is noticed
PYTEST = [sys.executable, "-B", "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "", "--tb=short"]
FAILED_TESTS = 1  # pytest's exit code; higher ones are its own trouble
Verdict = tuple[str, str | None]  # the guard's name, and the first test that failed


def main() -> int:
    """Run what was asked for, and print a line a guard."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutate", description=__doc__)
    parser.add_argument("--only", metavar="NAME", help="guards whose name contains this")
    parser.add_argument("--jobs", type=int, default=2, help="how many at once")
    options = parser.parse_args()
    guards = [guard for guard in GUARDS if (options.only or "") in guard.name]
    statements = [guard for guard in guards if guard.path.suffix == ".sql"]
    shares = [statements[number :: options.jobs] for number in range(options.jobs)]
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="jobqueue-mutate-") as home, careless_server() as url:
        os.environ["DATABASE_URL"] = url
        trees = [copy_tree(Path(home) / str(number)) for number in range(options.jobs)]
        others = [guard for guard in guards if guard not in statements]
        with ThreadPoolExecutor(options.jobs) as pool:
            found = [*pool.map(go_through, shares, trees)]
            found += pool.map(
                lambda number: [*run_each(others[number :: options.jobs], trees[number])], range(options.jobs)
            )
    return report([verdict for part in found for verdict in part], time.monotonic() - started)


@contextmanager
def careless_server() -> Iterator[str]:
    """Give the URL of a server that would lose everything in a power cut, and is the faster for it."""
    server = PrivateServer(new_home(), config={"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"})
    try:
        yield server.create().url()
    finally:
        server.destroy()


def copy_tree(tree: Path) -> Path:
    """Copy what git knows of the checkout, changes not yet committed included."""
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split("\0")
    for name in filter(None, names):
        if (ROOT / name).is_file():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, tree / name)
    return tree


def go_through(guards: Sequence[Guard], tree: Path) -> list[Verdict]:
    """Have one run of pytest go through these guards, and another go on behind one at which it hangs."""
    verdicts: list[Verdict] = []
    left = list(guards)
    while left:
        for name, failed in one_session(left, tree):
            verdicts.append(say(name, failed))
            left.pop(0)
        if left:
            verdicts.append(say(left.pop(0).name, "the tests hang"))
    return verdicts


def one_session(guards: Sequence[Guard], tree: Path) -> Iterator[Verdict]:
    """Run pytest once for all these guards, and give each verdict as it comes, until the end or until silence."""
    answers, fd = os.pipe()
    environment = os.environ | {
        "JOBQUEUE_MUTATE": json.dumps([guard.name for guard in guards]),
        "JOBQUEUE_MUTATE_FD": str(fd),
    }
    tests = sorted({f"tests/{test}" for guard in guards for test in guard.tests.split()})
    files = [test for test in tests if test.split("::")[0] == test or test.split("::")[0] not in tests]
    log = tree / "session.log"
    with log.open("w") as out, selectors.DefaultSelector() as selector, os.fdopen(answers, "rb", buffering=0) as lines:
        command = [*PYTEST, "-p", "tests.mutate.session", *files]
        run = subprocess.Popen(command, cwd=tree, env=environment, pass_fds=[fd], stdout=out, stderr=out)
        os.close(fd)
        selector.register(lines, selectors.EVENT_READ)
        hangs = True
        try:
            while selector.select(SILENCE_SECONDS):
                line = lines.readline()
                if not line:
                    hangs = False
                    break
                name, failed, proves = json.loads(line)
                if not proves:
                    print(f"it fails although every guard stands: {failed}")
                yield name, failed if proves else None
        finally:
            if hangs:
                run.kill()
            run.wait()
    if run.returncode > FAILED_TESTS:
        msg = f"pytest ended with {run.returncode}:\n{log.read_text()[-3000:]}"
        raise RuntimeError(msg)


def run_each(guards: Sequence[Guard], tree: Path) -> Iterator[Verdict]:
    """Run pytest for each of these guards, with the changed file in the tree."""
    for guard in guards:
        path = tree / guard.path
        source = path.read_text(encoding="utf-8")
        path.write_text(guard.cut(source), encoding="utf-8")
        try:
            yield say(guard.name, run_tests(guard, tree))
        finally:
            path.write_text(source, encoding="utf-8")


def run_tests(guard: Guard, tree: Path) -> str | None:
    """Run a guard's tests in a tree. Returns the first that failed, None when all passed."""
    command = [*PYTEST, "-x", *(f"tests/{test}" for test in guard.tests.split())]
    try:
        ran = subprocess.run(command, cwd=tree, capture_output=True, text=True, timeout=SILENCE_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return "the tests hang"
    told = [line for line in ran.stdout.splitlines() if line.startswith(("FAILED ", "ERROR "))]
    if ran.returncode and not told:
        msg = f"{guard.name}: no test ran:\n{ran.stdout[-3000:]}{ran.stderr[-3000:]}"
        raise RuntimeError(msg)
    return told[0].split(" ")[1].removeprefix("tests/") if told else None


def say(name: str, failed: str | None) -> Verdict:
    """Print a line for one guard."""
    print(f"{name:58} {failed or 'SURVIVED'}", flush=True)
    return name, failed


def report(verdicts: Sequence[Verdict], seconds: float) -> int:
    """Say what survived, and return the exit code."""
    survivors = [name for name, failed in verdicts if failed is None]
    print(f"{len(verdicts)} guards, {len(survivors)} of them missed by no test, {seconds:.0f} s")
    for name in survivors:
        print(f"SURVIVED  {name}")
    return 1 if survivors or not verdicts else 0


if __name__ == "__main__":
    sys.exit(main())
