"""Write docs/benchmarks.md from saved results: figures, machine, versions, charts, and how to repeat them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from textwrap import fill
from typing import Any

from . import charts
from .catalogue import CHECKS
from .figures import Figure, bar, from_json, median, number, short
from .peers.catalogue import OURS, PEERS
from .report_texts import CLOSING, ENGINE, HEAD, MEASURED, NOISE, REPEAT, SPEED, TABLE
from .report_texts import PEERS as EVERY_PEER
from .saving import Results, runs

FOLDER = Path("benchmarks")
PAGE = Path("docs/benchmarks.md")
IMAGES = Path("images/benchmarks")  # beside the page
UNSHOWN = ("seconds", "jobs a call", "boot s")
WITHOUT_WORKERS = ("enqueue", "bulk")
COMPARED = (*charts.CHARTS, ("mixed", "enqueued/s"))


def saved() -> list[Path]:
    """Return the files that a report is made of where none is named."""
    return [path for pattern in ("results.json", "speed.json", "peers*.json") for path in sorted(FOLDER.glob(pattern))]


def write(sources: Sequence[Path], output: Path) -> None:
    """Write the page, and the charts beside it."""
    results = [json.loads(source.read_text()) for source in sources]
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(page(results, [str(source) for source in sources]))
    rows = _peer_rows(results)
    if rows:
        charts.write(rows, output.parent / IMAGES)


def page(results: Sequence[Results], sources: Sequence[str]) -> str:
    """Return the page's text, made of any results of `check engine`, `check speed` and `--peers`."""
    speed = [one for one in results if one.get("suite") == "speed"]
    engine = [one for one in results if one not in speed and not _is_of_peers(one)]
    rows = _peer_rows(results)
    named = fill(", ".join(f"`{source}`" for source in sources), 118, subsequent_indent="     ")
    parts = [HEAD.format(sources=named)]
    machines = dict.fromkeys(fill(_machine(run["machine"]), 120) for one in results for run in _runs(one))
    parts += [f"\n{machine}\n" for machine in machines]
    repeats = sorted({one["repeats"] for one in results})
    parts.append("\n" + NOISE.format(repeats=" or ".join(map(str, repeats))))
    for one in speed:
        parts += [SPEED.format(verdict=fill(verdict(_figures(one)), 118)), _table(one)]
    if rows:
        parts.append(EVERY_PEER + _every_peer(rows))
    for one in engine:
        parts += [ENGINE, _table(one)]
    return "".join(parts) + MEASURED + REPEAT.format(closing=fill(CLOSING.format(took=_took(results)), 118))


def verdict(figures: Sequence[Figure]) -> str:
    """Say which rows fall short, and in which of them a peer is ahead of us."""
    missed = short(figures)
    behind = [f"{one.row} ({told})" for one in figures if (told := _behind(one))]
    held = f"**Short of their bar: {', '.join(missed)}.**" if missed else "All rows below hold."
    return held + (f" A peer is ahead in: {'; '.join(behind)}." if behind else " No peer is ahead in any of them.")


