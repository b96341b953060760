"""Rows whose every text is an attack, in every table, so that no page has a column that nobody thought of."""

from typing import Any

from jobqueue.models import (
    AlertRule,
    Budget,
    GroupNote,
    Host,
    Incident,
    Order,
    Queue,
    Release,
    Tick,
)
from jobqueue.outcomes import Outcome
from jobqueue.states import Status
from tests.factories import (
    ActionFactory,
    AttemptFactory,
    CostFactory,
    CounterFactory,
    JobFactory,
    StatFactory,
    WorkerFactory,
)

from .matrix import World

ATTACKS = [
    "<img src=x onerror=1>",
    "</script><script>1</script>",
    "\"'><svg onload=1>",
    "{{ 1 }}{% debug %}",
    "</pre><b>",
]
EVIL = "".join(ATTACKS)
JOB: dict[str, Any] = {
    **dict.fromkeys("job_type queue result last_error error_class fingerprint owner worker_id".split(), EVIL),
    **dict.fromkeys("trace_context task_backend".split(), EVIL),
    "payload": {EVIL: [EVIL]},
    "progress": {"message": EVIL, EVIL: EVIL},
    "open_costs": {EVIL: EVIL},
}
#: Columns of numbers by their meaning, or of which the database wants something else.
ELSEWHERE = {"Tick.name", "Action.action", "Order.kind", "Job.open_costs", "Host.name"}


def hostile_world() -> World:
    """Fill every table, and return the rows that have pages of their own."""
    JobFactory.create(**JOB)
    dead = JobFactory.create(status=Status.DEAD, **JOB, dedupe_key=EVIL)
    stuck = JobFactory.create(expired=True, **JOB)
    texts = dict.fromkeys("worker_id error_class error_text traceback fingerprint".split(), EVIL)
    attempt = AttemptFactory.create(job=dead, **texts)
    gauges = [{"name": EVIL, "labels": {EVIL: EVIL}, "value": 1.0, "at_seconds_ago": 0}]
    names = dict.fromkeys("worker_id name hostname version release".split(), EVIL)
    worker = WorkerFactory.create(**names, queues=[EVIL], job_types=[EVIL], gauges=gauges)
    incident = Incident.objects.create(rule=EVIL, subject=EVIL, text=EVIL, state=Incident.State.FIRING, value=1)
    told = dict.fromkeys("actor action reason subject address".split(), EVIL)
    action = ActionFactory.create(job_ids=[dead.pk], detail={EVIL: {"from": EVIL, "to": [EVIL]}}, **told)
    for subject in (f"alert:{EVIL}", "alert:dead_1h", f"group:{EVIL}"):
        ActionFactory.create(actor=EVIL, action="change_alert", reason=EVIL, subject=subject, refused=True)
    _others(dead, stuck)
    return World(pending=dead, dead=dead, stuck=stuck, attempt=attempt, worker=worker, incident=incident, action=action)


def _others(dead: Any, stuck: Any) -> None:
    for outcome in (Outcome.DONE, Outcome.FAILED):
        StatFactory.create(queue=EVIL, job_type=EVIL, outcome=outcome, wait_buckets=[18], run_buckets=[14])
    CostFactory.create(**dict.fromkeys("queue job_type owner component unit".split(), EVIL))
    CostFactory.create(queue=EVIL, job_type=EVIL, owner=EVIL, component=EVIL)
    CounterFactory.create(name=EVIL, labels={EVIL: EVIL})
    GroupNote.objects.create(
        **dict.fromkeys("fingerprint job_type note assignee updated_by".split(), EVIL), muted_until=None
    )
    for job in (dead, stuck):
        Order.objects.create(
            worker_id=EVIL, kind=Order.Kind.STACK, job_id=job.pk, lease_epoch=1, asked_by=EVIL, answer=EVIL
        )
    Queue.objects.create(name=EVIL, paused_by=EVIL, reason=EVIL)
    Release.objects.create(version=EVIL)
    Budget.objects.create(name=EVIL, unit=EVIL, **_rest_of(Budget))
    AlertRule.objects.create(name=EVIL, definition={"gauge": EVIL, "above": 1})
    Tick.objects.create(name="alerts", seen={"oldest_pending_sec": {"value": 9.5, "subject": EVIL}})
    Host.objects.create(name=EVIL)


def _rest_of(model: Any) -> dict[str, Any]:
    """Return what else a row needs: the least of each kind."""
    least = {"DateTimeField": "2026-01-01T00:00:00+00:00", "DecimalField": 1, "TextField": EVIL}
    return {
        each.name: least.get(each.get_internal_type(), 1)
        for each in model._meta.concrete_fields
        if not (each.null or each.has_default() or each.has_db_default() or each.name in ("name", "unit"))
    }
