"""Refusals of the operations in the language of whoever reads them, and left as they are where they are not known."""

from types import SimpleNamespace
from typing import Any

import pytest
from django.utils import translation

from jobqueue import operations
from jobqueue.admin.why_not import SENTENCES, why_not
from jobqueue.exceptions import InvalidTransition
from jobqueue.models import Job
from jobqueue.operations import FieldEdit, NoEdit
from jobqueue.states import Status
from tests.factories import JobFactory, ahead


@pytest.mark.parametrize(
    ("said", "german"),
    [
        ("no such job", "gibt es nicht"),
        ("is DONE", "hat den Status „erledigt“"),
        ("blocked by #7", "blockiert durch #7"),
        ("blocked by", "blockiert durch einen anderen Job"),
        ("was edited, but is blocked by #7", "wurde geändert, aber: blockiert durch #7"),
        ("would be refused: no room", "würde abgelehnt: no room"),
        (InvalidTransition(5, Status.RUNNING, "edit"), "hat den Status „laufend“"),
        (InvalidTransition(5, None, "edit"), "gibt es nicht"),
        ("is WHATEVER", "is WHATEVER"),
        ("the database refused: out of luck", "the database refused: out of luck"),
    ],
)
def test_refusal_is_translated(said: Any, german: str) -> None:
    with translation.override("de"):
        assert why_not(said) == german


@pytest.mark.django_db
def test_words_of_the_operations_are_known() -> None:
    admin = SimpleNamespace(is_active=True, has_perm=lambda _name: True, get_username=lambda: "anna")
    running = JobFactory.create(status=Status.RUNNING, lease_until=ahead(60))

    missed = operations.release([running.pk, 10**12], actor=admin).refused

    assert {*missed.values()} <= {*SENTENCES}
    for edit, payload in (
        (FieldEdit(kind="remove", path=("a",)), {}),
        (FieldEdit(kind="set", path=("a",), value=1), {"a": 1}),
        (FieldEdit(kind="rename", path=("a",), name="b"), {"a": 1, "b": 2}),
        (FieldEdit(kind="replace", path=("a",), find="x", by="y"), {"a": 1}),
        (FieldEdit(kind="replace", path=("a",), find="x", by="y"), {"a": "z"}),
    ):
        with pytest.raises(NoEdit) as refused:
            edit.apply(payload)
        assert str(refused.value) in SENTENCES


@pytest.mark.django_db
def test_status_in_a_refusal_is_known() -> None:
    done = JobFactory.create(status=Status.DONE)

    with pytest.raises(InvalidTransition) as refused:
        Job.objects.cancel(done.pk)

    assert why_not(refused.value) == "is done"
