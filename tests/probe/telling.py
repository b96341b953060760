"""Functions that are told of dead letters: one writes them down, one fails."""

import json
import os
import time
from pathlib import Path

from jobqueue.notifiers import Notification


def tell(event: Notification) -> None:
    """Write the event down where PROBE_TOLD says."""
    Path(os.environ["PROBE_TOLD"]).write_text(json.dumps(event.to_json()))


def fail(event: Notification) -> None:
    """Be unable to tell anybody."""
    raise RuntimeError("the mail server is down")


def tell_slowly(event: Notification) -> None:
    """Take a second for it."""
    time.sleep(1)
