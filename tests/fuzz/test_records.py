"""What is recorded of results, errors and costs: it can be stored, or the attempt says why not."""

from decimal import Decimal
from typing import Any

import pytest
from django.db import connection, transaction
from hypothesis import given
from hypothesis import strategies as st

from jobqueue.children.costs import cost_line
from jobqueue.errors import describe
from jobqueue.exceptions import ResultError
from jobqueue.managers import CostLine, Done
from jobqueue.managers.settling import settle_done
from jobqueue.models import Job
from jobqueue.outcomes import Outcome
from jobqueue.payloads import encode_result
from jobqueue.states import Status
from tests.factories import JobFactory

from .values import ANYTHING, JSON_LIKE, NO_JSON, TEXTS, refusal

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("quiet")]
ATTEMPT_BYTES = 64 * 1024


@given(value=st.one_of(JSON_LIKE, NO_JSON))
def test_a_result_that_is_taken_can_be_stored(value: Any) -> None:
    with transaction.atomic():
        encoded, refused = refusal(lambda: encode_result(value, max_bytes=100_000), ResultError)
        if refused is not None:
            assert "result" in str(refused)
        else:
            job = JobFactory.create(status=Status.RUNNING)
            done = Done(job.pk, job.lease_epoch, encoded.text)
            assert settle_done(Job.objects.run_sql, worker_id=job.fence.worker_id, jobs=[done]) == {job.pk: Status.DONE}
            Job.objects.get(pk=job.pk)
        transaction.set_rollback(True)


@given(
    text=TEXTS,
    times=st.sampled_from([1, 1, 1_000]),
    names=st.tuples(TEXTS, TEXTS),
    notes=st.lists(st.one_of(TEXTS, ANYTHING), max_size=3),
)
def test_every_error_can_be_stored(text: str, times: int, names: tuple[str, str], notes: list[Any]) -> None:
    """C15, C154: whatever text, class name and notes it has, in less than 64 KB."""
    error = type("Odd", (Exception,), {"__module__": names[0], "__qualname__": names[1]})(text * times)
    error.__notes__ = notes

    with transaction.atomic():
        job = JobFactory.create(status=Status.RUNNING, max_attempts=1)
        assert Job.objects.fail(job, error) == {job.pk: Status.DEAD}
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT octet_length(error_class) + octet_length(error_text) + octet_length(traceback)"
                " FROM jobqueue_attempt"
            )
            assert cursor.fetchone()[0] < ATTEMPT_BYTES
        assert Job.objects.get(pk=job.pk).outcome == Outcome.FAILED
        transaction.set_rollback(True)


@given(
    costs=st.lists(
        st.tuples(TEXTS, st.one_of(st.decimals(), st.integers(-(10**13), 10**13), st.floats(), st.booleans())),
        min_size=1,
        max_size=4,
    )
)
def test_a_cost_that_is_taken_can_be_stored_to_the_last_digit(costs: list[tuple[str, Any]]) -> None:
    """C124: rejected where it is reported, or stored exactly; the total is the sum of the lines."""
    lines: list[CostLine] = []
    for component, amount in costs:
        try:
            lines.append(cost_line(component, amount, "USD"))
        except (TypeError, ValueError):
            continue
    with transaction.atomic():
        job = JobFactory.create(status=Status.RUNNING)
        total = sum((line.amount for line in lines), Decimal(0))
        if total < 10**12:
            done = Done(job.pk, job.lease_epoch, costs=lines)
            settle_done(Job.objects.run_sql, worker_id=job.fence.worker_id, jobs=[done])
            assert Job.objects.get(pk=job.pk).cost_total == total
        transaction.set_rollback(True)


@given(
    error=st.sampled_from([Exception, BaseException, SystemExit, KeyboardInterrupt]),
    arguments=st.lists(ANYTHING, max_size=3),
)
def test_describing_never_raises(error: type[BaseException], arguments: list[Any]) -> None:
    described = describe(error(*arguments), max_bytes=300)

    assert all("\x00" not in text for text in described)
    assert all(text.encode() is not None for text in described)
    assert len(described.text.encode()) <= 300
