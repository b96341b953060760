"""Enqueue many: all or nothing, in input order, quickly, by COPY where no keys are involved."""

import gc
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import Any

import pytest
from django.db import IntegrityError, connection
from django.test.utils import CaptureQueriesContext

from jobqueue.exceptions import InvalidName, PayloadError, UnknownJobType
from jobqueue.managers import JobSpec, copying
from jobqueue.models import Job
from jobqueue.states import Status

pytestmark = pytest.mark.django_db

# The instances carry the time at which the ids were taken, the rows that of the statement that inserted them.
COLUMNS = {field.attname for field in Job._meta.concrete_fields} - {"created_at", "updated_at"}
SOME_KEYS: list[dict[str, Any]] = [
    {"job_type": "probe.ok", "payload": {"n": 0}},
    {"job_type": "probe.ok", "payload": {"n": 1}, "dedupe_key": "z"},
    {"job_type": "probe.ok", "payload": {"n": 2}, "dedupe_key": "a", "run_after": timedelta(hours=1)},
    {"job_type": "probe.ok", "payload": {"n": 3}, "run_after": datetime(2020, 1, 1, tzinfo=UTC)},
    {"job_type": "probe.ok", "payload": {"n": 4}, "run_after": datetime(2120, 1, 1, tzinfo=UTC)},
]


def values(job: Job) -> dict[str, Any]:
    return {name: getattr(job, name) for name in COLUMNS}


def test_a_hundred_thousand_in_one_call() -> None:
    """Case C110: no limit on parameters, ids in input order, and not a statement a row."""
    with CaptureQueriesContext(connection) as queries:
        jobs = Job.objects.enqueue_many(("probe.ok", {"n": n}) for n in range(100_000))

    assert [job.payload["n"] for job in jobs] == list(range(100_000))
    assert [job.pk for job in jobs] == sorted({job.pk for job in jobs})
    assert Job.objects.count() == 100_000
    assert Job.objects.get(pk=jobs[77_777].pk).payload == {"n": 77_777}
    assert len(queries) <= 10


def test_the_answer_is_in_input_order_with_and_without_keys() -> None:
    jobs = Job.objects.enqueue_many(SOME_KEYS)

    assert [job.payload["n"] for job in jobs] == [0, 1, 2, 3, 4]
    assert [job.status for job in jobs] == [1, 1, 5, 1, 5]
    assert [values(job) for job in jobs if job] == [values(Job.objects.get(pk=job.pk)) for job in jobs if job]


def test_ids_that_others_took_in_between_are_left_out() -> None:
    """Two bulk enqueues at once: neither may count on from its first id."""
    with connection.cursor() as cursor:
        cursor.execute("ALTER SEQUENCE jobqueue_job_id_seq INCREMENT BY 3")

    jobs = Job.objects.enqueue_many([("probe.ok", {"n": n}) for n in range(4)])

    assert [job.pk - jobs[0].pk for job in jobs] == [0, 3, 6, 9]
    assert [Job.objects.get(pk=job.pk).payload["n"] for job in jobs] == [0, 1, 2, 3]


def test_keyed_jobs_are_inserted_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copying, "CHUNK", 3)
    specs = [{"job_type": "probe.ok", "payload": {"n": n}, "dedupe_key": f"k{9 - n}"} for n in range(10)]

    jobs = Job.objects.enqueue_many(specs)

    assert [Job.objects.get(pk=job.pk).payload["n"] for job in jobs] == list(range(10))


def test_text_survives_the_copy_format() -> None:
    nasty = "tab\t newline\n cr\r backslash\\ \\N \\. quote' \" é 漢 \U0001f600 \x7f \u2028"
    specs = [{"job_type": "probe.ok", "payload": {"a": nasty, nasty: ["\\", "\\n"]}, "owner": nasty[:200]}]

    (job,) = Job.objects.enqueue_many(specs)

    stored = Job.objects.get(pk=job.pk)
    assert (stored.payload, stored.owner) == (specs[0]["payload"], nasty)


def test_an_owner_that_looks_like_null_or_the_end_of_copy_is_kept() -> None:
    jobs = Job.objects.enqueue_many([{"job_type": "probe.ok", "owner": owner} for owner in ("\\N", "\\.", "a")])

    assert list(Job.objects.order_by("pk").values_list("owner", flat=True)) == ["\\N", "\\.", "a"]
    assert len(jobs) == 3


def test_every_form_of_an_item_is_taken() -> None:
    jobs = Job.objects.enqueue_many(
        [
            JobSpec(job_type="probe.ok", payload={"n": 1}, priority=5),
            {"job_type": "probe.ok", "payload": {"n": 2}, "owner": "lena"},
            ("probe.ok", {"n": 3}),
            ("probe.ok",),
        ]
    )

    assert [(job.payload, job.priority, job.owner) for job in jobs] == [
        ({"n": 1}, 5, ""),
        ({"n": 2}, 100, "lena"),
        ({"n": 3}, 100, ""),
        ({}, 100, ""),
    ]


def test_nothing_to_enqueue_asks_the_database_nothing(django_assert_num_queries: Any) -> None:
    with django_assert_num_queries(0):
        assert Job.objects.enqueue_many([]) == []


