"""The states of a job: numbers that SQL files spell out, and the table of allowed changes."""

from itertools import product

import pytest

from jobqueue.states import ACTIVE, FINISHED, TRANSITIONS, Status, can_change

ALLOWED = {
    (Status.PENDING, Status.RUNNING),
    (Status.PENDING, Status.SCHEDULED),
    (Status.PENDING, Status.CANCELLED),
    (Status.RUNNING, Status.DONE),
    (Status.RUNNING, Status.PENDING),
    (Status.RUNNING, Status.SCHEDULED),
    (Status.RUNNING, Status.DEAD),
    (Status.RUNNING, Status.CANCELLED),
    (Status.DEAD, Status.PENDING),
    (Status.DEAD, Status.SCHEDULED),
    (Status.DEAD, Status.CANCELLED),
    (Status.SCHEDULED, Status.PENDING),
    (Status.SCHEDULED, Status.SCHEDULED),
    (Status.SCHEDULED, Status.CANCELLED),
}


@pytest.mark.parametrize(
    ("name", "number"),
    [("PENDING", 1), ("RUNNING", 2), ("DONE", 3), ("DEAD", 4), ("SCHEDULED", 5), ("WAITING", 6), ("CANCELLED", 7)],
)
def test_the_numbers_are_those_that_sql_files_spell_out(name: str, number: int) -> None:
    assert Status[name].value == number


@pytest.mark.parametrize(("current", "wanted"), list(product(Status, Status)))
def test_a_change_is_allowed_exactly_where_the_design_says(current: Status, wanted: Status) -> None:
    assert can_change(current, wanted) is ((current, wanted) in ALLOWED)


def test_every_status_has_its_row_in_the_table() -> None:
    assert set(TRANSITIONS) == set(Status)


def test_active_and_finished_part_all_states() -> None:
    assert sorted([*ACTIVE, *FINISHED]) == sorted(Status)


def test_done_and_cancelled_are_final() -> None:
    assert TRANSITIONS[Status.DONE] == TRANSITIONS[Status.CANCELLED] == frozenset()


def test_only_a_person_leads_out_of_a_finished_state() -> None:
    reachable = {status for status in FINISHED if TRANSITIONS[status]}

    assert reachable == {Status.DEAD}


def test_labels_are_lower_case_words() -> None:
    assert [str(label) for label in Status.labels] == [name.lower() for name in Status.names]
