"""Write docs/benchmarks.md from saved results: figures, machine, versions, and how to repeat them."""

from __future__ import annotations

import json
from pathlib import Path
from textwrap import fill
from typing import Any

from .figures import Figure, bar, from_json, number

ROOT = Path(__file__).resolve().parent.parent
RESULTS = Path("benchmarks/results.json")
PAGE = Path("docs/benchmarks.md")

HEAD = """\
# Benchmarks

<!-- Written by `python -m benchmarks report` from {source}: change those, not this page. -->

What the queue does on a small machine, with real `runworker` processes and real clients, beside bare SQL for the same
rows on the same server in the same run. Absolute figures belong to the machine below; the ratios carry over.

{machine}

Medians of {repeats}; the two sides of each pair were measured in turn. "Noise" is the largest share of the processors
that programs other than the benchmark and its server took during a sample; a sample with more than 15 % was taken
again, up to twice.

| row | work | must be | is | product | against | noise |
|---|---|---|---|---|---|---|
"""
TAIL = """
## How it is measured

- **The limit of a drain** is one connection that claims 100 rows, settles them, and so on, prepared, by psycopg, with
  no other work in between. Its table is a copy of `jobqueue_job` with all columns, indexes and storage parameters.
- **A drain** is `manage.py runworker --drain --processes 2` with default settings: isolated children, fenced claims and
  settles, statistics. Its clock runs from the first claim to the last settle. Every handler counts itself in memory
  that all children share; a run in which one ran twice or not at all is an error, not a result.
- **Statistics**: the same drain by workers whose settles have the counting cut out of their text, in turn, two drains
  of each kind a sample. The rows are checked: every job is counted on one side, none on the other.
- **Enqueues** are made by processes of their own through `Job.objects`; INSERT and COPY write the same columns.
- **Latency** is read on one clock by both sides: after the commit, in an `on_commit` hook that runs before the
  product's own, and in the first line of the handler.
- **Claims beside a backlog** are made in turn in two databases of one server, 1, 10 and 100 at a time; the worst of
  the three counts.
- **The horizon** is a REPEATABLE READ transaction in another session that has read a row and stays open.
- **Memory** is read from `/proc` once the worker is idle again after its work: resident for the supervisor, private
  (what no other process shares) for the larger child.
- **The snapshot** is `Job.objects.ops(fresh=True)`, fifty times on one connection: figures of 20 queues, 50 workers and
  the database, with a day of statistics of 20 job types beside the jobs. Callers that share a look cost nothing.

## Repeat it

```
make bench                                      # the table above; status 1 when a row falls short
make bench BENCH="check engine --only drain"    # one row
make bench BENCH="latency --json"               # one benchmark, as JSON with every sample
make bench BENCH="check engine --save {results}" && .venv/bin/python -m benchmarks report
```

It uses the server of `DATABASE_URL`, or the checkout's own PostgreSQL, and a database of its own there, which it drops
again. All of it takes about ten minutes. Leave the machine alone meanwhile.
"""


def write(results: Path, output: Path) -> None:
    """Write the page."""
    text = page(json.loads(results.read_text()), str(results))
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(text)


def page(results: dict[str, Any], source: str) -> str:
    """Return the page's text."""
    found = [from_json(row) for row in results["rows"]]
    machine = fill(_machine(results["machine"]), 120)
    head = HEAD.format(source=f"`{source}`", machine=machine, repeats=results["repeats"])
    lines = "".join(_line(figure) for figure in found)
    notes = [f"- {figure.row}: {note}" for figure in found for note in figure.notes]
    beside = "\n## Beside the table\n\n" + "\n".join(notes) + "\n" if notes else ""
    scaled = "" if results["scale"] == 1 else f"\n**Sizes scaled by {results['scale']:g}: no measure of anything.**\n"
    return head + lines + scaled + beside + TAIL.format(results=source)


def _line(figure: Figure) -> str:
    value = number(figure.value, figure.unit)
    shown = f"**{value}**" if figure.holds else f"**{value}: short**"
    cells = (figure.row, figure.work, bar(figure), shown, figure.product, figure.limit, f"{figure.noise:.0%}")
    return f"| {' | '.join(cells)} |\n"


def _machine(about: dict[str, Any]) -> str:
    durable = ", ".join(f"{name} {value}" for name, value in about["durability"].items())
    changed = ", ".join(f"{name} = {value}" for name, value in about["changed_settings"].items())
    hardware = f"{about['cores']} cores of {about['processor']}, {about['memory_gb']} GB, {about['system']}"
    versions = f"Python {about['python']}, Django {about['django']}, psycopg {about['psycopg']}"
    return (
        f"{about['taken'][:10]}: {hardware}; PostgreSQL {about['postgresql']} at its defaults ({durable}"
        f"{'; but ' + changed if changed else ''}); {versions}, jobqueue {about['jobqueue']}."
    )
