"""From a file or folder to the jobs that index it."""

import hashlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from django.conf import settings

from project.documents.reading import count_pages

SUFFIXES = frozenset(
    {"", ".gif", ".gz", ".html", ".jpeg", ".jpg", ".md", ".pdf", ".png", ".rst", ".tif", ".txt", ".webp"}
)
KEY_MAX_BYTES = 255


def is_allowed(path: Path) -> bool:
    """Tell whether a path lies in a folder that people may have indexed; links are followed first."""
    found = path.resolve()
    return any(found.is_relative_to(Path(root).resolve()) for root in settings.DOCUMENT_ROOTS)


def files_of(path: Path) -> Iterator[Path]:
    """Yield the file itself, or the documents below a folder by name, without links and hidden ones."""
    if path.is_file():
        yield path
        return
    for folder, folders, names in os.walk(path):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            file = Path(folder, name)
            if not name.startswith(".") and file.suffix.lower() in SUFFIXES and _is_indexable(file):
                yield file


def _is_indexable(file: Path) -> bool:
    # A name that is no UTF-8 cannot be written into a payload.
    return file.is_file() and not file.is_symlink() and os.fsencode(file).decode("utf-8", "replace") == str(file)


def index_jobs(files: Iterable[Path]) -> list[dict[str, Any]]:
    """Return one item a file for Job.objects.enqueue_many(), each with the numbers that its limits are checked by."""
    return [
        {"job_type": "documents.index", "payload": _payload(file), "dedupe_key": key_of(f"index:{file}")}
        for file in files
    ]


def _payload(file: Path) -> dict[str, Any]:
    payload: dict[str, Any] = {"path": str(file), "size_bytes": file.stat().st_size}
    pages = count_pages(file)
    return payload if pages is None else {**payload, "page_count": pages}


def key_of(text: str) -> str:
    """Return the text as a dedupe key: a long one is shortened by its checksum."""
    if len(text.encode()) <= KEY_MAX_BYTES:
        return text
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"
