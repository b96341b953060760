"""Enqueue one job: what it gets, and what is refused before any SQL."""

import enum
import uuid
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.db import connection, transaction
from django.db.models.signals import post_init
from django.utils.translation import gettext_lazy

from jobqueue import Limits
from jobqueue.exceptions import InvalidName, JobQueueError, PayloadError, UnknownJobType
from jobqueue.models import Action, Job
from jobqueue.registry import registry
from jobqueue.states import Status
from tests.factories import ActionFactory
from tests.probe.jobs import echo

pytestmark = pytest.mark.django_db

AssertNumQueries = Callable[[int], Any]
IDENTICAL = [field.attname for field in Job._meta.concrete_fields]


def enqueue(*args: Any, **options: Any) -> Job:
    job = Job.objects.enqueue(*args, **options)
    assert job is not None
    return job


def test_what_is_not_given_comes_from_the_declaration() -> None:
    job = enqueue("probe.impatient")

    assert (job.queue, job.priority, job.max_attempts) == ("probes", 7, 9)


def test_what_nobody_gives_comes_from_the_settings(settings: Any) -> None:
    settings.JOBQUEUE = {**settings.JOBQUEUE, "PRIORITY": 55, "MAX_ATTEMPTS": 8}

    job = enqueue("probe.ok")

    assert (job.queue, job.priority, job.max_attempts) == ("default", 55, 8)


def test_what_is_given_wins() -> None:
    job = enqueue("probe.impatient", queue="mail", priority=-3, max_attempts=1, owner="lena", dedupe_key="k")

    assert (job.queue, job.priority, job.max_attempts, job.owner, job.dedupe_key) == ("mail", -3, 1, "lena", "k")


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"run_after": timedelta(hours=1)},
        {"dedupe_key": "k", "owner": "me", "priority": 0},
        {"payload": {"a": {"b": [1, None, "é"]}}},
    ],
    ids=str,
)
def test_the_returned_job_is_the_row(options: dict[str, Any]) -> None:
    job = enqueue("probe.ok", **options)

    stored = Job.objects.get(pk=job.pk)
    assert {name: getattr(job, name) for name in IDENTICAL} == {name: getattr(stored, name) for name in IDENTICAL}
    assert (job._state.adding, job._state.db) == (False, "default")


def test_receivers_of_post_init_hear_of_the_returned_job() -> None:
    heard: list[Job] = []

    def receive(instance: Job, **_: Any) -> None:
        heard.append(instance)

    post_init.connect(receive, sender=Job)
    try:
        job = enqueue("probe.ok")
    finally:
        post_init.disconnect(receive, sender=Job)

    assert heard[0] is job
    assert job.queue == "default"


def test_an_enqueue_is_one_statement(django_assert_num_queries: AssertNumQueries) -> None:
    with django_assert_num_queries(1):
        enqueue("probe.ok")


def test_the_handler_enqueues_with_its_keywords_as_payload() -> None:
    job = echo.enqueue(value=7)
    other = echo.enqueue_with({"priority": 1}, {"value": 8})

    assert (job.job_type, job.payload) == ("probe.echo", {"value": 7})
    assert (other.priority, other.payload) == (1, {"value": 8})


def test_a_job_due_now_is_pending_and_a_later_one_scheduled() -> None:
    moment = enqueue("probe.ok").created_at

    jobs = [enqueue("probe.ok", run_after=when) for when in (timedelta(hours=1), moment + timedelta(hours=1))]

    assert {job.status for job in jobs} == {Status.SCHEDULED}
    assert jobs[0].run_after - jobs[0].created_at == timedelta(hours=1)
    assert jobs[1].run_after == moment + timedelta(hours=1)


@pytest.mark.parametrize("when", [timedelta(0), timedelta(days=-1), datetime(2020, 2, 29, tzinfo=UTC)])
def test_what_is_past_runs_now(when: Any) -> None:
    """Case C145."""
    assert enqueue("probe.ok", run_after=when).status == Status.PENDING


@pytest.mark.parametrize(
    "when",
    [datetime(9999, 12, 29, 23, 59, tzinfo=UTC), datetime(9999, 12, 29, tzinfo=timezone(timedelta(hours=14)))],
    ids=str,
)
def test_the_far_future_can_be_read_back(when: datetime) -> None:
    """Case C145."""
    job = enqueue("probe.ok", run_after=when)

    assert Job.objects.get(pk=job.pk).run_after == when


