"""Make the documents that the demo needs: good ones, and some that go wrong for honest reasons.

Made once with real libraries into a folder, by seeded chance, so that every machine has the same.
"""

import random
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from PIL import Image, ImageDraw
from reportlab.lib.pagesizes import A4
from reportlab.pdfgen.canvas import Canvas

REPORTS = 60
PICTURES = 60
THICK_PAGES = 2_400
LOG_BYTES = 24_000_000
MAP_PIXELS = (13_000, 13_000)

_WORDS = (
    "account archive balance carrier claim contract credit delivery depot district estimate forecast freight harbour "
    "index invoice journal ledger lease margin notice office order parcel payment permit quarter receipt record region "
    "report return route schedule season sender shipment station statement storage summary survey tariff vessel"
).split()


@dataclass(frozen=True, slots=True)
class Samples:
    """Where the made documents lie."""

    folder: Path

    @property
    def good(self) -> list[Path]:
        """The documents that can be indexed: PDFs, then pictures."""
        return [*self.reports, *sorted(self.pictures.iterdir())]

    @property
    def reports(self) -> list[Path]:
        """The PDFs that can be indexed."""
        return sorted((self.folder / "reports").iterdir())

    @property
    def pictures(self) -> Path:
        """The folder of the pictures that can be indexed."""
        return self.folder / "pictures"

    @property
    def truncated(self) -> Path:
        """A PDF whose upload broke off half-way."""
        return self.folder / "truncated.pdf"

    @property
    def thick(self) -> Path:
        """A sound PDF with more pages than documents.index accepts."""
        return self.folder / "thick.pdf"

    @property
    def log(self) -> Path:
        """A text file that is too large for documents.index, and for a search in the time that it has."""
        return self.folder / "access-log.txt"

    @property
    def map(self) -> Path:
        """A one-bit scan: small on the disk, hundreds of megabytes when it is decoded to colours."""
        return self.folder / "site-map.png"

    @property
    def odd(self) -> list[Path]:
        """The documents that documents.index cannot or may not read."""
        return [self.truncated, self.thick, self.log, self.map]


def make_samples(folder: Path) -> Samples:
    """Return the samples in a folder, making them unless they are there."""
    if not folder.exists():
        # Under another name until complete: a run that was stopped half-way must not pass for a finished one.
        unfinished = folder.with_name(f"{folder.name}.new")
        shutil.rmtree(unfinished, ignore_errors=True)
        _make(Samples(unfinished), random.Random(20))
        unfinished.rename(folder)
    return Samples(folder)


def _make(samples: Samples, chance: random.Random) -> None:
    for name in ("reports", "pictures"):
        (samples.folder / name).mkdir(parents=True)
    for number in range(1, REPORTS + 1):
        _make_report(samples.folder / "reports" / f"report-{number:02}.pdf", chance, pages=chance.randint(1, 9))
    for number in range(1, PICTURES + 1):
        suffix = ("png", "jpg", "gif")[number % 3]
        _make_picture(samples.folder / "pictures" / f"picture-{number:02}.{suffix}", chance)
    whole = (samples.folder / "reports" / "report-01.pdf").read_bytes()
    samples.truncated.write_bytes(whole[: len(whole) // 2])
    _make_report(samples.thick, chance, pages=THICK_PAGES, lines=1)
    _make_log(samples.log, chance)
    _make_map(samples.map)


def _sentence(chance: random.Random) -> str:
    return " ".join(chance.choices(_WORDS, k=chance.randint(8, 12))).capitalize() + "."


def _make_report(path: Path, chance: random.Random, *, pages: int, lines: int = 40) -> None:
    # invariant: without the time of its making, so that the file is the same everywhere.
    canvas = Canvas(str(path), pagesize=A4, invariant=True)
    for page in range(1, pages + 1):
        text = canvas.beginText(60, 780)
        text.textLine(f"{path.stem}, page {page} of {pages}")
        for _ in range(lines):
            text.textLine(_sentence(chance))
        canvas.drawText(text)
        canvas.showPage()
    canvas.save()


def _make_picture(path: Path, chance: random.Random) -> None:
    width, height = chance.randint(320, 1600), chance.randint(240, 1200)
    colours = [tuple(chance.randrange(256) for _ in range(3)) for _ in range(12)]
    image = Image.new("RGB", (width, height), colours[0])
    draw = ImageDraw.Draw(image)
    for colour in colours[1:]:
        left, top = chance.randrange(width), chance.randrange(height)
        box = (left, top, left + chance.randint(20, width), top + chance.randint(20, height))
        draw.ellipse(box, fill=colour)
    image.save(path)


def _make_log(path: Path, chance: random.Random) -> None:
    # A block of lines again and again: the search compares every letter all the same, and the making is quick.
    block = "".join(_log_lines(chance)).encode()
    with path.open("wb") as file:
        for _ in range(LOG_BYTES // len(block) + 1):
            file.write(block)


def _log_lines(chance: random.Random) -> Iterator[str]:
    for number in range(5_000):
        clock = f"{number // 3600:02}:{number // 60 % 60:02}:{number % 60:02}"
        yield f"{clock} GET /{chance.choice(_WORDS)}/{chance.choice(_WORDS)} {chance.choice((200, 200, 304, 404))}\n"


def _make_map(path: Path) -> None:
    width, height = MAP_PIXELS
    image = Image.new("1", MAP_PIXELS, 1)
    draw = ImageDraw.Draw(image)
    for step in range(0, width, 500):
        draw.line((step, 0, width - step, height), fill=0, width=3)
        draw.line((0, step, width, height - step), fill=0, width=3)
    image.save(path)
