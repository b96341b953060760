"""What people say of groups of dead letters: who may, what is kept, when a mute ends."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.utils import timezone

from jobqueue import operations
from jobqueue.models import Action, GroupNote, Job
from jobqueue.operations import Group
from jobqueue.ops.dead_group import group_actions
from jobqueue.ops.dead_groups import dead_groups
from jobqueue.states import Status
from tests.factories import JobFactory, ago

pytestmark = pytest.mark.django_db

MakeUser = Callable[..., User]
GROUP = Group("f1", "probe.ok")
OTHER = Group("f2", "probe.ok")


def dead(jobs: int, **columns: Any) -> None:
    JobFactory.create_batch(jobs, **{"status": Status.DEAD, "fingerprint": "f1"} | columns)


def soon(**span: float) -> datetime:
    return timezone.now() + timedelta(**span)


def note_of(group: Group = GROUP) -> GroupNote:
    return GroupNote.objects.get(**group._asdict())


def muted() -> bool:
    return dead_groups(Job.objects.dead()).groups[0].muted


def test_a_group_is_handed_over_and_the_audit_tells_from_whom_to_whom(make_user: MakeUser) -> None:
    anna, bert = make_user("view_job", username="anna"), make_user("view_job", username="bert")
    chief = make_user("retry_job", username="chief")

    assert operations.hand_over([GROUP], anna, actor=chief) == 1
    assert operations.hand_over([GROUP, OTHER], bert, actor=chief, reason="on holiday") == 2

    assert {note_of(GROUP).assignee, note_of(OTHER).assignee} == {"bert"}
    action = Action.objects.filter(subject="group:f1/probe.ok").latest("pk")
    assert (action.action, action.actor, action.reason) == ("hand_over", "chief", "on holiday")
    assert action.detail == {"assignee": {"from": "anna", "to": "bert"}}


def test_what_changes_nothing_leaves_no_audit() -> None:
    assert operations.hand_over([GROUP], None, actor="command") == 0
    assert not Action.objects.exists()


@pytest.mark.parametrize("more", [{}, {"is_active": False}])
def test_nobody_gets_a_group_who_may_not_see_jobs(make_user: MakeUser, more: dict[str, Any]) -> None:
    user = make_user(*(["view_job"] if more else []), **more)

    with pytest.raises(ValueError, match="may not see jobs"):
        operations.hand_over([GROUP], user, actor="command")

    assert not GroupNote.objects.exists()


@pytest.mark.parametrize("act", ["hand_over", "note_group", "mute_groups"])
def test_whoever_may_not_retry_jobs_says_nothing_of_groups(make_user: MakeUser, act: str) -> None:
    told = {"hand_over": ([GROUP], None), "note_group": (GROUP, "x"), "mute_groups": ([GROUP], None)}[act]

    with pytest.raises(PermissionDenied):
        getattr(operations, act)(*told, actor=make_user("view_job", "discard_job"))

    assert not GroupNote.objects.exists()


def test_a_note_that_somebody_changed_meanwhile_is_not_overwritten() -> None:
    operations.note_group(GROUP, "ask the partner", actor="anna")
    seen = note_of().updated_at
    operations.note_group(GROUP, "the partner is asked", actor="bert", seen=seen)

    with pytest.raises(operations.NoteChanged, match="bert has changed it"):
        operations.note_group(GROUP, "mine", actor="anna", seen=seen)
    with pytest.raises(operations.NoteChanged):
        operations.note_group(GROUP, "mine", actor="anna")

    assert (note_of().note, note_of().updated_by) == ("the partner is asked", "bert")


def test_a_note_is_kept_as_the_database_can_hold_it() -> None:
    operations.note_group(GROUP, "a\x00b\ud800", actor="anna")

    assert note_of().note == "ab\\ud800"


def test_a_mute_ends_with_its_time() -> None:
    dead(1)

    operations.mute_groups([GROUP], soon(hours=1), actor="anna")
    assert muted()
    GroupNote.objects.update(muted_until=ago(1))

    assert not muted()


def test_a_mute_ends_when_twice_as_many_die_in_a_day() -> None:
    dead(3)
    dead(5, finished_at=ago(100_000))
    operations.mute_groups([GROUP], soon(days=7), doubled=True, actor="anna")
    assert note_of().muted_rate == 3

    dead(2)
    assert muted()
    dead(1)

    assert not muted()


def test_a_quiet_group_that_is_muted_may_die_once() -> None:
    dead(1, finished_at=ago(100_000))
    operations.mute_groups([GROUP], soon(days=7), doubled=True, actor="anna")

    dead(1)
    assert muted()
    dead(1)

    assert not muted()


def test_a_mute_is_taken_back() -> None:
    dead(1)
    operations.mute_groups([GROUP], soon(days=1), doubled=True, actor="anna")

    assert operations.mute_groups([GROUP], None, actor="anna") == 1

    assert not muted()
    assert note_of().muted_rate is None


@pytest.mark.parametrize("until", [datetime(2020, 1, 1, tzinfo=UTC), datetime(2999, 1, 1)])
def test_a_mute_needs_a_time_to_come(until: datetime) -> None:
    with pytest.raises(ValueError, match="aware time in the future"):
        operations.mute_groups([GROUP], until, actor="anna")


def test_the_group_of_jobs_without_an_error_has_a_note_too() -> None:
    dead(1, fingerprint=None)
    group = dead_groups(Job.objects.dead()).groups[0].key
    assert group == Group("", "probe.ok")

    operations.mute_groups([group], soon(hours=1), actor="anna", doubled=True)

    assert muted()
    assert note_of(group).muted_rate == 1


def test_the_history_of_a_group_is_of_it_alone() -> None:
    operations.note_group(GROUP, "x", actor="anna")
    operations.note_group(OTHER, "x", actor="bert")
    dead(2)
    operations.retry(Job.objects.dead(), actor="carl", subject=GROUP.subject)

    deeds = [(action.actor, action.number) for action in group_actions(GROUP, using="default")]  # type: ignore[attr-defined]

    assert deeds == [("carl", 2), ("anna", 0)]
