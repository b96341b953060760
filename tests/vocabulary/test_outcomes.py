"""The ends of an attempt, in the words of the design."""

from jobqueue.outcomes import FATAL_OUTCOMES, LIMIT_OUTCOMES, Outcome

WORDS = (
    "done failed deadline memory crashed lease_expired interrupted cancelled discarded input_limit unknown_type"
).split()


def test_the_words_are_those_of_the_design_in_its_order() -> None:
    assert Outcome.labels == WORDS


def test_the_numbers_count_from_one() -> None:
    assert Outcome.values == list(range(1, 12))


def test_the_words_are_the_names_in_lower_case() -> None:
    assert [name.lower() for name in Outcome.names] == Outcome.labels


def test_a_deadline_is_a_limit_but_not_the_end() -> None:
    assert Outcome.DEADLINE in LIMIT_OUTCOMES
    assert Outcome.DEADLINE not in FATAL_OUTCOMES


def test_too_much_memory_and_too_large_an_input_end_a_job_at_once() -> None:
    assert {Outcome.MEMORY, Outcome.INPUT_LIMIT} <= FATAL_OUTCOMES & LIMIT_OUTCOMES


def test_an_ordinary_failure_is_neither() -> None:
    assert Outcome.FAILED not in FATAL_OUTCOMES | LIMIT_OUTCOMES
