"""The pages of reference that are made from the code. `make reference` writes them; test_reference.py compares."""

from collections.abc import Callable
from pathlib import Path

from tests.docs.pages import ROOT
from tests.docs.reference_api import api_page
from tests.docs.reference_sql import sql_page

PAGES: dict[Path, Callable[[], str]] = {ROOT / "docs" / "api.md": api_page, ROOT / "docs" / "sql.md": sql_page}
