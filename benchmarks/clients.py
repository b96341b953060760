"""Client processes that begin at the same moment when told, as often as they are told, and say what they did."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

from .worker import ROOT, environment


class ClientFailed(RuntimeError):
    """A client process ended with an error, which is above on standard error."""


class Clients:
    """So many processes of one role (see benchmarks.client), connected and warm; gone at the end of the block."""

    def __init__(
        self, role: str, amount: float, *, clients: int = 1, settings: Mapping[str, str] | None = None
    ) -> None:
        self._role = role
        self._processes = [
            subprocess.Popen(
                [sys.executable, "-m", "benchmarks.client", role, str(amount)],
                cwd=ROOT,
                env=environment(settings),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            for _ in range(clients)
        ]

    def __enter__(self) -> Self:
        if any(self._line(process) != "ready" for process in self._processes):
            raise ClientFailed(f"client {self._role} did not start")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for process in self._processes:
            process.kill()
            process.communicate()

    def go(self) -> list[dict[str, Any]]:
        """Have all of them work, and return what each tells."""
        for process in self._processes:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        return [json.loads(self._line(process)) for process in self._processes]

    def rate(self) -> float:
        """Have all of them work, and return how many a second they did together."""
        return float(sum(answer["count"] / answer["seconds"] for answer in self.go()))

    def _line(self, process: subprocess.Popen[str]) -> str:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            raise ClientFailed(f"client {self._role} ended with code {process.wait()}")
        return line.strip()
