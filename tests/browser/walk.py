"""What the walk looks at on each page, by scripts of its own within the browser."""

import io
import os
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import Page as Tab

#: A list goes on as it begins.
TALLEST = 2_600

# What WCAG 1.4.12 has a page bear. A style element would be stopped by the policy; a sheet of the script's own is not.
SPACED = """() => {
    const sheet = new CSSStyleSheet();
    sheet.replaceSync(`
        * { line-height: 1.5 !important; letter-spacing: 0.12em !important; word-spacing: 0.16em !important }
        p { margin-bottom: 2em !important }`);
    document.adoptedStyleSheets = [...document.adoptedStyleSheets, sheet];
}"""

# The page scrolls sideways: because of these. What scrolls within an element of its own is no matter.
BEYOND = """() => {
    if (document.documentElement.scrollWidth <= window.innerWidth) return [];
    const scrolls = one => one && (['auto', 'scroll', 'hidden', 'clip'].includes(getComputedStyle(one).overflowX)
        || scrolls(one.parentElement));
    const wide = [...document.body.querySelectorAll('*')].filter(one =>
        one.getBoundingClientRect().right > window.innerWidth + 0.5 && !scrolls(one.parentElement));
    return ['the page is wider than its window', ...wide.map(one => one.outerHTML.slice(0, 120))];
}"""

# Elements whose text is cut off: it is wider or higher than they are, and there is no way to scroll.
CUT_OFF = """() => [...document.querySelectorAll('#content-start *')].filter(one => {
    const style = getComputedStyle(one);
    const hides = value => value === 'hidden' || value === 'clip';
    return one.checkVisibility() && one.textContent.trim() && one.clientWidth > 1
        && !one.closest('.visually-hidden, .jobqueue-hidden')
        && ((hides(style.overflowX) && one.scrollWidth > one.clientWidth + 1)
            || (hides(style.overflowY) && one.scrollHeight > one.clientHeight + 1));
}).map(one => one.outerHTML.slice(0, 200))"""

# Which elements somebody at a keyboard has to reach, and how each looks without the focus.
READY = """() => {
    const look = one => {
        const style = getComputedStyle(one);
        return ['outlineStyle', 'outlineWidth', 'outlineColor', 'boxShadow', 'borderColor', 'backgroundColor', 'color',
                'textDecorationLine'].map(name => style[name]).join('|');
    };
    const selector = 'a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex="0"]';
    const all = [...document.querySelectorAll('#content-start :is(' + selector + ')')]
        .filter(one => one.checkVisibility({visibilityProperty: true}) && !one.disabled)
        .filter(one => one.type !== 'radio' || one.checked
            || (!document.querySelector(`input[name="${one.name}"]:checked`)
                && one === document.querySelector(`input[name="${one.name}"]`)));
    window.walk = {all, look, before: new Map(all.map(one => [one, look(one)])), seen: new Set(), unseen: []};
    return all.length;
}"""
STEP = """() => {
    const here = document.activeElement, walk = window.walk;
    if (!here.closest('#content-start') || here.id === 'content-start') return false;
    walk.seen.add(here);
    const before = walk.before.get(here);
    if (before !== undefined && walk.look(here) === before) walk.unseen.push(here.outerHTML.slice(0, 200));
    return true;
}"""
MISSED = "() => window.walk.all.filter(one => !window.walk.seen.has(one)).map(one => one.outerHTML.slice(0, 200))"


def beyond(tab: Tab) -> list[str]:
    """Return what makes the page itself scroll sideways; nothing where it does not."""
    found: list[str] = tab.evaluate(BEYOND)
    return found


def cut_off(tab: Tab) -> list[str]:
    """Return the elements whose text does not fit them."""
    found: list[str] = tab.evaluate(CUT_OFF)
    return found


def space_out(tab: Tab) -> None:
    """Put more space between letters, words, lines and paragraphs, as some readers do."""
    tab.evaluate(SPACED)


def by_keyboard(tab: Tab) -> tuple[list[str], list[str]]:
    """Go through the page by Tab; return what was not reached, and what did not show that it had the focus."""
    tab.locator("#content-start").focus()
    count: int = tab.evaluate(READY)
    for _press in range(2 * count + 20):
        tab.keyboard.press("Tab")
        if not tab.evaluate(STEP):
            break
    missed: list[str] = tab.evaluate(MISSED)
    unseen: list[str] = tab.evaluate("window.walk.unseen")
    return missed, unseen


def moving(tab: Tab) -> list[Any]:
    """Return what moves on the page."""
    found: list[Any] = tab.evaluate(
        "document.getAnimations().filter(one => one.playState === 'running').map(one => one.effect.target.outerHTML)"
    )
    return found


def keep_pictures(tab: Tab, name: str) -> None:
    """Take pictures into the folder that SCREENSHOTS names: light, dark, and as wide as a small phone."""
    if folder := os.environ.get("SCREENSHOTS"):
        size = tab.viewport_size
        assert size is not None
        _keep(tab, Path(folder) / f"{name}-light.png")
        tab.emulate_media(color_scheme="dark")
        tab.wait_for_timeout(400)  # colours of the theme pass into one another
        _keep(tab, Path(folder) / f"{name}-dark.png")
        tab.emulate_media(color_scheme="light")
        tab.set_viewport_size({"width": 320, "height": 640})
        tab.wait_for_timeout(400)
        _keep(tab, Path(folder) / f"{name}-320.png")
        tab.set_viewport_size(size)


def _keep(tab: Tab, path: Path) -> None:
    """Take one in few colours: it goes into the repository."""
    picture = Image.open(io.BytesIO(tab.screenshot(full_page=True))).convert("RGB")
    picture = picture.crop((0, 0, picture.width, min(picture.height, TALLEST)))
    small = picture.quantize(64, method=Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE)
    path.parent.mkdir(parents=True, exist_ok=True)
    small.save(path, optimize=True)
