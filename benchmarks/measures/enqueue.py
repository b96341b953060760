"""How fast jobs are enqueued, by the public API and by the barest SQL that writes the same rows.

One client, one job a transaction, against INSERT commits; many in one call, against COPY; eight clients while the
workers are busy, with NOTIFY on and off.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack

from benchmarks import database, figures, limit, seeding
from benchmarks.clients import Clients
from benchmarks.figures import Figure
from benchmarks.jobs import PAUSE
from benchmarks.plan import Plan
from benchmarks.sampling import Samples, take
from benchmarks.worker import NAME, Worker

SECONDS = 4.0  # for each kind of client in one sample
MANY = 100_000
CLIENTS = 8
PAUSE_SECONDS = 0.02
# The kinds work in turn, a slice each time: whatever else the machine does meets all of them alike.
SLICES, SLICES_OF_MANY = 8, 3
ALL_IDLE = "SELECT count(*) = {workers} FROM jobqueue_worker WHERE idle_since IS NOT NULL"
ALL_TAKEN = f"SELECT count(*) >= {{slots}} FROM jobqueue_job WHERE job_type = '{PAUSE}' AND status = 2"
NO_NOTIFY = {"JOBQUEUE_NOTIFY": "0"}


def measure_one(plan: Plan) -> list[Figure]:
    """Return the figure of one client that enqueues one job a transaction."""
    seconds = plan.seconds(SECONDS) / SLICES
    roles = {"enqueue": "enqueue", "enqueue in an atomic block": "atomic", "raw INSERT": "insert"}
    with database.connect() as connection:
        samples = take(plan, "enqueue-one", lambda: _compare(connection, roles, seconds, SLICES))
        connection.execute(f"DROP TABLE {limit.TABLE}")
    atomic = samples.values["enqueue in an atomic block"]
    share = figures.median(atomic) / samples.median("raw INSERT")
    return [
        _figure(
            "enqueue-one",
            "one client, one job a transaction, against raw single-row INSERT commits",
            samples,
            ("enqueue", "raw INSERT"),
            bar=60,
            notes=[f"in an atomic block each: {figures.rate(atomic)}, {share:.0%}"],
        )
    ]


def measure_many(plan: Plan) -> list[Figure]:
    """Return the figure of one enqueue_many()."""
    count = plan.size(MANY, least=1_000)
    roles = {"enqueue_many": "many", "raw COPY": "copy", "raw COPY of ready text": "copy-text"}
    with database.connect() as connection:
        samples = take(plan, "enqueue-many", lambda: _compare(connection, roles, count, SLICES_OF_MANY))
        connection.execute(f"DROP TABLE {limit.TABLE}")
    ready = samples.values["raw COPY of ready text"]
    share = samples.median("enqueue_many") / figures.median(ready)
    return [
        _figure(
            "enqueue-many",
            f"enqueue_many of {count:,} jobs, against a raw COPY of the same rows",
            samples,
            ("enqueue_many", "raw COPY"),
            bar=60,
            notes=[f"{share:.0%} of a COPY whose text was ready before the clock started: {figures.rate(ready)}"],
        )
    ]


def measure_busy(plan: Plan) -> list[Figure]:
    """Return the figure of eight clients beside a worker with its slots taken, and one that works on their jobs."""
    states = {
        "slots taken": f"with every slot taken by jobs of {PAUSE_SECONDS * 1000:.0f} ms",
        "draining": "with the worker draining the clients' own jobs",
    }
    return [_beside_workers(plan, "enqueue-busy", "a busy worker", states, bar=75)]


def measure_taken(plan: Plan) -> list[Figure]:
    """Return the figure of eight clients beside two workers with their slots taken."""
    states = {"slots taken": f"with every slot taken by jobs of {PAUSE_SECONDS * 1000:.0f} ms"}
    return [_beside_workers(plan, "enqueue-busy", "2 busy workers", states, bar=80, workers=2)]


def measure_asleep(plan: Plan) -> list[Figure]:
    """Return the figure of eight clients beside two workers asleep: that their jobs wake, and that stay asleep."""
    states = {
        "woken": "with workers that wake up for the clients' own jobs",
        "asleep": "with workers that find nothing to do whenever they are woken, since the queue is paused",
    }
    return [_beside_workers(plan, "enqueue-asleep", "2 workers asleep", states, bar=60, workers=2)]


def _beside_workers(
    plan: Plan, row: str, beside: str, states: Mapping[str, str], *, bar: float, workers: int = 1
) -> Figure:
    """Return the figure of eight clients beside workers in several states, of which the worst counts."""
    clients, seconds = min(CLIENTS, plan.size(CLIENTS, least=2)), plan.seconds(SECONDS) / SLICES
    with database.connect() as connection:
        samples = take(
            plan,
            row,
            lambda: {
                f"{state}, {kind}": rate
                for state in states
                for kind, rate in _beside(connection, clients, seconds, state, workers).items()
            },
        )
    shares = {state: samples.median(f"{state}, NOTIFY") / samples.median(f"{state}, no NOTIFY") for state in states}
    worst = min(shares, key=lambda state: shares[state])
    return _figure(
        row,
        f"{clients} clients enqueueing beside {beside}, against the same with NOTIFY off",
        samples,
        (f"{worst}, NOTIFY", f"{worst}, no NOTIFY"),
        bar=bar,
        notes=[f"{share:.0%} {states[state]}" for state, share in shares.items()] if len(states) > 1 else [],
    )


def _figure(row: str, work: str, samples: Samples, sides: tuple[str, str], *, bar: float, notes: list[str]) -> Figure:
    """Return a figure of one rate as a share of another."""
    product, limit_side = sides
    return Figure(
        row=row,
        work=work,
        value=100 * samples.median(product) / samples.median(limit_side),
        unit="%",
        bar=bar,
        better="higher",
        product=figures.rate(samples.values[product]),
        limit=figures.rate(samples.values[limit_side]),
        samples=samples.values,
        notes=notes,
        noise=samples.noise,
    )


def _compare(connection: database.Connection, roles: dict[str, str], amount: float, slices: int) -> dict[str, float]:
    """Return the rate of one client of each role, all at work in turn on tables that were empty at first."""
    database.empty(connection)
    limit.make_table(connection)
    connection.execute("CHECKPOINT", prepare=False)
    with ExitStack() as stack:
        return _in_turn({kind: stack.enter_context(Clients(role, amount)) for kind, role in roles.items()}, slices)


def _beside(
    connection: database.Connection, clients: int, seconds: float, state: str, workers: int
) -> dict[str, float]:
    """Return the clients' rates, by kind, beside workers that are in this state all the time."""
    database.empty(connection)
    with (
        ExitStack() as stack,
        Clients("enqueue", seconds, clients=clients) as notifying,
        Clients("enqueue", seconds, clients=clients, settings=NO_NOTIFY) as silent,
    ):
        if state == "asleep":
            connection.execute("INSERT INTO jobqueue_queue (name, paused_at) VALUES ('default', statement_timestamp())")
            stack.callback(connection.execute, "DELETE FROM jobqueue_queue")
        running = [stack.enter_context(Worker("--name", f"{NAME}-{number}")) for number in range(workers)]
        running[0].wait_until(connection, ALL_IDLE.format(workers=workers))
        if state == "slots taken":
            # Enough for twice the time, so that no slot is ever free.
            pauses = workers * int(2 * (2 * 2 * seconds * SLICES + 2) / PAUSE_SECONDS)
            seeding.enqueue_pauses(pauses, PAUSE_SECONDS)
            running[0].wait_until(connection, ALL_TAKEN.format(slots=2 * workers))
        return _in_turn({"NOTIFY": notifying, "no NOTIFY": silent}, SLICES)


def _in_turn(clients: dict[str, Clients], slices: int) -> dict[str, float]:
    """Have each kind of clients work in turn. Returns the mean rate of each."""
    rates: dict[str, list[float]] = {kind: [] for kind in clients}
    for _ in range(slices):
        for kind, group in clients.items():
            rates[kind].append(group.rate())
    return {kind: sum(values) / slices for kind, values in rates.items()}