def ahead(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a line a work in which a peer is ahead of us, which ones and by how much; or we have no figure."""
    lines = []
    for work, value in COMPARED:
        for workers in sorted({row["workers"] for row in rows if row["work"] == work}):
            found = [row for row in rows if (row["work"], row["workers"]) == (work, workers) and value in row["values"]]
            own = [median(row["values"][value]) for row in found if row["peer"] == OURS]
            if own:
                lower = value.endswith(" ms")
                better = [
                    f"{_name(row)} {_told(value, row['values'][value])}{' (Redis)' if PEERS[row['peer']].redis else ''}"
                    for row in found
                    if row["peer"] != OURS and (median(row["values"][value]) < own[0]) == lower
                ]
                if better:
                    ours = f"- {work}{_with(workers)}, {value}: ours {_told(value, own)}"
                    lines.append(fill(f"{ours}; {'; '.join(better)}", 118, subsequent_indent="  "))
            elif found:
                lines.append(f"- {work}{_with(workers)}, {value}: there is no figure of ours to compare with")
    return lines


def _every_peer(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the words on who is ahead, the charts, and a table a work."""
    better = ahead(rows)
    told = (
        "Where a peer is ahead of us:\n\n" + "\n".join(better) if better else "No peer is ahead in any of these works."
    )
    parts = [f"\n{told}\n"]
    drawn = charts.of_rows(rows)
    for work in dict.fromkeys(row["work"] for row in rows):
        parts.append(f"\n### {work}\n\n")
        images = [name for name in drawn if name == work or name.startswith(f"{work}-")]
        parts += [f"![{drawn[name][0]}]({IMAGES}/{name}.svg)\n\n" for name in images]
        parts.append(_work_table([row for row in rows if row["work"] == work]))
    return "".join(parts) + "\n### Versions and settings\n\n" + _settings(rows)


def _work_table(rows: Sequence[Mapping[str, Any]]) -> str:
    names = list(dict.fromkeys(name for row in rows for name in row["values"] if name not in UNSHOWN))

    def best_first(row: Mapping[str, Any]) -> tuple[int, bool, float]:
        first = next((name for name in names if name in row["values"]), "")
        value = median(row["values"][first]) if first else 0.0
        return row["workers"], not first, value if first.endswith(" ms") else -value

    head = ("peer", "workers", *names, "jobs", "noise", "")
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    for row in sorted(rows, key=best_first):
        figures = [_told(name, row["values"][name], spread=True) if name in row["values"] else "" for name in names]
        jobs = f"{max(row['jobs']):,}" if row["jobs"] else ""
        noise = f"{row['noise']:.0%}" if row["values"] else ""
        note = _cell(row["error"] or "; ".join(row["notes"][:1]))
        workers = "" if row["work"] in WITHOUT_WORKERS else str(row["workers"])
        lines.append(f"| {' | '.join([_name(row), workers, *figures, jobs, noise, note])} |")
    return "\n".join(lines) + "\n"


def _settings(rows: Sequence[Mapping[str, Any]]) -> str:
    lines = {}
    for row in rows:
        if about := row["about"]:
            versions = ", ".join(f"{name} {version}" for name, version in about["versions"].items())
            cells = (_name(row), _cell(about["settings"]), f"{versions}; Python {about['python']}")
            lines[_name(row)] = f"| {' | '.join(cells)} |"
    return "| peer | settings | versions |\n|---|---|---|\n" + "\n".join(lines.values()) + "\n"


def _table(results: Results) -> str:
    figures = _figures(results)
    notes = [f"- {figure.row}: {_cell(note)}" for figure in figures for note in figure.notes]
    beside = "\nBeside the table:\n\n" + "\n".join(notes) + "\n" if notes else ""
    scaled = "" if results["scale"] == 1 else f"\n**Sizes scaled by {results['scale']:g}: no measure of anything.**\n"
    return TABLE + "".join(map(_line, figures)) + scaled + _origin(results) + beside


def _origin(results: Results) -> str:
    """Say which rows of the table are missing, and which come from which run, where that was not one run."""
    told = []
    rows = [row for benchmark in CHECKS.get(results.get("suite", ""), ()) for row in benchmark.rows]
    if missing := [row for row in rows if row not in {row["row"] for row in results["rows"]}]:
        told.append(f"**Not measured: {', '.join(missing)}.**")
    if len(found := _runs(results)) > 1:
        each = [f"{', '.join(run['rows'])} of {run['machine']['taken'][:16].replace('T', ' ')}" for run in found]
        told.append(f"These rows come from {len(found)} runs, which started (UTC): {'; '.join(each)}.")
    return "".join(f"\n{fill(one, 118)}\n" for one in told)


def _line(figure: Figure) -> str:
    value = number(figure.value, figure.unit)
    shown = f"**{value}**" if figure.holds else f"**{value}: short**"
    cells = (figure.row, figure.work, bar(figure), shown, figure.product, figure.limit, f"{figure.noise:.0%}")
    return f"| {' | '.join(cells)} |\n"


def _machine(about: Mapping[str, Any]) -> str:
    durable = ", ".join(f"{name} {value}" for name, value in about["durability"].items())
    changed = ", ".join(f"{name} = {value}" for name, value in about["changed_settings"].items())
    hardware = f"{about['cores']} cores of {about['processor']}, {about['memory_gb']} GB, {about['system']}"
    versions = f"Python {about['python']}, Django {about['django']}, psycopg {about['psycopg']}"
    return (
        f"{about['taken'][:10]}: {hardware}; PostgreSQL {about['postgresql']} at its defaults ({durable}"
        f"{'; but ' + changed if changed else ''}); {versions}, jobqueue {about['jobqueue']}."
    )


def _took(results: Sequence[Results]) -> str:
    told = [
        f"`check {one['suite']}` took {max(1, round(sum(one['took_seconds'].values()) / 60))} minutes"
        for one in results
        if one.get("took_seconds")
    ]
    return f"The last {' and '.join(told)}." if told else "`make bench` takes about ten minutes."


def _behind(figure: Figure) -> str:
    """Say which peers are ahead of us in a row that compares with peers; nothing where none is."""
    if OURS in figure.samples:  # a value a peer, less of which is better
        middle = fmean if figure.unit == "%" else median
        own = round(middle(figure.samples[OURS]), 2)  # as it is shown
        return ", ".join(name for name, values in figure.samples.items() if round(middle(values), 2) < own)
    compared = figure.unit == "x" and any(note.startswith(f"{OURS}") for note in figure.notes)
    behind = figure.value < 1 if figure.better == "higher" else figure.value > 1
    return f"{figure.limit}, ours {figure.product}" if compared and behind else ""


def _figures(results: Results) -> list[Figure]:
    return [from_json(row) for row in results["rows"]]


def _runs(results: Results) -> list[dict[str, Any]]:
    return [{"machine": results["machine"], "rows": []}] if _is_of_peers(results) else runs(results)


def _is_of_peers(results: Results) -> bool:
    return any("peer" in row for row in results["rows"])


def _peer_rows(results: Sequence[Results]) -> list[Mapping[str, Any]]:
    return [row for one in results if _is_of_peers(one) for row in one["rows"]]


def _name(row: Mapping[str, Any]) -> str:
    return f"{row['peer']}, tuned" if row["tuned"] else str(row["peer"])


def _with(workers: int) -> str:
    return f", {workers} workers" if workers > 1 else ""


def _told(name: str, values: Sequence[float], *, spread: bool = False) -> str:
    digits = 0 if median(values) >= 100 or name.startswith(("jobs ", "future ")) else 2
    middle = f"{median(values):,.{digits}f}"
    return f"{middle} ({min(values):,.{digits}f} to {max(values):,.{digits}f})" if spread else middle


def _cell(text: str, most: int = 200) -> str:
    flat = " ".join(text.replace("|", "/").split())
    return flat if len(flat) <= most else flat[:most] + " …"
