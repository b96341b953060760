"""Tables as CSV files that a spreadsheet can open without running what is in them."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, Final

from django.http import HttpResponse, StreamingHttpResponse

#: What a spreadsheet takes for a formula, also in its wide form, or skips before one.
FORMULA: Final = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")  # noqa: RUF001


def csv_response(filename: str, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> HttpResponse:
    """Return a download of rows; texts that look like a formula get an apostrophe, numbers are as they are."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\r\n")
    writer.writerow([guarded(name) for name in header])
    writer.writerows([guarded(cell) for cell in row] for row in rows)
    body = text.getvalue().encode("utf-8", "backslashreplace")
    return HttpResponse(body, content_type="text/csv; charset=utf-8", headers=_headers(filename))


def streamed_csv(filename: str, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> StreamingHttpResponse:
    """Return such a download of rows that are read while it is sent."""

    def lines() -> Iterator[bytes]:
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\r\n")
        for row in chain([header], rows):
            writer.writerow([guarded(cell) for cell in row])
            yield text.getvalue().encode("utf-8", "backslashreplace")
            text.seek(0)
            text.truncate()

    return StreamingHttpResponse(lines(), content_type="text/csv; charset=utf-8", headers=_headers(filename))


def streamed_json(filename: str, lines: Iterable[str]) -> StreamingHttpResponse:
    """Return a download of JSON that is made while it is sent."""
    body = (line.encode("utf-8", "backslashreplace") for line in lines)
    return StreamingHttpResponse(body, content_type="application/json", headers=_headers(filename))


def _headers(filename: str) -> dict[str, str]:
    return {"Content-Disposition": f'attachment; filename="{filename}"', "X-Content-Type-Options": "nosniff"}


def guarded(cell: Any) -> Any:
    """Return a cell that no spreadsheet calculates (CSV injection, OWASP)."""
    if not isinstance(cell, str):
        return cell
    return f"'{cell}" if cell.lstrip(" \u00a0\ufeff").startswith(FORMULA) else cell
