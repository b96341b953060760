"""Directed walks through the rules of the state machine: every change of every verb, without luck."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from jobqueue.states import TRANSITIONS, Status

from .jobs import CANCELLED, DEAD, DONE, PENDING, RUNNING, SCHEDULED
from .machine import JobMachine
from .steps import LATER

Change = tuple[int | None, int | None]

#: What each verb may do to a job's status, as docs/states.md says; None is before the enqueue and after the prune.
#: What ends an attempt may also enqueue a job that tells of it.
MAY: Final[dict[str, set[Change]]] = {
    "enqueue": {(None, PENDING), (None, SCHEDULED)},
    "claim": {(PENDING, RUNNING)},
    "renew": set(),
    "progress": set(),
    "write costs": set(),
    "complete": {(RUNNING, DONE)},
    "fail": {(RUNNING, SCHEDULED), (RUNNING, DEAD), (RUNNING, CANCELLED), (None, PENDING)},
    "settle": {(RUNNING, other) for other in (DONE, PENDING, SCHEDULED, DEAD, CANCELLED)} | {(None, PENDING)},
    "release": {(RUNNING, PENDING), (RUNNING, SCHEDULED), (RUNNING, CANCELLED)},
    "release strays": {(RUNNING, PENDING), (RUNNING, CANCELLED)},
    "reap": {(RUNNING, PENDING), (RUNNING, DEAD), (RUNNING, CANCELLED), (None, PENDING)},
    "promote": {(SCHEDULED, PENDING)},
    "cancel": {(PENDING, CANCELLED), (SCHEDULED, CANCELLED)},
    "redrive": {(DEAD, PENDING), (DEAD, SCHEDULED)},
    "discard": {(DEAD, CANCELLED)},
    "release_stuck": {(RUNNING, PENDING), (RUNNING, CANCELLED)},
    "prune": {(DONE, None), (DEAD, None), (CANCELLED, None)},
    "fold": set(),
}
CELLS: Final = {(verb, *change) for verb, changes in MAY.items() for change in changes}
#: Allowed, to move a job to another time; no verb does that yet (docs/states.md).
WITHOUT_A_VERB: Final = {(PENDING, SCHEDULED), (SCHEDULED, SCHEDULED)}
ALLOWED: Final = {(int(old), int(new)) for old, news in TRANSITIONS.items() for new in news if old != Status.WAITING}


ALL: Final = [0, 1, 2, 3, 4, 5]


def _spec(**terms: Any) -> dict[str, Any]:
    usual = {"job_type": "probe.ok", "queue": "one", "priority": 100, "dedupe_key": "k", "max_attempts": 2}
    return {**usual, "delay": None, **terms}


def _end(kind: str) -> Callable[[JobMachine], None]:
    return lambda machine: machine.settle(0, [((0, ""), kind, ())])


def _sent_by(who: str, wrong: str) -> dict[str, Callable[[JobMachine], None]]:
    """Return what somebody sends who does not hold the lease: a run of an older epoch, or another worker."""
    pick = (0, wrong)
    return {
        f"{who}-renew": lambda machine: machine.renew(1, [pick], 0.5),
        f"{who}-progress": lambda machine: machine.progress(1, pick, 50),
        f"{who}-spend": lambda machine: machine.write_costs(1, pick, [7]),
        f"{who}-complete": lambda machine: machine.settle_by_manager(1, [pick], single=True, fails=None),
        f"{who}-complete-within": lambda machine: machine.complete_within(1, pick, rolls_back=False),
        f"{who}-fail": lambda machine: machine.settle_by_manager(1, [pick], single=False, fails="retry"),
        f"{who}-release": lambda machine: machine.release(1, [pick], single=True, delay=None),
        f"{who}-settle": lambda machine: machine.settle(1, [(pick, "done", ())]),
    }


WORDS: Final[dict[str, Callable[[JobMachine], None]]] = {
    "enqueue": lambda machine: machine.enqueue(0, _spec(), "enqueue"),
    "enqueue-free": lambda machine: machine.enqueue(0, _spec(dedupe_key=None), "enqueue"),
    "enqueue-two": lambda machine: machine.enqueue_many(0, [_spec(dedupe_key=None), _spec(dedupe_key=None)]),
    "enqueue-urgent": lambda machine: machine.enqueue(0, _spec(dedupe_key=None, priority=50), "enqueue"),
    "enqueue-elsewhere": lambda machine: machine.enqueue(0, _spec(dedupe_key=None, queue="two"), "enqueue"),
    "claim-two": lambda machine: machine.claim(1, "w1", ["one", "two"], 2, None, by_worker=True),
    "strays-but-one": lambda machine: machine.release_strays(0, "w1", [0]),
    "strange-strays": lambda machine: machine.release_strays(0, "w2", []),
    "enqueue-for-one-attempt": lambda machine: machine.enqueue(0, _spec(max_attempts=1), "get_or_enqueue"),
    "enqueue-for-later": lambda machine: machine.enqueue_many(0, [_spec(delay=1_000)]),
    "enqueue-one-for-later": lambda machine: machine.enqueue(0, _spec(delay=1_000), "enqueue"),
    "promote": lambda machine: machine.promote(0, 3, passes=1_800),
    "claim": lambda machine: machine.claim(1, "w1", ["one"], 1, None, by_worker=True),
    "renew": lambda machine: machine.renew(0, [(0, "")], 0.5),
    "complete": lambda machine: machine.settle_by_manager(0, [(0, "")], single=True, fails=None),
    "complete-within": lambda machine: machine.complete_within(0, (0, ""), rolls_back=False),
    "fail": lambda machine: machine.settle_by_manager(0, [(0, "")], single=True, fails="retry"),
    "die": lambda machine: machine.settle_by_manager(0, [(0, "")], single=True, fails="dead"),
    "settle-done": _end("done"),
    "settle-failed": _end("failed"),
    "settle-deadline": _end("deadline"),
    "settle-memory": _end("memory"),
    "settle-interrupted": _end("interrupted"),
    "settle-discarded": _end("discarded"),
    "settle-unstorable-result": _end("result not storable"),
    "settle-unstorable-error": _end("error not storable"),
    "unknown-here": _end("type unknown here"),
    "put-back": lambda machine: machine.release(0, [(0, "")], single=True, delay=None),
    "snooze": _end("snoozed"),
    "release-later": lambda machine: machine.release(0, [(0, "")], single=True, delay=LATER),
    "strays": lambda machine: machine.release_strays(0, "w1", []),
    "reap": lambda machine: machine.reap(0, 3, passes=1_800),
    "cancel-all": lambda machine: machine.cancel(0, by_person=False, picks=ALL, reason="why"),
    "redrive-all": lambda machine: machine.redrive(0, by_person=False, picks=ALL, seconds=0),
    "discard-all": lambda machine: machine.discard(0, by_person=False, picks=ALL, reason=""),
    "claim-ok": lambda machine: machine.claim(1, "w1", ["one"], 1, ["probe.ok"], by_worker=False),
    "reap-one": lambda machine: machine.reap(0, 1),
    "cancel": lambda machine: machine.cancel(0, by_person=False, picks=[0], reason="why"),
    "redrive": lambda machine: machine.redrive(0, by_person=True, picks=[0], seconds=0),
    "redrive-spread": lambda machine: machine.redrive(0, by_person=False, picks=[0], seconds=1_000),
    "discard": lambda machine: machine.discard(0, by_person=True, picks=[0], reason="why"),
    "release-stuck": lambda machine: machine.release_stuck(0, by_person=True, picks=[0], reason="", passes=900),
    "release-stuck-at-once": lambda machine: machine.release_stuck(0, by_person=False, picks=[0], reason=""),
    "progress": lambda machine: machine.progress(0, (0, ""), 50),
    "spend": lambda machine: machine.write_costs(0, (0, ""), [125, 50]),
    "spend-more": lambda machine: machine.write_costs(0, (0, ""), [150, -50]),
    "prune-done": lambda machine: machine.prune(0, DONE, 0, 3),
    "prune-dead": lambda machine: machine.prune(0, DEAD, 0, 3),
    "prune-dead-late": lambda machine: machine.prune(0, DEAD, 1_000, 3),
    "prune-cancelled": lambda machine: machine.prune(0, CANCELLED, 0, 3),
    "begin": lambda machine: machine.begin(0),
    "commit": lambda machine: machine.end(0, commits=True),
    "roll-back": lambda machine: machine.end(0, commits=False),
    "refer-to-it": lambda machine: machine.lock_row(0, 0, "KEY SHARE"),
    "lose-the-connection": lambda machine: machine.lose_connection(0),
    "lock": lambda machine: machine.lock_row(0, 0, "UPDATE"),
    "other-claims": lambda machine: machine.claim(1, "w2", ["one"], 1, None, by_worker=False),
    "other-renews": lambda machine: machine.renew(1, [(0, "")], None),
    "other-reaps": lambda machine: machine.reap(1, 3),
    "other-prunes": lambda machine: machine.prune(1, DONE, 0, 3),
    "other-promotes": lambda machine: machine.promote(1, 3),
    "other-enqueues": lambda machine: machine.enqueue(1, _spec(), "enqueue"),
    "other-settles": lambda machine: machine.settle(1, [((0, ""), "done", ())]),
    "other-cancels": lambda machine: machine.cancel(1, by_person=True, picks=[0], reason=""),
    **_sent_by("stale", "older"),
    **_sent_by("strange", "worker"),
    "time": lambda machine: machine.pass_time(1_800),
}

#: Each starts with empty tables.
WALKS: Final = """
enqueue claim renew progress complete complete prune-done
enqueue claim complete-within complete prune-done
enqueue claim settle-done settle-done time
enqueue cancel prune-cancelled
enqueue-for-later cancel
enqueue-for-later promote claim fail fail promote claim fail redrive claim
enqueue claim die discard prune-cancelled
enqueue claim cancel fail
enqueue claim settle-failed promote claim settle-failed redrive-spread promote claim settle-done
enqueue-for-one-attempt claim settle-deadline prune-dead
enqueue claim settle-deadline promote claim settle-memory
enqueue claim settle-interrupted claim settle-interrupted claim settle-interrupted claim settle-interrupted
enqueue claim settle-discarded
enqueue claim cancel settle-interrupted
enqueue claim settle-unstorable-result promote claim settle-unstorable-error
enqueue claim unknown-here promote claim unknown-here promote claim renew reap
enqueue claim progress put-back claim release-later promote claim snooze promote claim cancel put-back
enqueue claim progress strays claim cancel strays
enqueue claim progress reap claim reap
enqueue claim cancel reap
enqueue claim spend spend-more reap claim reap time
enqueue claim spend release-stuck claim spend cancel release-stuck
enqueue claim spend complete prune-done
enqueue claim spend fail promote claim spend complete-within
enqueue claim spend put-back claim spend settle-interrupted claim reap
enqueue claim spend strays claim reap
enqueue claim stale-spend strange-spend reap
enqueue claim other-reaps release-stuck-at-once
enqueue-free enqueue-free claim claim time renew reap-one reap-one
enqueue-for-one-attempt claim settle-interrupted claim settle-interrupted claim settle-interrupted
enqueue-free enqueue-free enqueue-urgent enqueue-elsewhere claim-two claim-two strays-but-one strange-strays
enqueue-free enqueue-free claim reap claim claim
enqueue-two claim claim
enqueue claim stale-renew stale-progress stale-complete stale-complete-within stale-fail stale-release stale-settle
enqueue claim strange-renew strange-progress strange-complete strange-complete-within strange-fail strange-release
enqueue claim strange-settle renew complete strange-complete stale-complete strange-settle stale-settle
enqueue claim die enqueue redrive cancel redrive claim die enqueue claim die redrive discard
enqueue claim die enqueue claim-ok die redrive-all claim-ok settle-done discard-all
enqueue claim die cancel-all
enqueue claim complete cancel-all discard-all redrive-all
enqueue claim cancel cancel redrive discard prune-dead reap release-stuck
enqueue claim complete cancel redrive discard promote claim reap
enqueue-for-later other-promotes promote
enqueue-one-for-later other-promotes promote
enqueue claim complete enqueue claim complete time
enqueue claim unknown-here promote claim renew release-stuck
enqueue claim die time prune-dead-late enqueue claim die prune-dead-late
enqueue claim progress release-stuck claim cancel release-stuck
enqueue begin cancel other-claims commit other-claims
enqueue begin lock other-claims roll-back other-claims
enqueue begin refer-to-it other-claims
enqueue claim complete begin refer-to-it other-prunes roll-back other-prunes
enqueue claim time begin lock other-renews other-reaps other-settles other-cancels roll-back other-reaps
enqueue-for-later time begin lock other-promotes roll-back other-promotes
begin enqueue other-enqueues other-claims roll-back other-enqueues
begin enqueue other-enqueues commit other-enqueues other-claims
enqueue claim begin complete other-renews other-settles roll-back other-renews
enqueue claim begin complete other-reaps commit other-settles
enqueue claim begin complete lose-the-connection other-settles
"""


def walk(machine: JobMachine, words: str) -> None:
    """Take the steps of one line."""
    for word in words.split():
        WORDS[word](machine)
