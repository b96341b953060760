"""What an examination tells: findings by severity, what each check saw, and what could not be looked at."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple

Severity = Literal["notice", "warning", "error"]
Status = Literal["ok", "notice", "warning", "error", "unread"]

#: The worse, the higher; a part that could not be looked at counts as a warning.
RANKS: Final[dict[str, int]] = {"ok": 0, "notice": 1, "unread": 2, "warning": 2, "error": 3}


class Kind(NamedTuple):
    """A kind of finding: how bad it is, what it means, and what to do."""

    severity: Severity
    means: str
    do: str


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is not as it should be; `code` names its kind in the catalogue."""

    code: str
    subject: str  # the table, queue, worker … that it is about, or ""
    text: str
    kind: Kind

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON holds it, with what it means and what to do."""
        found = {"finding": self.code, "severity": self.kind.severity, "subject": self.subject, "text": self.text}
        return found | {"means": self.kind.means, "do": self.kind.do}


class Told(NamedTuple):
    """What one check saw, in a line, and its findings."""

    detail: str
    findings: Iterable[Finding] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """One check with its outcome; `unread` says why it could not be made, empty where it could."""

    name: str
    detail: str = ""
    findings: tuple[Finding, ...] = ()
    unread: str = ""

    @property
    def status(self) -> Status:
        """How it ended: by its worst finding."""
        if self.unread:
            return "unread"
        return max((each.kind.severity for each in self.findings), key=RANKS.__getitem__, default="ok")

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON holds it."""
        findings = [finding.to_json() for finding in self.findings]
        said = {"detail": self.detail, "findings": findings, "unread": self.unread}
        return {"check": self.name, "status": self.status, **said}


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """All checks, in the order in which they were made."""

    checks: tuple[Checked, ...]
    reachable: bool

    @property
    def findings(self) -> list[Finding]:
        """All findings, the worst first."""
        found = [finding for check in self.checks for finding in check.findings]
        return sorted(found, key=lambda finding: -RANKS[finding.kind.severity])

    @property
    def status(self) -> Status:
        """The worst of all checks; a warning is told before something that could not be looked at."""
        worst: list[Status] = ["error", "warning", "unread", "notice"]
        return next((each for each in worst if any(check.status == each for check in self.checks)), "ok")

    def to_json(self) -> dict[str, Any]:
        """Return the whole as JSON holds it."""
        checks = [check.to_json() for check in self.checks]
        return {"status": self.status, "reachable": self.reachable, "checks": checks}
