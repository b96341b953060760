"""Every address of the console with what it takes to come in: test_matrix.py holds the pages to it.

An address of the admin without a row here fails the tests. `needs` has one set of permissions for each way in, and
`NOBODY` where even a superuser has none. Addresses that do several things have a row for each.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

from django.contrib import admin
from django.urls import reverse

from jobqueue.models import Action, Attempt, Incident, Job, Worker

ACTED_ON = "_selected_action"
Ways = tuple[frozenset[str], ...]
NOBODY: Ways = ()
#: Of addresses that only lead to another, which asks for itself.
ANY_STAFF: Ways = (frozenset(),)


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """Rows that the addresses are about."""

    pending: Job
    dead: Job
    stuck: Job
    attempt: Attempt
    worker: Worker
    incident: Incident
    action: Action

    @property
    def group(self) -> dict[str, str]:
        """The group of the dead letter, as its page is asked for."""
        return {"fingerprint": self.dead.fingerprint or "", "job_type": self.dead.job_type}


@dataclass(frozen=True, slots=True)
class Row:
    """One thing that an address does, by one method."""

    name: str
    method: str
    needs: Ways
    args: Callable[[World], Iterable[Any]] = lambda _world: ()
    query: Callable[[World], dict[str, Any]] = lambda _world: {}
    data: Callable[[World], dict[str, Any]] = lambda _world: {}
    what: str = ""
    answers: frozenset[int] = field(default=frozenset({200, 302}))

    def __str__(self) -> str:
        return f"{self.method} {self.name} {self.what}".strip()

    def url(self, world: World) -> str:
        """Return the address, with its query."""
        query = urlencode(self.query(world), doseq=True)
        return reverse(f"admin:jobqueue_{self.name}", args=[*self.args(world)]) + (f"?{query}" if query else "")


def needs(*ways: str) -> Ways:
    """Return the ways in, each a permission or several with spaces between: needs("view_job retry_job")."""
    return tuple(frozenset(way.split()) for way in ways)


VIEW = needs("view_job")
WORKERS = needs("view_worker", "manage_worker")
MANAGE_ALERT = needs("manage_alert")
RULES = needs("view_incident", "manage_alert")
RULE: Callable[[World], Iterable[Any]] = lambda _world: ("dead_1h",)  # noqa: E731


def of(attribute: str) -> Callable[[World], Iterable[Any]]:
    """Return the arguments of the page of one row of the world."""
    return lambda world: (getattr(world, attribute).pk,)


def act(verb: str, attribute: str) -> Row:
    """Return the row of a button on the page of a job."""
    return Row(
        "job_act", "POST", needs(f"view_job {verb}_job"), lambda world: (getattr(world, attribute).pk, verb), what=verb
    )


def take(page: str, verb: str, way: str, attribute: str, **data: Any) -> Row:
    """Return the row of an action of a list."""
    return Row(
        f"{page}_changelist",
        "POST",
        needs(way),
        data=lambda world: {"action": verb, "index": 0, ACTED_ON: getattr(world, attribute).pk, **data},
        what=verb,
    )


def part(name: str, *ways: str) -> Row:
    """Return the row of a part of the overview."""
    return Row("overview", "GET", needs(*ways), lambda _world: (name,), what=name)


def say(what: str, way: str = "view_job retry_job", **data: Any) -> Row:
    """Return the row of something that people say of a group."""
    return Row(
        "deadletter_note",
        "POST",
        needs(way),
        lambda _world: (what,),
        data=lambda world: {**world.group, **data},
        what=what,
    )


def closed(model: str, attribute: str, args: Callable[[World], Iterable[Any]] | None = None) -> list[Row]:
    """Return the rows of the forms that the stock admin has and the console has not."""
    one = args or of(attribute)
    return [
        Row(f"{model}_add", "GET", NOBODY),
        Row(f"{model}_add", "POST", NOBODY),
        Row(f"{model}_change", "POST", NOBODY, one, data=lambda _world: {"status": 1}),
        Row(f"{model}_delete", "GET", NOBODY, one),
        Row(f"{model}_delete", "POST", NOBODY, one, data=lambda _world: {"post": "yes"}),
    ]


def leading(model: str, attribute: str) -> list[Row]:
    """Return the rows of a list whose rows have their page elsewhere."""
    rows = [row for row in stock(model, attribute, "view_job") if row.name != f"{model}_change"]
    return [*rows, *(Row(f"{model}_change", method, ANY_STAFF, of(attribute)) for method in ("GET", "POST"))]


def stock(model: str, attribute: str, permission: str) -> list[Row]:
    """Return the rows of the stock pages that only show."""
    way = needs(permission)
    return [
        Row(f"{model}_changelist", "GET", way),
        Row(f"{model}_change", "GET", way, of(attribute)),
        Row(f"{model}_history", "GET", way, of(attribute)),
        *closed(model, attribute),
    ]


ROWS: list[Row] = [
    # Jobs
    *stock("job", "pending", "view_job"),
    *(act(verb, on) for verb, on in (("retry", "dead"), ("discard", "dead"), ("cancel", "pending"))),
    act("release", "stuck"),
    Row("job_json", "GET", VIEW, lambda world: (world.dead.pk, "payload")),
    Row("job_state", "GET", VIEW, of("pending"), answers=frozenset({200, 286})),
    Row("job_stack", "GET", needs("view_job manage_worker"), of("stuck"), answers=frozenset({200, 286})),
    Row("job_ask_stack", "POST", needs("view_job manage_worker"), of("stuck")),
    Row("job_kill", "POST", needs("view_job manage_worker"), of("stuck")),
    Row("job_edit", "GET", needs("view_job edit_payload retry_job"), of("dead")),
    Row("job_edit", "POST", needs("view_job edit_payload retry_job"), of("dead"), data=lambda _world: {"payload": "{"}),
    Row("job_retry_at", "POST", needs("view_job retry_job"), of("dead"), data=lambda _w: {"when": "2030-01-01T00:00"}),
    Row("job_clone", "POST", needs("view_job retry_job"), of("dead")),
    Row("job_unmasked", "POST", needs("view_job view_payload"), of("dead")),
    take("job", "retry", "view_job retry_job", "dead"),
    take("job", "discard", "view_job discard_job", "dead", confirmed=1),
    take("job", "cancel", "view_job cancel_job", "pending", confirmed=1),
    take("job", "release", "view_job release_job", "stuck"),
    *stock("attempt", "attempt", "view_job"),
    # The overview
    *(part(name, "view_job") for name in ("status", "trend", "groups")),
    part("queues", "view_job", "manage_queue"),
    part("alerts", "view_incident"),
    part("workers", "view_worker", "manage_worker"),
    part("costs", "view_cost"),
    # Dead letters
    *leading("deadletter", "dead"),
    Row("deadletter_group", "GET", VIEW, query=lambda world: world.group),
    say("hand_over", assignee=""),
    say("note", note="seen"),
    say("mute", span="hour"),
    say("unmute"),
    take("deadletter", "retry", "view_job retry_job", "dead"),
    take("deadletter", "discard", "view_job discard_job", "dead", confirmed=1),
    take("deadletter", "edit_field", "view_job edit_payload retry_job", "dead"),
    # Stuck jobs
    *leading("stuckjob", "stuck"),
    take("stuckjob", "release", "view_job release_job", "stuck"),
    Row("stuckjob_part", "GET", VIEW),
    take("stuckjob", "mark_dead", "view_job release_job", "stuck", confirmed=1),
    take("stuckjob", "cancel", "view_job cancel_job", "stuck", confirmed=1),
    # Queues
    Row("queue_changelist", "GET", needs("view_job", "manage_queue")),
    Row("queue_part", "GET", needs("view_job", "manage_queue")),
    Row("queue_pause", "GET", needs("manage_queue"), query=lambda _world: {"queue": "mail"}),
    Row("queue_pause", "POST", needs("manage_queue"), data=lambda _w: {"queue": "mail", "until_choice": "hour"}),
    Row("queue_resume", "GET", needs("manage_queue"), query=lambda _world: {"queue": "mail"}),
    Row("queue_resume", "POST", needs("manage_queue"), data=lambda _world: {"queue": "mail"}),
    # Costs
    Row("cost_changelist", "GET", needs("view_cost")),
    Row("cost_csv", "GET", needs("view_cost")),
    # Workers
    *(Row(f"worker_{name}", "GET", WORKERS) for name in ("changelist", "parts")),
    *(Row(f"worker_{name}", "GET", WORKERS, of("worker")) for name in ("change", "part")),
    *(
        Row(f"worker_{name}", method, needs("manage_worker"), of("worker"))
        for name in ("drain", "stop")
        for method in ("GET", "POST")
    ),
    # Alerts
    Row("alertrule_changelist", "GET", RULES),
    Row("alertrule_part", "GET", RULES),
    Row("alertrule_change", "GET", RULES, RULE),
    Row("alertrule_history", "GET", RULES, RULE),
    Row("alertrule_add", "GET", MANAGE_ALERT),
    Row("alertrule_add", "POST", MANAGE_ALERT, data=lambda _world: {"name": "No"}),
    Row("alertrule_change", "POST", MANAGE_ALERT, RULE, data=lambda _w: {"enabled": "on", "definition": "null"}),
    Row("alertrule_delete", "GET", NOBODY, RULE),
    Row("alertrule_delete", "POST", NOBODY, RULE, data=lambda _world: {"post": "yes"}),
    *(
        Row(
            f"alertrule_{name}",
            method,
            MANAGE_ALERT,
            query=lambda _world: {"rule": "dead_1h"},
            data=lambda _world: {"until_choice": "hour"},
        )
        for name in ("mute", "unmute")
        for method in ("GET", "POST")
    ),
    *stock("incident", "incident", "view_incident"),
    Row("incident_part", "GET", needs("view_incident")),
    take("incident", "mute", "view_incident manage_alert", "incident"),
    # Audit
    *stock("action", "action", "view_audit"),
    Row("action_export", "POST", needs("view_audit"), data=lambda _world: {"format": "csv"}, what="csv"),
    Row("action_export", "POST", needs("view_audit"), data=lambda _world: {"format": "json"}, what="json"),
]


def addresses() -> set[str]:
    """Return the names of all addresses of the console; those without a name only lead elsewhere."""
    models = [page for model, page in admin.site._registry.items() if model._meta.app_label == "jobqueue"]
    names = {pattern.name for page in models for pattern in page.urls if pattern.name}
    return {name.removeprefix("jobqueue_") for name in names}