@pytest.mark.parametrize(
    ("bad", "error"),
    [
        (("probe.ok", {"x": float("nan")}), PayloadError),
        (("probe.ok", {"x": "a\x00b"}), PayloadError),
        (("probe.ok", {"x": "x" * 2**20}), PayloadError),
        (("probe.gone", {}), UnknownJobType),
        ({"job_type": "probe.ok", "queue": "a b"}, InvalidName),
        ({"job_type": "probe.ok", "dedupe_key": "a\x00b"}, InvalidName),
        ({"job_type": "probe.ok", "priority": 10**6}, ValueError),
        ({"job_type": "probe.ok", "prio": 1}, TypeError),
        ({"payload": {}}, TypeError),
        (("probe.ok", {}, 5), TypeError),
        ((), TypeError),
        ("probe.ok", TypeError),
        (None, TypeError),
    ],
    ids=lambda value: getattr(value, "__name__", str(value)[:40]),
)
def test_one_bad_item_is_named_by_its_index_and_nothing_is_enqueued(
    bad: Any, error: type[Exception], django_assert_num_queries: Any
) -> None:
    """Cases C22 and C99."""
    specs: list[Any] = [("probe.ok", {"n": n}) for n in range(100)]
    specs[42] = bad

    with django_assert_num_queries(0), pytest.raises(error, match="item 42"):
        Job.objects.enqueue_many(specs)

    assert not Job.objects.exists()


def test_of_several_items_with_one_key_the_first_wins() -> None:
    """Case C39: enqueue_many with a key twice in one call."""
    specs = [{"job_type": "probe.ok", "payload": {"n": n}, "dedupe_key": "k"} for n in range(3)]

    first, second, third = Job.objects.enqueue_many([*specs[:1], *specs[1:]])

    assert (first.payload, second, third) == ({"n": 0}, None, None)
    assert Job.objects.count() == 1


def test_a_held_key_is_none_in_its_place(make_job: Callable[..., Job]) -> None:
    make_job(dedupe_key="held")

    jobs = Job.objects.enqueue_many(
        [
            ("probe.ok", {}),
            {"job_type": "probe.ok", "dedupe_key": "held"},
            {"job_type": "probe.ok", "dedupe_key": "free"},
        ]
    )

    assert [job is None for job in jobs] == [False, True, False]


def test_bulk_jobs_run_in_the_order_of_the_input() -> None:
    jobs = Job.objects.enqueue_many([("probe.ok", {"n": n}) for n in range(20)])

    assert [job.pk for job in Job.objects.claim(20, worker_id="w")] == [job.pk for job in jobs]
    assert set(Job.objects.values_list("status", flat=True)) == {Status.RUNNING}


@pytest.mark.parametrize("was_enabled", [True, False])
def test_the_garbage_collector_is_left_as_it_was(was_enabled: bool) -> None:
    (gc.enable if was_enabled else gc.disable)()
    try:
        Job.objects.enqueue_many([("probe.ok", {})])
        with pytest.raises(UnknownJobType):
            Job.objects.enqueue_many([("probe.gone", {})])

        assert gc.isenabled() == was_enabled
    finally:
        gc.enable()


def test_the_garbage_collector_need_not_walk_what_a_bulk_returns() -> None:
    """Its next look at what is young went through all of it, and took the caller half a microsecond a job."""
    jobs = Job.objects.enqueue_many([("probe.ok", {"n": n}) for n in range(2_500)])

    young = {id(each) for generation in (0, 1) for each in gc.get_objects(generation)}
    assert not [job for job in jobs if id(job) in young]


@pytest.mark.django_db(transaction=True)
def test_an_error_of_the_copy_is_an_error_of_django() -> None:
    """A constraint of the project's own on the table: callers catch django.db.IntegrityError, not the driver's."""
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE jobqueue_job ADD CONSTRAINT probe CHECK (owner <> 'refused') NOT VALID")
    try:
        with pytest.raises(IntegrityError, match="probe"):
            Job.objects.enqueue_many([{"job_type": "probe.ok", "payload": {}, "owner": "refused"}])
    finally:
        with connection.cursor() as cursor:
            cursor.execute("ALTER TABLE jobqueue_job DROP CONSTRAINT probe")
    assert not Job.objects.exists()


class Lane(str, Enum):  # noqa: UP042  (members of a StrEnum would print as their text)
    MAIL = "mail"


@pytest.mark.parametrize("names", [[Lane.MAIL, "mail"], ["mail", Lane.MAIL]])
def test_members_of_a_str_enum_are_their_text(names: list[str]) -> None:
    """Printed into a line for COPY a member is its name, Lane.MAIL, and nobody serves that queue."""
    one = Job.objects.enqueue("probe.ok", queue=Lane.MAIL, dedupe_key=Lane.MAIL, owner=Lane.MAIL)

    many = Job.objects.enqueue_many({"job_type": "probe.ok", "queue": name, "owner": name} for name in names)

    for job in (one, *many):
        stored = Job.objects.get(pk=job.pk)
        assert (stored.queue, stored.owner, type(job.queue), type(job.owner)) == ("mail", "mail", str, str)
    assert Job.objects.get(pk=one.pk).dedupe_key == "mail"