@pytest.mark.parametrize(
    ("when", "error", "text"),
    [
        (datetime(2026, 1, 1), ValueError, "must be aware"),
        (datetime(9999, 12, 31, tzinfo=UTC), ValueError, "year 9999"),
        (datetime.max.replace(tzinfo=timezone(timedelta(hours=-12))), ValueError, "year 9999"),
        (datetime.min.replace(tzinfo=timezone(timedelta(hours=12))), ValueError, "year 1"),
        (timedelta(days=36_501), ValueError, "less than a century"),
        (date(2026, 1, 1), TypeError, "aware datetime or a timedelta"),
        (60, TypeError, "aware datetime or a timedelta"),
        ("tomorrow", TypeError, "aware datetime or a timedelta"),
    ],
    ids=str,
)
def test_a_bad_time_is_refused(
    when: Any, error: type[Exception], text: str, django_assert_num_queries: AssertNumQueries
) -> None:
    """Cases C137 and C145: a naive time is refused, and so is what no session could read back."""
    with django_assert_num_queries(0), pytest.raises(error, match=text):
        Job.objects.enqueue("probe.ok", run_after=when)


def test_an_unknown_type_is_refused(django_assert_num_queries: AssertNumQueries) -> None:
    with django_assert_num_queries(0), pytest.raises(UnknownJobType, match=r"'probe\.gone'"):
        Job.objects.enqueue("probe.gone")


@pytest.mark.parametrize("queue", ["q" * 64, "é" * 40, "a b", "x'y", 'x"y', "sélect;--", "", ".a", "-a", "a\x00b", 7])
def test_a_bad_queue_name_is_refused_with_the_rule(queue: Any, django_assert_num_queries: AssertNumQueries) -> None:
    """Case C67: the limit is in bytes, since LISTEN silently cuts what is longer."""
    with django_assert_num_queries(0), pytest.raises(InvalidName, match=r"queue .*(63 bytes|must be a string)"):
        Job.objects.enqueue("probe.ok", queue=queue)


@pytest.mark.parametrize("queue", ["q" * 63, "a.b", "A-b_9", "9"])
def test_a_good_queue_name_is_taken(queue: str) -> None:
    assert enqueue("probe.ok", queue=queue).queue == queue


@pytest.mark.parametrize("name", ["dedupe_key", "owner"])
def test_keys_and_owners_are_bounded_in_bytes(name: str, django_assert_num_queries: AssertNumQueries) -> None:
    """Case C64: keys at their greatest length are taken."""
    assert getattr(enqueue("probe.ok", **{name: "é" * 127}), name) == "é" * 127

    for bad in ("x" * 256, "é" * 128, "a\x00b", "\ud800", 7):
        with django_assert_num_queries(0), pytest.raises(InvalidName, match=name):
            enqueue("probe.ok", **{name: bad})


def test_an_empty_dedupe_key_is_refused() -> None:
    with pytest.raises(InvalidName, match="dedupe_key must not be empty"):
        Job.objects.enqueue("probe.ok", dedupe_key="")


@pytest.mark.parametrize(
    ("option", "value", "error"),
    [
        ("priority", 32768, ValueError),
        ("priority", -32769, ValueError),
        ("priority", 1.5, TypeError),
        ("priority", True, TypeError),
        ("max_attempts", 0, ValueError),
        ("max_attempts", 32768, ValueError),
        ("max_attempts", "3", TypeError),
    ],
)
def test_a_number_out_of_range_is_refused(
    option: str, value: Any, error: type[Exception], django_assert_num_queries: AssertNumQueries
) -> None:
    with django_assert_num_queries(0), pytest.raises(error, match=option):
        Job.objects.enqueue("probe.ok", **{option: value})


class Colour(enum.Enum):
    RED = 1


