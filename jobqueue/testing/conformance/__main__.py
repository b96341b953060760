"""The kit without the project's own pytest settings: `python -m jobqueue.testing.conformance --tasks-backend=…`."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

try:
    import pytest
except ImportError as error:
    raise SystemExit("the conformance kit needs pytest: pip install 'jobqueue[test]'") from error

_OWN = ("-c", os.devnull, "--rootdir", ".", "-p", "no:cacheprovider", "-p", "no:django", "--noconftest")


def main(arguments: list[str], plugins: Sequence[object] = ()) -> int:
    """Run it, without pytest-django and without the settings of a project's pytest."""
    named = [*_OWN, "-p", "jobqueue.testing.conformance.plugin", "--pyargs", "jobqueue.testing.conformance", *arguments]
    return int(pytest.main(named, plugins=list(plugins)))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
