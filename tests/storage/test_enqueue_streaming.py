"""A large enqueue_many: items are checked while the server copies the ones before; all or nothing all the same."""

from collections import UserDict
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import DatabaseError, IntegrityError, connection, transaction
from django.db.models.signals import post_init
from psycopg import Copy
from psycopg.pq import TransactionStatus
from pytest_django import Settings

from jobqueue.exceptions import InvalidName, PayloadError, UnknownJobType
from jobqueue.managers.copying import LINES, STREAMED
from jobqueue.models import Job
from jobqueue.registry import registry
from tests.connections import SecondConnection

pytestmark = pytest.mark.django_db(transaction=True)

MANY, LATE = STREAMED + 3 * LINES, STREAMED + 2 * LINES
BAD: list[tuple[Any, type[Exception]]] = [
    (("probe.ok", {"x": float("nan")}), PayloadError),
    (("probe.ok", {"x": "a\x00b\ud800"}), PayloadError),
    (("probe.gone", {}), UnknownJobType),
    ({"job_type": "probe.ok", "dedupe_key": "a\x00b"}, InvalidName),
    ({"job_type": "probe.ok", "priority": 10**6}, ValueError),
    (None, TypeError),
]


def items(bad: Any = ("probe.ok", {"n": LATE})) -> list[Any]:
    """Return many good items, with this one late among them."""
    return [bad if n == LATE else ("probe.ok", {"n": n}) for n in range(MANY)]


BUDGET = {"queue": "other", "amount": 1, "unit": "USD", "per": "day", "at_limit": "refuse"}


def values(job: Job) -> list[Any]:
    """Return the columns that an instance and its row have alike: two times of the row are those of its statement."""
    names = [field.attname for field in Job._meta.concrete_fields]
    return [getattr(job, name) for name in names if name not in {"created_at", "updated_at"}]


class Watched(dict[str, Any]):
    """A payload that keeps what the connection was at when it was checked."""

    at: TransactionStatus | None = None

    def items(self) -> Any:
        connection.ensure_connection()
        self.at = connection.connection.info.transaction_status
        return super().items()


class Asking(UserDict[str, Any]):
    """An item that asks the database when it is looked into."""

    def __getitem__(self, name: str) -> Any:
        assert Job.objects.count() >= 0
        return super().__getitem__(name)


@pytest.fixture
def refusing() -> Iterator[None]:
    """Have a constraint of the project's own on the table."""
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE jobqueue_job ADD CONSTRAINT probe CHECK (owner <> 'refused') NOT VALID")
    yield
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE jobqueue_job DROP CONSTRAINT probe")


@pytest.mark.parametrize(("bad", "error"), BAD, ids=lambda value: getattr(value, "__name__", ascii(value)))
def test_a_late_bad_item_is_named_and_nothing_is_enqueued(bad: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match=f"item {LATE}"):
        Job.objects.enqueue_many(items(bad))

    assert not Job.objects.exists()
    assert len(Job.objects.enqueue_many(items())) == MANY == Job.objects.count()


@pytest.mark.parametrize(("bad", "error"), BAD, ids=lambda value: getattr(value, "__name__", ascii(value)))
def test_a_late_bad_item_leaves_the_callers_block_usable(
    bad: Any, error: type[Exception], second_connection: SecondConnection
) -> None:
    with transaction.atomic():
        before = Job.objects.enqueue("probe.ok")
        with pytest.raises(error):
            Job.objects.enqueue_many(items(bad))
        after = Job.objects.enqueue("probe.ok")

    assert second_connection.execute("SELECT id FROM jobqueue_job ORDER BY id") == [(before.pk,), (after.pk,)]


def test_a_late_bad_item_leaves_a_transaction_managed_by_hand_usable() -> None:
    connection.set_autocommit(False)
    try:
        before = Job.objects.enqueue("probe.ok")
        with pytest.raises(UnknownJobType):
            Job.objects.enqueue_many(items(("probe.gone",)))
        connection.commit()
    finally:
        connection.set_autocommit(True)

    assert [job.pk for job in Job.objects.all()] == [before.pk]


def test_an_error_of_the_server_in_mid_copy_leaves_the_callers_block_usable(refusing: None) -> None:
    with transaction.atomic():
        before = Job.objects.enqueue("probe.ok")
        with pytest.raises(IntegrityError, match="probe"):
            Job.objects.enqueue_many(items({"job_type": "probe.ok", "owner": "refused"}))

    assert [job.pk for job in Job.objects.all()] == [before.pk]


def test_a_bad_item_frees_the_keys_of_those_before_it() -> None:
    keyed = {"job_type": "probe.ok", "dedupe_key": "k"}

    with pytest.raises(UnknownJobType, match=f"item {LATE + 1}"):
        Job.objects.enqueue_many([keyed, *items(("probe.gone",))])

    assert Job.objects.enqueue_many([keyed])[0] is not None