@pytest.mark.parametrize(
    "value",
    [
        datetime(2026, 1, 1, tzinfo=UTC),
        date(2026, 1, 1),
        Decimal(1),
        uuid.UUID(int=1),
        timedelta(1),
        {1},
        b"x",
        Colour.RED,
        gettext_lazy("jobs"),
        Action(),
        float("nan"),
        float("-inf"),
        "a\x00b",
        "\udc00",
        {7: 1},
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_value_that_cannot_be_stored_leaves_the_transaction_usable(value: Any) -> None:
    """Cases C22, C43 and C146: raised in Python, with the path, before any SQL; both rows commit."""
    with transaction.atomic():
        first = ActionFactory.create()
        with pytest.raises(PayloadError) as caught:
            Job.objects.enqueue("probe.ok", {"a": [0, {"b": value}]})
        second = ActionFactory.create()

    assert caught.value.path.startswith("$.a[1].b")
    assert caught.value.rule
    assert set(Action.objects.values_list("pk", flat=True)) == {first.pk, second.pk}


@pytest.mark.parametrize("payload", [[], "text", 1, (("a", 1),)])
def test_a_payload_is_a_json_object(payload: Any) -> None:
    with pytest.raises(PayloadError, match="a payload is a JSON object"):
        Job.objects.enqueue("probe.ok", payload)


@pytest.mark.parametrize("text", ["x" * 87, "é" * 43 + "x"], ids=["ASCII", "two bytes each"])
def test_the_limit_is_measured_in_encoded_bytes(text: str, settings: Any) -> None:
    """Case C99: the exact limit is taken, one byte more is refused with size, limit and type."""
    settings.JOBQUEUE = {**settings.JOBQUEUE, "PAYLOAD_MAX_BYTES": 96}

    job = enqueue("probe.ok", {"a": text})

    assert job.payload_bytes == 96
    with connection.cursor() as cursor:
        cursor.execute("SELECT octet_length(payload::text) FROM jobqueue_job")
        assert cursor.fetchone() == (96,)
    with pytest.raises(PayloadError, match=r"payload of probe\.ok: .*97 bytes of JSON are over the limit of 96"):
        Job.objects.enqueue("probe.ok", {"a": text + "x"})


def test_a_types_own_limit_counts_where_it_is_smaller(settings: Any) -> None:
    settings.JOBQUEUE = {**settings.JOBQUEUE, "LIMITS": {"probe.ok": {"payload_bytes": 10}}}

    with pytest.raises(PayloadError, match="over the limit of 10"):
        Job.objects.enqueue("probe.ok", {"a": "0123456789"})


def test_changed_settings_and_handlers_are_noticed(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guard: what is kept of a job type holds only for the very handler and settings it was made from."""
    assert enqueue("probe.ok").max_attempts == 3
    settings.JOBQUEUE = {**settings.JOBQUEUE, "MAX_ATTEMPTS": 4}
    assert enqueue("probe.ok").max_attempts == 4

    declared = type(registry.get("probe.ok"))(echo.func, "probe.ok", max_attempts=6, limits=Limits(payload_bytes=2))
    monkeypatch.setitem(registry._handlers, "probe.ok", declared)
    assert enqueue("probe.ok").max_attempts == 6


def test_an_alias_enqueues_under_the_new_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """Case C163."""
    monkeypatch.setitem(registry._aliases, "probe.old_echo", "probe.echo")

    assert enqueue("probe.old_echo").job_type == "probe.echo"


@pytest.mark.parametrize("call", [Job.objects.create, Job.objects.bulk_create])
def test_making_rows_past_the_checks_is_refused(call: Callable[..., Any]) -> None:
    with pytest.raises(JobQueueError, match=r"skips the checks and wakes nobody: use Job\.objects\.enqueue"):
        call()


def test_saving_an_instance_is_refused() -> None:
    """Case C132: a stale copy must not be written over what a worker did."""
    with pytest.raises(TypeError, match="a Job is not saved"):
        enqueue("probe.ok").save()


def test_the_async_twins_do_the_same() -> None:
    async def all_of_them() -> tuple[Any, ...]:
        one = await Job.objects.aenqueue("probe.ok", {"n": 1}, priority=1)
        again = await Job.objects.aget_or_enqueue("probe.ok", dedupe_key="k")
        held = await Job.objects.aget_or_enqueue("probe.ok", dedupe_key="k")
        many = await Job.objects.aenqueue_many([("probe.ok", {"n": 2}), {"job_type": "probe.echo"}])
        by_handler = await echo.aenqueue(value=1)
        return one, again, held, many, by_handler

    one, again, held, many, by_handler = async_to_sync(all_of_them)()

    assert (one.payload, one.priority) == ({"n": 1}, 1)
    assert (again[1], held[1], held[0].pk) == (True, False, again[0].pk)
    assert [job.job_type for job in many] == ["probe.ok", "probe.echo"]
    assert by_handler.payload == {"value": 1}
    assert Job.objects.count() == 5
