"""What a project does with its database in a day: enqueue in views, look, act, tidy up; as JSON what became of it.

    python -m tests.faults.own_server.tour

A worker of the same settings has to run. Everything is done by Django's own connections, as by a web process.
"""

import io
import json
import sys
from datetime import timedelta
from typing import Any

import django

django.setup()

from django.contrib.auth.models import Group, User  # noqa: E402  (after setup())
from django.core.management import call_command  # noqa: E402  (after setup())
from django.db import connections, transaction  # noqa: E402  (after setup())
from django.test import Client  # noqa: E402  (after setup())
from django.urls import reverse  # noqa: E402  (after setup())

from jobqueue.models import Action, Attempt, Job, Worker  # noqa: E402  (after setup())
from jobqueue.states import Status  # noqa: E402  (after setup())
from tests.admin.matrix import ROWS, World  # noqa: E402  (after setup())
from tests.worker.waiting import until  # noqa: E402  (after setup())

WITHIN_SECONDS = 30
MACHINES = ("health/live", "health/ready", "ops", "metrics")
COMMANDS = (
    ("jobqueue_ops",),
    ("jobqueue_ops", "--json"),
    ("jobqueue_costs",),
    ("jobqueue_alerts", "--dry-run"),
    ("jobqueue_queue", "list"),
    ("jobqueue_prune", "--dry-run"),
    ("jobqueue_prune", "--status", "done", "--older-than", "0s"),
    ("jobqueue_redrive", "--type", "probe.touch", "--yes"),
    ("jobqueue_health",),
    ("check", "--database", "default"),
)


def enqueue(client: Client) -> dict[str, Any]:
    """Enqueue in every way; returns what a view that failed has left, and what is left to wait for."""
    orders = [client.post("/shop/order/", {"name": f"order {number}"}) for number in range(5)]
    assert {answer.status_code for answer in orders} == {200}
    assert client.post("/shop/order/", {"name": "fails", "fails": "1"}).status_code == 500
    left = Group.objects.using("default").filter(name="fails").count(), Job.objects.filter(owner="fails").count()
    assert Job.objects.get_or_enqueue("probe.sleep", {"seconds": 1}, dedupe_key="one")[1]
    assert not Job.objects.get_or_enqueue("probe.sleep", {"seconds": 1}, dedupe_key="one")[1]
    Job.objects.enqueue_many([("probe.orm", {})] * 50)
    Job.objects.enqueue("probe.ok", run_after=timedelta(seconds=0.5))
    Job.objects.enqueue("probe.flaky", {"failures": 1})
    if Job.objects.write_db == "default":  # its block has to be on the jobs' alias
        Job.objects.enqueue("probe.complete", {"name": "completed"})
    with transaction.atomic(using=Job.objects.write_db):
        Job.objects.enqueue("probe.ok", owner="rolled back")
        transaction.set_rollback(True, using=Job.objects.write_db)
    return {"left by a view that failed": left, "rolled back": Job.objects.filter(owner="rolled back").count()}


def primary() -> Any:
    """Return the jobs where they are written: a replica may lag."""
    return Job.objects.using(Job.objects.write_db)


def look(client: Client) -> dict[str, int]:
    """Open each page of the console; returns what did not answer as it should."""
    dead = primary().get(status=Status.DEAD)
    later = Job.objects.enqueue("probe.ok", run_after=timedelta(hours=1))
    assert later is not None
    using = Job.objects.write_db
    world = World(
        pending=later,
        dead=dead,
        stuck=later,
        attempt=Attempt.objects.using(using).filter(job_id=dead.pk).get(),
        worker=Worker.objects.using(using).get(),
        incident=later,  # type: ignore[arg-type]  # there is none: its pages say so
        action=Action.objects.using(using).earliest("pk"),
    )
    without = ("incident_change", "incident_history", "job_stack")
    wrong = {}
    for row in ROWS:
        if row.method == "GET" and row.needs and row.name not in without:
            answer = client.get(row.url(world))
            if answer.status_code not in row.answers:
                wrong[row.url(world)] = answer.status_code
    return wrong


def pause(client: Client) -> None:
    """Pause a queue and let it go on: what look() has to show in the audit."""
    client.post(reverse("admin:jobqueue_queue_pause"), {"queue": "nothing", "until_choice": "hour", "reason": "tour"})
    client.post(reverse("admin:jobqueue_queue_resume"), {"queue": "nothing"})


def act(client: Client) -> dict[str, int]:
    """Do what people do in the console; returns what was not done."""
    dead = primary().filter(status=Status.DEAD).first()
    later = primary().filter(status=Status.SCHEDULED, run_after__gt=dead.created_at + timedelta(minutes=30)).first()
    deeds = {
        "retry": reverse("admin:jobqueue_job_act", args=[dead.pk, "retry"]),
        "cancel": reverse("admin:jobqueue_job_act", args=[later.pk, "cancel"]),
    }
    done = {}
    for verb, url in deeds.items():
        client.post(url)
        client.post(url, {"confirmed": "1", "reason": "tour"})
        done[verb] = Action.objects.using(Job.objects.write_db).filter(action=verb, actor="boss").count()
    return {verb: count for verb, count in done.items() if not count}


def machines(client: Client) -> dict[str, int]:
    """Ask the pages for machines; returns those that are not well."""
    token = {"Authorization": "Bearer a-token-of-some-length"}
    answers = {page: client.get(f"/jobqueue/{page}", headers=token) for page in MACHINES}
    return {page: answer.status_code for page, answer in answers.items() if answer.status_code != 200}


def commands() -> dict[str, str]:
    """Run every command; returns the errors."""
    wrong = {}
    for command in COMMANDS:
        out = io.StringIO()
        try:
            call_command(*command, stdout=out, stderr=out)
        except (Exception, SystemExit) as error:
            wrong[" ".join(command)] = f"{error!r} {out.getvalue()}"
    return wrong


def main() -> None:
    """Go round, and print."""
    client = Client(raise_request_exception=False)
    boss = User.objects.create_superuser("boss", "boss@example.com", "secret")
    told: dict[str, Any] = enqueue(client)
    Job.objects.enqueue("probe.touch", {"name": "missing"})
    active = [Status.PENDING, Status.RUNNING, Status.SCHEDULED]
    until(
        lambda: not primary().filter(status__in=active).exists(),
        within=WITHIN_SECONDS,
        what=lambda: f"all done: {list(primary().values_list('pk', 'job_type', 'status', 'last_error'))}",
    )
    told["ended"] = {Status(row["status"]).name: row["n"] for row in by_status()}
    client.force_login(boss)
    pause(client)
    told["pages"] = look(client)
    told["deeds"] = act(client)
    told["machines"] = machines(client)
    told["commands"] = commands()
    for connection in connections.all():
        connection.close()
    sys.stdout.write(json.dumps(told) + "\n")


def by_status() -> Any:
    """Count the jobs by status, without the package's own."""
    from django.db.models import Count

    rows = primary().exclude(queue="jobqueue").order_by().values("status")
    return rows.annotate(n=Count("pk")).order_by("status")


if __name__ == "__main__":
    main()