def test_with_and_without_keys_the_answer_is_in_input_order(make_job: Callable[..., Job]) -> None:
    make_job(dedupe_key="k0")
    options: list[dict[str, Any]] = [
        {},
        {"dedupe_key": "k"},
        {"owner": "a\tb\\"},
        {"priority": 7, "queue": "other"},
        {"run_after": datetime(2120, 1, 1, tzinfo=UTC)},
        {"max_attempts": 2, "run_after": timedelta(hours=-1)},
    ]
    specs = [{"job_type": "probe.ok", "payload": {"n": n, "t": "\\"}, **options[n % 6]} for n in range(MANY)]
    for n in range(1, MANY, 6):
        specs[n]["dedupe_key"] = f"k{n // 12}"  # each key twice in a row, and k0 is held

    jobs = Job.objects.enqueue_many(specs)

    assert [n for n, job in enumerate(jobs) if job is None] == [1, *range(7, MANY, 12)]
    stored = {job.pk: job for job in Job.objects.exclude(dedupe_key="k0")}
    made = [(n, job) for n, job in enumerate(jobs) if job is not None]
    assert [job.payload["n"] for _, job in made] == [n for n, _ in made]
    assert [values(job) for _, job in made] == [values(stored[job.pk]) for _, job in made]
    assert len(stored) == len(made)


def test_what_makes_the_items_may_ask_the_database() -> None:
    jobs = Job.objects.enqueue_many(("probe.ok", {"n": n, "jobs": Job.objects.count()}) for n in range(STREAMED))

    assert [job.payload for job in jobs] == [{"n": n, "jobs": 0} for n in range(STREAMED)]


def test_an_error_of_what_makes_the_items_comes_before_any_sql(django_assert_num_queries: Any) -> None:
    def make() -> Iterator[Any]:
        yield from items()
        raise LookupError("no more files")

    with django_assert_num_queries(0), pytest.raises(LookupError, match="no more files"):
        Job.objects.enqueue_many(make())


@pytest.mark.parametrize(
    ("count", "at"), [(STREAMED, TransactionStatus.ACTIVE), (STREAMED - 1, TransactionStatus.IDLE)]
)
def test_only_of_many_the_late_ones_are_checked_while_the_server_copies(count: int, at: TransactionStatus) -> None:
    watched = Watched(n=1)

    Job.objects.enqueue_many([*[("probe.ok", {})] * (count - 1), ("probe.ok", watched)])

    assert watched.at == at


@pytest.mark.parametrize("option", [{"TRACING": True}, {"BUDGETS": {"small": BUDGET}}], ids=["tracing", "budgets"])
def test_with_tracing_or_budgets_every_check_comes_before_any_sql(
    option: dict[str, Any], settings: Settings, django_assert_num_queries: Any
) -> None:
    settings.JOBQUEUE = {**settings.JOBQUEUE, **option}

    with django_assert_num_queries(0), pytest.raises(UnknownJobType, match=f"item {LATE}"):
        Job.objects.enqueue_many(items(("probe.gone",)))


def test_receivers_of_post_init_hear_of_every_job_of_many() -> None:
    heard: list[int] = []

    def receive(instance: Job, **_: Any) -> None:
        heard.append(instance.pk)

    post_init.connect(receive, sender=Job)
    try:
        jobs = Job.objects.enqueue_many(items())
    finally:
        post_init.disconnect(receive, sender=Job)

    assert heard == [job.pk for job in jobs]


def test_for_keyed_ones_alone_no_copy_is_begun() -> None:
    watched = Watched()
    specs = [{"job_type": "probe.ok", "payload": watched, "dedupe_key": f"k{n}"} for n in range(MANY)]

    jobs = Job.objects.enqueue_many(specs)

    assert watched.at == TransactionStatus.INTRANS
    assert [job.dedupe_key for job in jobs] == [spec["dedupe_key"] for spec in specs]


def test_a_lost_connection_in_mid_copy_is_an_error_of_django(second_connection: SecondConnection) -> None:
    class Killing(Watched):
        def items(self) -> Any:
            pid = connection.connection.info.backend_pid
            second_connection.execute("SELECT pg_terminate_backend(%s, 10000)", [pid])
            return super().items()

    with pytest.raises(DatabaseError):
        Job.objects.enqueue_many(items(("probe.ok", Killing())))

    connection.close()
    assert not Job.objects.exists()


def test_items_that_ask_the_database_when_looked_into_are_looked_into_before_the_copy() -> None:
    jobs = Job.objects.enqueue_many(items(Asking(job_type="probe.ok")))

    assert len(jobs) == Job.objects.count() == MANY


def test_the_servers_log_is_not_told_what_was_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """What ends a COPY is logged by the server, so it says nothing of the item."""
    told: list[str] = []
    finish = Copy.__exit__

    def listen(self: Copy, kind: Any, error: Any, trace: Any) -> None:
        told.append(f"{error!r} {error}")
        finish(self, kind, error, trace)

    monkeypatch.setattr(Copy, "__exit__", listen)
    with pytest.raises(InvalidName, match="secret"):
        Job.objects.enqueue_many(items({"job_type": "probe.ok", "queue": "my secret"}))

    assert told == ["Refused() "]


def test_modules_of_jobs_are_imported_before_the_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    """One imported in mid-COPY could not ask the database, and would be given up for good."""
    at: list[TransactionStatus] = []

    def load() -> None:
        connection.ensure_connection()
        at.append(connection.connection.info.transaction_status)

    monkeypatch.setattr(registry, "load", load)
    Job.objects.enqueue_many(items())

    assert at[0] == TransactionStatus.IDLE
