"""Enqueue takes what can be stored, and refuses everything else in Python, before any SQL."""

import asyncio
import json
import math
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from hypothesis import given
from hypothesis import strategies as st

from jobqueue.exceptions import JobQueueError, PayloadError
from jobqueue.models import Job

from .values import ANYTHING, INSTANTS, NO_JSON, PAYLOADS, TEXTS, refusal

pytestmark = pytest.mark.django_db

REFUSALS = (JobQueueError, TypeError, ValueError)
OPTIONS = st.fixed_dictionaries(
    {},
    optional={
        "queue": st.one_of(TEXTS, st.just("default"), ANYTHING),
        "priority": st.one_of(st.integers(-(2**16), 2**16), ANYTHING),
        "max_attempts": st.one_of(st.integers(-(2**16), 2**16), ANYTHING),
        "run_after": INSTANTS,
        "dedupe_key": st.one_of(TEXTS, ANYTHING),
        "owner": st.one_of(TEXTS, ANYTHING),
    },
)
KEPT = ("queue", "priority", "owner", "dedupe_key", "run_after", "max_attempts")
UNSTORABLE = st.one_of(NO_JSON, st.sampled_from([math.nan, math.inf, "\x00", "\ud800", {1: 2}]))


@given(payload=PAYLOADS, options=OPTIONS, ahead=st.integers(0, 3))
def test_a_job_is_stored_as_it_was_given_or_refused_before_any_sql(
    payload: Any, options: dict[str, Any], ahead: int
) -> None:
    """C22, C43, C145, C146: the caller's transaction goes on in either case, for one job and for many."""
    with transaction.atomic():
        Group.objects.create(name="before")
        with CaptureQueriesContext(connection) as captured:
            job, refused = refusal(lambda: Job.objects.enqueue("probe.ok", payload, **options), *REFUSALS)
        assert refused is None or len(captured) == 0
        if job is not None:
            stored = Job.objects.get(pk=job.pk)
            assert stored.payload == json.loads(json.dumps(payload or {}))
            assert [getattr(stored, name) for name in KEPT] == [getattr(job, name) for name in KEPT]
        specs = [{"job_type": "probe.ok"}] * ahead + [{"job_type": "probe.ok", "payload": payload, **options}]
        many, refused_many = refusal(lambda: Job.objects.enqueue_many(specs), *REFUSALS)
        assert type(refused_many) is type(refused)
        if refused_many is None:
            assert len(many) == ahead + 1
        else:
            assert f"item {ahead}" in str(refused_many)
        Group.objects.create(name="after")
        assert Group.objects.count() == 2
        transaction.set_rollback(True)


@given(value=UNSTORABLE, depth=st.integers(0, 9))
def test_a_refusal_names_the_path(value: Any, depth: int) -> None:
    payload: Any = value
    for number in range(depth):
        payload = [0, payload] if number % 2 else {"k": payload}

    with pytest.raises(PayloadError) as caught:
        Job.objects.enqueue("probe.ok", {"top": payload})

    assert caught.value.path.startswith("$.top" + "".join("[1]" if n % 2 else ".k" for n in reversed(range(depth))))


@given(payload=PAYLOADS)
def test_the_async_twin_refuses_the_same(payload: Any) -> None:
    """C146: aenqueue() checks in the same place."""
    with transaction.atomic():
        _job, refused = refusal(lambda: Job.objects.enqueue("probe.ok", payload), *REFUSALS)
        if refused is not None:  # a good one would be written on a connection of another thread
            _job, twin = refusal(lambda: asyncio.run(Job.objects.aenqueue("probe.ok", payload)), *REFUSALS)
            assert type(twin) is type(refused)
        transaction.set_rollback(True)
