"""What is set up in the demo once its documents are done, so that everything in the console can be tried.

All of it is real: the jobs fail in the worker, the alerts are found by maintenance, the queue is paused by the public
function. One job only is made to look older than it is, since nobody would wait for it to get stuck.
"""

import time
from collections.abc import Callable
from datetime import timedelta

from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.db import connection
from django.utils import timezone

from jobqueue import operations
from jobqueue.models import Job
from jobqueue.states import Status

ACTOR = "demo"
MISSPELT, RIGHT = "partner.exmaple.org", "partner.example.org"
NOTES = 40
SECONDS = 3_600.0
WAIT_SECONDS = 60
FAILING = ("demo.deliver", "demo.enlarge", "demo.fail")
PAUSED = "newsletter"


def set_scene(password: str, wait: Callable[[float], bool]) -> None:
    """Make jobs of every kind; `wait` waits that many seconds at most and says whether the demo is to end."""
    _viewer(password)
    _enqueue()
    give_up = time.monotonic() + WAIT_SECONDS
    while not _has_happened() and time.monotonic() < give_up:
        if wait(0.5):
            return
    _make_old()
    _people()


def told(url: str, password: str) -> list[str]:
    """Return what can be tried, as the demo's last lines."""
    edit = f"replace {MISSPELT} by {RIGHT}"
    return [
        f"the console: {url}/admin/jobqueue/   user: admin   password: {password}",
        "(the user viewer has the same password, and may look at jobs only)",
        f"  Dead letters  {NOTES} of demo.deliver died of a misspelt host. Open the group, edit the field host for all",
        f"                ({edit}), retry them slowly",
        "                demo.fail hides a secret; demo.enlarge is muted, with a note; documents died of other causes",
        "  Stuck jobs    demo.ponder looks as if it had begun yesterday: have its stack shown, release or kill it",
        f"  Queues        {PAUSED} is paused: resume it",
        "  Workers       drain or stop one: the demo starts it again",
        "  Costs         the budget demo is spent to 85 %",
        "  Incidents     several rules fire: mute one",
        "  Audit         whatever you do is there, and what viewer was refused, too",
    ]


def _viewer(password: str) -> None:
    viewer, _ = get_user_model().objects.get_or_create(username="viewer", defaults={"is_staff": True})
    viewer.set_password(password)
    viewer.save()
    viewer.user_permissions.set(Permission.objects.filter(content_type__app_label="jobqueue", codename="view_job"))


def _enqueue() -> None:
    operations.pause_queue(
        PAUSED, actor=ACTOR, reason="the text is not approved yet", until=timezone.now() + timedelta(hours=3)
    )
    Job.objects.enqueue_many(
        [
            *(("demo.deliver", {"host": MISSPELT, "note": {"id": number}}) for number in range(1, NOTES + 1)),
            *(("demo.enlarge", {"path": f"maps/sheet-{number}.png"}) for number in range(1, 7)),
            *(("demo.fail", {"password": "hunter2"}) for _ in range(3)),  # to see it masked  # nosec B105
            ("demo.spend", {"amount": "1.70"}),
            ("demo.measure", {"ports": 27, "blocked": 80}),
            ("demo.ponder", {"seconds": SECONDS}),
            ("demo.ponder", {"seconds": SECONDS}),
            *(
                {"job_type": "demo.sleep", "payload": {"seconds": 1}, "queue": PAUSED, "owner": "anna@example.org"}
                for _ in range(5)
            ),
        ]
    )
    tomorrow = timezone.now() + timedelta(days=1)
    Job.objects.enqueue("demo.sleep", {"seconds": 1}, run_after=tomorrow, dedupe_key="every-morning")


def _has_happened() -> bool:
    """Tell whether all that fail have failed, and those that ponder do."""
    waiting = (Status.PENDING, Status.RUNNING, Status.SCHEDULED)
    failing = Job.objects.filter(job_type__in=FAILING, status__in=waiting).exists()
    pondering = Job.objects.filter(job_type="demo.ponder", status=Status.RUNNING, run_started_at__isnull=False)
    return not failing and pondering.count() == 2


def _make_old() -> None:
    """Have the first job that ponders look as if it had begun yesterday."""
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE jobqueue_job SET claimed_at = claimed_at - interval '1 day',"
            " run_started_at = run_started_at - interval '1 day',"
            " first_started_at = first_started_at - interval '1 day'"
            " WHERE id = (SELECT min(id) FROM jobqueue_job WHERE job_type = 'demo.ponder' AND status = 2)"
        )


def _people() -> None:
    """Leave notes on groups of dead letters, and mute one."""
    admin = get_user_model().objects.get(username="admin")
    groups = {job_type: operations.Group(fingerprint or "", job_type) for job_type, fingerprint in _groups()}
    if deliver := groups.get("demo.deliver"):
        note = f"The import wrote the host as {MISSPELT}. Edit the field for all, then retry slowly."
        operations.note_group(deliver, note, actor=ACTOR)
        operations.hand_over([deliver], admin, actor=ACTOR, reason="who wrote the import")
    if enlarge := groups.get("demo.enlarge"):
        operations.note_group(enlarge, "Maps of the land office: we wait for a larger limit.", actor=ACTOR)
        until = timezone.now() + timedelta(days=2)
        operations.mute_groups([enlarge], until, actor=ACTOR, reason="known", doubled=True)


def _groups() -> list[tuple[str, str | None]]:
    rows = Job.objects.dead().filter(job_type__in=FAILING).order_by()
    return list(rows.values_list("job_type", "fingerprint").distinct())
