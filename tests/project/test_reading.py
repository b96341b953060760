"""project.documents.reading and searching: what is read from real files."""

import gzip
import hashlib
from pathlib import Path

import pytest
from PIL import Image
from pypdf import PdfReader
from pypdf.errors import PyPdfError

from project.documents.models import Document
from project.documents.reading import count_pages, excerpt_of, kind_of, read_document
from project.documents.searching import Match, best_match
from project.samples import Samples


def silent(percent: int, message: str) -> None:
    """Take a report of progress and do nothing with it."""


def test_a_pdf_gives_pages_words_and_an_excerpt(samples: Samples) -> None:
    path = samples.folder / "reports" / "report-02.pdf"
    reports: list[int] = []

    reading = read_document(path, lambda percent, message: reports.append(percent))

    assert reading.kind == Document.Kind.PDF
    assert reading.pages == len(PdfReader(path).pages)
    assert reading.words is not None
    assert reading.words > 300
    assert reading.excerpt.startswith("report-02, page 1 of")
    assert reading.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert reports == sorted(reports)
    assert reports[-1] == 95


@pytest.mark.parametrize("suffix", ["png", "jpg", "gif", "tif", "webp", "bmp"])
def test_a_picture_gives_its_size_and_a_small_png(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"picture.{suffix}"
    Image.new("RGB", (640, 320), "teal").save(path)

    reading = read_document(path, silent)

    assert (reading.kind, reading.width, reading.height) == (Document.Kind.IMAGE, 640, 320)
    assert reading.thumbnail is not None
    assert reading.thumbnail.startswith(b"\x89PNG")


def test_a_text_gives_its_words_also_when_it_is_gzipped(tmp_path: Path) -> None:
    plain, zipped = tmp_path / "a.txt", tmp_path / "a.gz"
    plain.write_text("three small wörds\n")
    zipped.write_bytes(gzip.compress(plain.read_bytes()))

    readings = [read_document(path, silent) for path in (plain, zipped)]

    assert [reading.words for reading in readings] == [3, 3]
    assert [reading.excerpt for reading in readings] == ["three small wörds"] * 2
    assert readings[0].sha256 != readings[1].sha256


def test_the_kind_is_told_by_the_content_not_by_the_name(tmp_path: Path) -> None:
    program = tmp_path / "invoice.pdf"
    program.write_bytes(b"\x7fELF\0\0\0")

    assert kind_of(program) == Document.Kind.OTHER
    assert read_document(program, silent).words is None
    assert count_pages(program) is None


def test_an_empty_file_is_a_text_without_words(tmp_path: Path) -> None:
    path = tmp_path / "empty.txt"
    path.touch()

    assert read_document(path, silent).words == 0


def test_an_excerpt_can_always_be_stored() -> None:
    assert excerpt_of("a\0b \ud800c") == "a b ?c"
    assert len(excerpt_of("word " * 1000)) == 500


def test_a_truncated_pdf_cannot_be_read_and_has_no_page_count(samples: Samples) -> None:
    assert count_pages(samples.truncated) is None
    with pytest.raises(PyPdfError):
        read_document(samples.truncated, silent)


def test_counting_pages_survives_a_file_that_is_gone(tmp_path: Path) -> None:
    assert count_pages(tmp_path / "gone.pdf") is None


@pytest.mark.parametrize(
    ("text", "phrase", "match"),
    [
        ("the permit is granted", "permit", Match(0, 10)),
        ("the permmit is granted", "permit", Match(1, 11)),
        ("nothing", "xyz", Match(3, 0)),
        ("", "abc", Match(3, 0)),
    ],
)
def test_a_phrase_is_found_although_it_is_misspelt(text: str, phrase: str, match: Match) -> None:
    assert best_match(text, phrase, silent) == match


def test_an_empty_phrase_is_refused() -> None:
    with pytest.raises(ValueError, match="empty"):
        best_match("text", "", silent)
