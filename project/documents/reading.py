"""Read one file: what kind it is, its text or picture, its checksum. Knows nothing of jobs or the database."""

import gzip
import hashlib
import io
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import BinaryIO

from PIL import Image
from pypdf import PdfReader
from pypdf.errors import PyPdfError

from project.documents.models import Document

Report = Callable[[int, str], None]

EXCERPT_CHARACTERS = 500
THUMBNAIL_PIXELS = (160, 160)
TEXT_MAX_BYTES = 50_000_000

_IMAGE_SIGNATURES = (b"\x89PNG", b"\xff\xd8\xff", b"GIF8", b"II*\0", b"MM\0*", b"BM")
_GZIP_SIGNATURE = b"\x1f\x8b"


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """What a file holds; what its kind does not have is None."""

    pages: int | None = None
    words: int | None = None
    excerpt: str = ""
    width: int | None = None
    height: int | None = None
    thumbnail: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading(Content):
    """What was read of one file."""

    kind: Document.Kind
    size_bytes: int
    sha256: str


def read_document(path: Path, report: Report) -> Reading:
    """Read a file and tell how far the reading is, in percent with a message.

    Raises what the libraries raise for files they cannot read: OSError, pypdf's and Pillow's errors.
    """
    with path.open("rb") as file:
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
        size_bytes = file.tell()
    report(5, "checksum")
    kind = kind_of(path)
    content = _READERS[kind](path, report)
    return Reading(kind=kind, size_bytes=size_bytes, sha256=sha256, **asdict(content))


def kind_of(path: Path) -> Document.Kind:
    """Return what a file holds by its first bytes: a name may promise anything."""
    with path.open("rb") as file:
        start = file.read(8192)
    if start.startswith(b"%PDF-"):
        return Document.Kind.PDF
    if start.startswith(_IMAGE_SIGNATURES) or (start[:4] == b"RIFF" and start[8:12] == b"WEBP"):
        return Document.Kind.IMAGE
    if b"\0" in start and not start.startswith(_GZIP_SIGNATURE):
        return Document.Kind.OTHER
    return Document.Kind.TEXT


def count_pages(path: Path) -> int | None:
    """Return the page count that a PDF states, or None for what is no readable PDF; reads only its directory."""
    try:
        if kind_of(path) is not Document.Kind.PDF:
            return None
        return PdfReader(path).get_num_pages()
    # A broken file is found out by its job, which says what is wrong; here it only has no page count.
    except (PyPdfError, OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def read_text(path: Path) -> str:
    """Return the text of a plain or gzipped file, at most TEXT_MAX_BYTES of it."""
    with path.open("rb") as file:
        zipped = file.read(2) == _GZIP_SIGNATURE
        file.seek(0)
        return _take(gzip.open(file) if zipped else file)


def _take(file: BinaryIO | gzip.GzipFile) -> str:
    return file.read(TEXT_MAX_BYTES).decode("utf-8", errors="replace")


def _pdf(path: Path, report: Report) -> Content:
    words, excerpt = 0, ""
    reader = PdfReader(path)
    pages = len(reader.pages)
    for number, page in enumerate(reader.pages, start=1):
        text = page.extract_text()
        words += len(text.split())
        if len(excerpt) < EXCERPT_CHARACTERS:
            excerpt = excerpt_of(f"{excerpt} {text}")
        report(5 + 90 * number // pages, f"page {number} of {pages}")
    return Content(pages=pages, words=words, excerpt=excerpt)


def _image(path: Path, report: Report) -> Content:
    with Image.open(path) as image:
        width, height = image.size
        # Shrinking mixes neighbours, which one-bit and palette pixels cannot show. This decodes the whole image:
        # Pillow refuses beyond 179 million pixels, what lies below is for the memory limit of the job type.
        small = image.convert("RGB")
    report(60, f"decoded {width} x {height}")
    small.thumbnail(THUMBNAIL_PIXELS)
    written = io.BytesIO()
    small.save(written, "PNG", optimize=True)
    return Content(width=width, height=height, thumbnail=written.getvalue())


def _text(path: Path, report: Report) -> Content:
    text = read_text(path)
    report(60, f"{len(text)} characters")
    return Content(words=len(text.split()), excerpt=excerpt_of(text))


def _other(_path: Path, _report: Report) -> Content:
    return Content()


_READERS: dict[Document.Kind, Callable[[Path, Report], Content]] = {
    Document.Kind.PDF: _pdf,
    Document.Kind.IMAGE: _image,
    Document.Kind.TEXT: _text,
    Document.Kind.OTHER: _other,
}


def excerpt_of(text: str) -> str:
    """Return the start of a text on one line, without what PostgreSQL cannot store: NUL and lone surrogates."""
    # Real PDFs hold both: fonts that map to half a character, and binary strings taken for text.
    line = " ".join(text[: 4 * EXCERPT_CHARACTERS].replace("\0", " ").split())
    return line[:EXCERPT_CHARACTERS].encode("utf-8", errors="replace").decode()
