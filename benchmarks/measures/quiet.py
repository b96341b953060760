"""What an idle worker costs, and how often NOTIFY is sent under load: ours and peers, at their defaults.

All workers are idle during the same minute: none of them takes enough to be in another's way. What counts is the
processor time of a worker's processes; what its polling costs the server is told beside it.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import psutil
import psycopg

from benchmarks.failures import BROKEN_OFF, in_a_line
from benchmarks.figures import Figure, median, rate
from benchmarks.machine import Noise, tree_seconds
from benchmarks.peers.base import Peer
from benchmarks.peers.catalogue import OURS, PEERS
from benchmarks.peers.errors import PeerFailed
from benchmarks.peers.processes import Workers
from benchmarks.peers.works.drain import estimate
from benchmarks.plan import Plan, say

PEERS_ASKED = (OURS, "pgqueuer", "oban", "procrastinate")
#: The channels that each sends to, as its own source has them.
CHANNELS = {
    OURS: ("jobqueue",),
    "pgqueuer": ("ch_pgqueuer",),
    "oban": ("oban_insert", "public.oban_insert"),
    "procrastinate": ("procrastinate_any_queue_v1",),
}
BAR = 0.5  # per cent of a core
MINUTE, PARTS = 60.0, 3
WARM_UP_JOBS = 100
BOOT_SECONDS, REST_SECONDS = 45.0, 3.0
LOAD_SECONDS = 4.0
MOST = 100_000  # jobs, more than anybody enqueues one by one in that time
PIDS = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND backend_type = 'client backend'"


@dataclass(frozen=True)
class Idle:
    """What one worker took while it was idle: per cent of a core a part of the minute, and connections."""

    worker: list[float]
    server: list[float]
    connections: int


def measure_idle(plan: Plan) -> list[Figure]:
    """Return the figures of connections and of the processor time of idle workers."""
    found: dict[str, Idle] = {}
    failed: dict[str, str] = {}
    with ExitStack() as stack, Noise() as noise:
        watched = {name: one for name in PEERS_ASKED if (one := _idle_worker(stack, name, failed)) is not None}
        time.sleep(plan.seconds(REST_SECONDS))
        for one in watched.values():
            one.begin()
        for _ in range(PARTS):
            time.sleep(plan.seconds(MINUTE) / PARTS)
            for one in watched.values():
                one.look()
        for name, one in watched.items():
            try:
                found[name] = one.end()
            except BROKEN_OFF as error:
                failed[name] = in_a_line(error)
    notes = [f"{name}: {reason}" for name, reason in failed.items()]
    figures = [_connections(found, notes, noise.share), _idle_cpu(found, notes, noise.share, plan.seconds(MINUTE))]
    return [figure for figure in figures if plan.wants(figure.row)]


def measure_notifies(plan: Plan) -> list[Figure]:
    """Return the figure of the NOTIFYs a second while one client enqueues one by one beside a busy worker."""
    seconds = plan.seconds(LOAD_SECONDS)
    sent: dict[str, list[float]] = {}
    enqueued: dict[str, list[float]] = {}
    alone: dict[str, float] = {}  # NOTIFYs a job while the worker has nothing else to do
    failed: dict[str, str] = {}
    with ExitStack() as stack, Noise() as noise:
        peers = {name: peer for name in PEERS_ASKED if (peer := _open(stack, name, failed)) is not None}
        for number in range(plan.repeats):
            for name, peer in peers.items():
                if name in failed:
                    continue
                try:
                    with peer.turn():
                        if name not in alone:
                            alone[name] = heard_at_all(_share(_notifies(peer, seconds, busy=False)))
                        heard, told_rate = _notifies(peer, seconds, busy=True)
                except BROKEN_OFF as error:
                    failed[name] = in_a_line(error)
                    continue
                say(f"notifies {number + 1}: {name} {heard:,.0f}/s of {told_rate:,.0f} enqueues/s")
                sent.setdefault(name, []).append(heard)
                enqueued.setdefault(name, []).append(told_rate)
    told = [
        f"{name}: {median(sent[name]):,.0f}/s, {_share((median(sent[name]), median(enqueued[name]))):.2f} a job of"
        f" {median(enqueued[name]):,.0f}/s; {alone[name]:.2f} a job where the worker has nothing else to do"
        for name in sent
    ]
    return [
        Figure(
            row="notifies",
            work="NOTIFYs a second while one client enqueues one by one beside a worker that has a backlog",
            value=median(sent.get(OURS, [float("nan")])),
            unit="/s",
            bar=None,
            better="lower",
            product=rate(sent.get(OURS, [float("nan")])),
            limit="; ".join(f"{name}: {median(heard):,.0f}/s" for name, heard in sent.items() if name != OURS),
            samples=sent,
            notes=[*told, *(f"{name}: {reason}" for name, reason in failed.items())],
            noise=noise.share,
        )
    ]


class Watch:
    """One worker that is idle: its processes and its connections."""

    def __init__(self, peer: Peer, running: Workers, connection: psycopg.Connection[Any], others: set[int]) -> None:
        self._running, self._connection, self._others = running, connection, others
        self._peer = peer
        self._worker: list[float] = []
        self._server: list[float] = []
        self._at, self._before = 0.0, (0.0, 0.0)

    def begin(self) -> None:
        """Start the clock."""
        self._at, self._before = time.monotonic(), self._seconds()

    def look(self) -> None:
        """Note what was used since the last look."""
        now, used = time.monotonic(), self._seconds()
        for told, after, before in zip((self._worker, self._server), used, self._before, strict=True):
            told.append(100 * (after - before) / (now - self._at))
        self._at, self._before = now, used

    def end(self) -> Idle:
        """Return what was noted. Raises PeerFailed where the worker has ended meanwhile."""
        self._running.check()
        return Idle(self._worker, self._server, len(self._backends()))

    def _backends(self) -> set[int]:
        return {row[0] for row in self._connection.execute(PIDS)} - self._others

    def _seconds(self) -> tuple[float, float]:
        worker = sum(tree_seconds(process.pid) for process in self._running.processes)
        server = 0.0
        for pid in self._backends():
            with contextlib.suppress(psutil.Error):  # a server elsewhere, or a connection that has just ended
                times = psutil.Process(pid).cpu_times()
                server += times.user + times.system
        return worker, server


def _open(stack: ExitStack, name: str, failed: dict[str, str]) -> Peer | None:
    try:
        if name not in PEERS:
            raise PeerFailed("there is no driver for it")
        return stack.enter_context(Peer(name))
    except BROKEN_OFF as error:
        failed[name] = in_a_line(error)
        return None


def _idle_worker(stack: ExitStack, name: str, failed: dict[str, str]) -> Watch | None:
    """Start a worker, have it run some jobs, and leave it alone."""
    peer = _open(stack, name, failed)
    if peer is None:
        return None
    try:
        peer.reset()
        peer.fill(WARM_UP_JOBS)
        connection = stack.enter_context(peer.connect())
        others = {row[0] for row in connection.execute(PIDS)}
        running = stack.enter_context(peer.workers(1))
        _wait_for_all(peer, running, WARM_UP_JOBS)
    except BROKEN_OFF as error:
        failed[name] = in_a_line(error)
        return None
    return Watch(peer, running, connection, others)


def _wait_for_all(peer: Peer, running: Workers, jobs: int) -> None:
    give_up = time.monotonic() + BOOT_SECONDS
    while not peer.tally.all_began(jobs):
        running.check()
        if time.monotonic() > give_up:
            raise PeerFailed(f"its worker did not run {jobs} jobs within {BOOT_SECONDS:.0f} s: {running.log()}")
        time.sleep(0.05)


def heard_at_all(share: float) -> float:
    """Return the share. Raises PeerFailed for none: whoever sleeps is woken, so the listener is deaf."""
    if share <= 0:
        raise PeerFailed("not one NOTIFY was heard beside an idle worker: CHANNELS has not what it sends to")
    return share


def _share(heard_and_enqueued: tuple[float, float]) -> float:
    heard, enqueued = heard_and_enqueued
    return heard / enqueued


def _notifies(peer: Peer, seconds: float, *, busy: bool) -> tuple[float, float]:
    """Return NOTIFYs and enqueues a second beside a worker that is busy all the time, or has nothing else to do."""
    jobs = max(WARM_UP_JOBS, round(estimate(peer) * (seconds + REST_SECONDS))) if busy else WARM_UP_JOBS
    peer.reset()
    peer.fill(jobs)
    with peer.workers(1) as running, peer.connect() as listener:
        _wait_for_all(peer, running, WARM_UP_JOBS if not busy else 1)
        for channel in CHANNELS[peer.name]:
            listener.execute(psycopg.sql.SQL("LISTEN {}").format(psycopg.sql.Identifier(channel)))
        if not busy:
            time.sleep(REST_SECONDS)  # until it sleeps: one that is never asked to sleep need not be woken once
        first = peer.take_numbers(MOST)
        done = peer.call("one_by_one", first=first, count=MOST, seconds=seconds)
        heard = sum(1 for _ in listener.notifies(timeout=1))
        running.check()
    peer.tally.check_once(0, peer.jobs, all_of_them=False)
    return heard / done["seconds"], done["count"] / done["seconds"]


def _connections(found: dict[str, Idle], notes: Sequence[str], noise: float) -> Figure:
    told = [f"{name}: {idle.connections}" for name, idle in found.items()]
    return Figure(
        row="connections",
        work="database connections of one idle worker, at its defaults",
        value=found[OURS].connections if OURS in found else float("nan"),
        unit="of them",
        bar=None,
        better="lower",
        product=_first(told, OURS),
        limit=_rest(told, OURS),
        samples={name: [float(idle.connections)] for name, idle in found.items()},
        notes=list(notes),
        noise=noise,
    )


def _idle_cpu(found: dict[str, Idle], notes: Sequence[str], noise: float, seconds: float) -> Figure:
    means = {name: sum(idle.worker) / PARTS for name, idle in found.items()}
    told = [
        f"{name}: {means[name]:.2f} % ({min(idle.worker):.2f} to {max(idle.worker):.2f}), and the server"
        f" {sum(idle.server) / PARTS:.2f} % for it"
        for name, idle in found.items()
    ]
    return Figure(
        row="idle-cpu",
        work=f"processor time of one idle worker over {seconds:.0f} s, of one core",
        value=means.get(OURS, float("nan")),
        unit="%",
        bar=BAR,
        better="lower",
        product=_first(told, OURS),
        limit=_rest([f"{name}: {mean:.2f} %" for name, mean in means.items()], OURS),
        samples={name: idle.worker for name, idle in found.items()},
        notes=[*told, *notes],
        noise=noise,
    )


def _first(told: Sequence[str], name: str) -> str:
    return next((one.removeprefix(f"{name}: ") for one in told if one.startswith(f"{name}: ")), "failed")


def _rest(told: Sequence[str], name: str) -> str:
    return "; ".join(one for one in told if not one.startswith(f"{name}: "))
