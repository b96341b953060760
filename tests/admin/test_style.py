"""The style sheet: colours and spacing come from its tokens alone, and texts stand out from what is behind them."""

import re
from pathlib import Path

import pytest
from django.contrib import admin

import jobqueue

STYLES = Path(str(admin.__file__)).parent / "static" / "admin" / "css"
SHEET = (Path(jobqueue.__file__).parent / "static" / "jobqueue" / "admin.css").read_text()
TOKENS, RULES = re.sub(r"/\*.*?\*/", "", SHEET, flags=re.DOTALL).split("}", 1)
THEMES = {
    "light": [(STYLES / "base.css").read_text()],
    "dark": [(STYLES / "base.css").read_text(), (STYLES / "dark_mode.css").read_text()],
}
BLOCKS = {"light": r'html\[data-theme="light"\],\s*:root \{(.*?)\}', "dark": r'html\[data-theme="dark"\] \{(.*?)\}'}
PAIRS = [
    *((f"--jq-{front}", f"--jq-{behind}") for front in ("quiet", "link", "alarm") for behind in ("page", "raised")),
    *(("--jq-text", f"--jq-{behind}") for behind in ("page", "raised", "chosen", "ok", "busy", "warn", "bad")),
]


def declared(block: str) -> dict[str, str]:
    return dict(re.findall(r"(--[\w-]+):\s*([^;]+);", block))


def variables(theme: str) -> dict[str, str]:
    """Return the variables of the theme, with the console's tokens among them."""
    found: dict[str, str] = {}
    for name, sheet in zip(("light", "dark"), THEMES[theme], strict=False):
        block = re.search(BLOCKS[name], sheet, flags=re.DOTALL)
        assert block is not None, name
        found |= declared(block[1])
    return found | declared(TOKENS)


def colour(name: str, theme: str) -> str:
    """Return what a variable is in the end; a fall-back is for other themes."""
    value = variables(theme)[name].strip()
    while inner := re.match(r"var\((--[\w-]+)", value):
        value = variables(theme)[inner[1]].strip()
    return value


def luminance(code: str) -> float:
    """Return the relative luminance as WCAG 2 has it."""
    digits = code.removeprefix("#")
    digits = "".join(digit * 2 for digit in digits) if len(digits) == 3 else digits
    parts = [int(digits[at : at + 2], 16) / 255 for at in (0, 2, 4)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    lighter, darker = sorted((luminance(one), luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def test_the_measure_is_the_one_of_wcag() -> None:
    assert contrast("#000", "#ffffff") == pytest.approx(21)
    assert contrast("#777", "#fff") == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize(("front", "behind"), PAIRS)
def test_a_text_stands_out(front: str, behind: str, theme: str) -> None:
    assert contrast(colour(front, theme), colour(behind, theme)) >= 4.5


def test_colours_are_named_among_the_tokens_only() -> None:
    assert re.findall(r"#[0-9a-fA-F]{3,8}\b(?=[^{}]*\})", SHEET) == []
    assert re.findall(r"\b(?:rgba?|hsla?)\(", SHEET) == []
    assert re.findall(r"var\(--(?!jq-)[\w-]+", RULES) == []
    assert "var(--jq-" not in TOKENS


def test_every_token_is_declared_and_used() -> None:
    used = set(re.findall(r"var\((--jq-[\w-]+)\)", RULES))
    names = {name for name in declared(TOKENS) if name.startswith("--jq-")}

    assert used <= names
    assert names - used <= {"--jq-5", "--jq-6", "--jq-hairline"}  # steps that a page may come to need


def test_spacing_is_of_the_scale() -> None:
    """A length of more than three pixels between things is one of the steps."""
    spaced = re.findall(r"(?:margin|padding|gap)(?:-\w+)?:\s*([^;}]+)", RULES)

    assert [text for text in spaced if re.search(r"(?<![\d.])(?:[4-9]|\d{2,})px", text)] == []
