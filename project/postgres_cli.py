"""Command line of the embedded server: `python -m project.postgres start|stop|url|psql|run|remove`."""

import argparse
import os
import signal
import subprocess
import sys

from project.postgres import DATABASE, Server, default_home
from project.postgres_programs import installed_folder


def main(arguments: list[str] | None = None) -> int:
    """Carry out one command and return its exit status."""
    parser = _parser()
    options, rest = parser.parse_known_args(arguments)
    if rest and options.command != "psql":
        parser.error(f"unknown arguments: {' '.join(rest)}")
    server = Server(default_home())
    if options.command == "run":
        return _run(server, options.program)
    if options.command in ("stop", "remove"):
        getattr(server, options.command)()
        return 0
    server.ensure_running()
    if options.command == "psql":
        return _psql(server, rest)
    if options.command == "url":
        sys.stdout.write(server.url(options.database) + "\n")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m project.postgres", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("start", help="start the server unless it runs")
    commands.add_parser("stop", help="stop the server; its data stays")
    commands.add_parser("remove", help="stop the server and delete its data")
    url = commands.add_parser("url", help="start the server and print the URL of a database")
    url.add_argument("--database", default=DATABASE, help="the name in the URL (default: %(default)s)")
    commands.add_parser("psql", help="open psql on the database; all arguments are psql's", add_help=False)
    run = commands.add_parser("run", help="run a program with DATABASE_URL, and stop the server if this started it")
    run.add_argument("program", nargs=argparse.REMAINDER, help="the program and its arguments")
    return parser


def _psql(server: Server, arguments: list[str]) -> int:
    return subprocess.run([installed_folder() / "psql", server.url(), *arguments], check=False).returncode


def _run(server: Server, program: list[str]) -> int:
    signals = _Signals()
    if "DATABASE_URL" in os.environ:
        return signals.call(program, os.environ["DATABASE_URL"])
    was_running = server.pid() is not None
    try:
        return signals.call(program, server.ensure_running())
    finally:
        if not was_running:
            server.stop()


class _Signals:
    """Pass signals on to the program, from before it is started: this process has to outlive it to clean up."""

    def __init__(self) -> None:
        self._received: list[int] = []
        self._child: subprocess.Popen[bytes] | None = None
        # Ctrl-C reaches the program itself, being in the same group. A handler and not SIG_IGN, which it would inherit.
        signal.signal(signal.SIGINT, lambda *_: None)
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._pass_on)

    def call(self, program: list[str], url: str) -> int:
        """Run the program to its end and return its status as a shell would."""
        with subprocess.Popen(program, env={**os.environ, "DATABASE_URL": url}) as self._child:
            for number in self._received:
                self._child.send_signal(number)
            status = self._child.wait()
        return status if status >= 0 else 128 - status

    def _pass_on(self, number: int, _frame: object) -> None:
        self._received.append(number)
        if self._child is not None:
            self._child.send_signal(number)
