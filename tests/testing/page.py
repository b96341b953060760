"""The examples of docs/testing.md as tests, which test_plugin.py runs in a pytest of its own, with the plugin."""

from typing import Any

import pytest

from tests.docs.pages import ROOT, blocks, name_of

HANDLERS, TESTING = ROOT / "docs" / "handlers.md", ROOT / "docs" / "testing.md"


def execute(text: str, name: str, module: str) -> dict[str, Any]:
    """Run an example as a module of its own."""
    namespace: dict[str, Any] = {"__name__": module}
    exec(compile(text, name, "exec"), namespace)
    return namespace


@pytest.fixture(autouse=True)
def in_the_projects_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the examples find README.md."""
    monkeypatch.chdir(ROOT)


execute(next(block.text for block in blocks(HANDLERS) if "shop.invoice" in block.text), "handlers.md", "shop.jobs")
for number, block in enumerate(blocks(TESTING)):
    names = execute(block.text, name_of(block.page), f"shop.tests_{number}")
    globals().update(
        {name: value for name, value in names.items() if name.startswith("test_") or name.endswith("Tests")}
    )
