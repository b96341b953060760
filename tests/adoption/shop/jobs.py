"""The handler of the README."""

import hashlib
from pathlib import Path
from typing import Any

from jobqueue import MB, Backoff, Limits, job


@job(
    "shop.checksum", max_attempts=5, backoff=Backoff(base=5, cap=600), limits=Limits(duration=60, memory_bytes=256 * MB)
)
def checksum(context: Any, *, path: str) -> dict[str, str]:
    """Read a file; what is returned is kept as the job's result."""
    data = Path(path).read_bytes()
    context.progress(50, "read")
    return {"sha256": hashlib.sha256(data).hexdigest()}
