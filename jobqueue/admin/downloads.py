"""Tables as CSV files that a spreadsheet can open without running what is in them."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from typing import Any, Final

from django.http import HttpResponse

#: What a spreadsheet takes for a formula, also in its wide form, or skips before one.
FORMULA: Final = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")  # noqa: RUF001


def csv_response(filename: str, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> HttpResponse:
    """Return a download of rows; texts that look like a formula get an apostrophe, numbers are as they are."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\r\n")
    writer.writerow([guarded(name) for name in header])
    writer.writerows([guarded(cell) for cell in row] for row in rows)
    headers = {"Content-Disposition": f'attachment; filename="{filename}"', "X-Content-Type-Options": "nosniff"}
    body = text.getvalue().encode("utf-8", "backslashreplace")
    return HttpResponse(body, content_type="text/csv; charset=utf-8", headers=headers)


def guarded(cell: Any) -> Any:
    """Return a cell that no spreadsheet calculates (CSV injection, OWASP)."""
    if not isinstance(cell, str):
        return cell
    return f"'{cell}" if cell.lstrip(" \u00a0\ufeff").startswith(FORMULA) else cell
