"""jobqueue_redrive: counts first, asks, acts through operations, and says what was refused."""

from collections.abc import Callable

import pytest

from jobqueue.management.durations import duration
from jobqueue.models import Action, Job
from jobqueue.models.expressions import StatementTimestamp
from jobqueue.states import Status
from tests.factories import JobFactory, ago

from .conftest import Ran

pytestmark = pytest.mark.django_db

Run = Callable[..., Ran]


def dead(jobs: int = 1, **fields: object) -> list[Job]:
    return JobFactory.create_batch(jobs, status=Status.DEAD, **fields)


def put_back() -> set[int]:
    return set(Job.objects.filter(status__in=[Status.PENDING, Status.SCHEDULED]).values_list("pk", flat=True))


@pytest.fixture
def answer(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], list[str]]:
    """Return the function that answers the question, and keeps what was asked."""

    def answer_with(text: str) -> list[str]:
        asked: list[str] = []

        def read(prompt: str) -> str:
            asked.append(prompt)
            return text

        monkeypatch.setattr("builtins.input", read)
        return asked

    return answer_with


@pytest.mark.smoke
def test_the_counts_come_first_and_nothing_changes_without_a_yes(run: Run, answer: Callable[[str], list[str]]) -> None:
    dead(3, job_type="a", fingerprint="f1", error_class="ValueError")
    dead(1, job_type="b", fingerprint=None, error_class=None)
    asked = answer("n")

    ran = run("jobqueue_redrive", "--all")

    assert ran.code == 0
    assert [line.split() for line in ran.out.splitlines()] == [
        ["3", "a", "ValueError", "f1"],
        ["1", "b", "-", "-"],
        ["4", "dead", "letters", "match"],
        ["Nothing", "was", "changed."],
    ]
    assert asked == ["Put 4 dead letters back? [y/N] "]
    assert put_back() == set()


@pytest.mark.parametrize("option", ["--type=probe.ok", "--older-than=1h", "--newer-than=3h"])
def test_what_dies_while_the_question_stands_is_not_put_back(
    run: Run, option: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = dead(3, finished_at=ago(7_200))

    def yes(_prompt: str) -> str:
        late = [job.pk for job in dead(2)]
        Job.objects.filter(pk__in=late).update(finished_at=StatementTimestamp())
        return "y"

    monkeypatch.setattr("builtins.input", yes)

    assert run("jobqueue_redrive", option).out.splitlines()[-1] == "3 put back, 0 refused."
    assert put_back() == {job.pk for job in jobs}


def test_a_yes_puts_them_back_and_is_audited(run: Run, answer: Callable[[str], list[str]]) -> None:
    jobs = dead(3)
    answer("y")

    ran = run("jobqueue_redrive", "--type", "probe.ok", "--reason", "fixed in 1.2")

    assert (ran.code, ran.out.splitlines()[-1]) == (0, "3 put back, 0 refused.")
    assert put_back() == {job.pk for job in jobs}
    action = Action.objects.get()
    assert action.actor.startswith("jobqueue_redrive (")
    assert (action.action, action.reason) == ("retry", "fixed in 1.2")


@pytest.mark.parametrize(
    ("arguments", "chosen"),
    [
        (["--type", "a"], {0, 1}),
        (["--type", "a", "b"], {0, 1, 2}),
        (["--queue", "mail"], {1}),
        (["--fingerprint", "f2"], {1, 2}),
        (["--type", "a", "--fingerprint", "f2"], {1}),
        (["--older-than", "1h"], {2}),
        (["--newer-than", "1h"], {0, 1, 3}),
        (["--all"], {0, 1, 2, 3}),
    ],
)
def test_the_options_choose_and_are_combined(run: Run, arguments: list[str], chosen: set[int]) -> None:
    jobs = [
        *dead(job_type="a", fingerprint="f1"),
        *dead(job_type="a", fingerprint="f2", queue="mail"),
        *dead(job_type="b", fingerprint="f2", finished_at=ago(7_200)),
        *dead(job_type="c", fingerprint="f3"),
    ]
    JobFactory.create(status=Status.DONE, job_type="a", fingerprint="f2", queue="mail", finished_at=ago(7_200))

    run("jobqueue_redrive", "--yes", *arguments)

    assert put_back() == {jobs[index].pk for index in chosen}


def test_ids_that_do_not_match_are_named(run: Run) -> None:
    job, done = dead()[0], JobFactory.create(status=Status.DONE)

    ran = run("jobqueue_redrive", "--yes", "--id", str(job.pk), str(done.pk), "--id", "999999")

    assert ran.code == 0
    assert f"Not among them: #{done.pk}, #999999" in ran.out
    assert put_back() == {job.pk}


def test_what_is_refused_is_told_and_gives_exit_code_3(run: Run) -> None:
    holder, job = JobFactory.create(dedupe_key="k"), dead(dedupe_key="k")[0]

    ran = run("jobqueue_redrive", "--all", "--yes")

    assert ran.code == 3
    assert ran.out.splitlines()[-2:] == ["0 put back, 1 refused.", f"  #{job.pk} blocked by #{holder.pk}"]


def test_a_spread_makes_them_due_later(run: Run) -> None:
    dead(5)

    run("jobqueue_redrive", "--all", "--yes", "--spread", "10m")

    assert Job.objects.filter(status=Status.SCHEDULED).count() == 5


def test_a_dry_run_ends_after_the_counts(run: Run) -> None:
    dead(2)

    ran = run("jobqueue_redrive", "--all", "--dry-run", "--yes")

    assert (ran.code, ran.out.splitlines()[-1].split()[0]) == (0, "2")
    assert put_back() == set()


def test_nothing_that_matches_is_no_error(run: Run) -> None:
    assert run("jobqueue_redrive", "--all") == (0, "No dead letters match.\n", "")


def test_without_a_choice_nothing_is_chosen(run: Run) -> None:
    dead()

    ran = run("jobqueue_redrive", "--yes")

    assert (ran.code, put_back()) == (2, set())
    assert "say which dead letters" in ran.error


def test_with_nobody_to_ask_the_way_out_is_told(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    dead()

    def nobody(prompt: str) -> str:
        raise EOFError

    monkeypatch.setattr("builtins.input", nobody)

    ran = run("jobqueue_redrive", "--all")

    assert (ran.code, ran.error) == (1, "nobody is there to ask: add --yes")


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90), ("90s", 90), ("1.5m", 90), ("2H", 7_200), ("7d", 604_800), ("1w", 604_800)]
)
def test_times_have_units(text: str, seconds: float) -> None:
    assert duration(text).total_seconds() == seconds


@pytest.mark.parametrize("text", ["", "m", "-5m", "5 min", "1e9", "99999999999999w"])
def test_what_is_no_time_is_refused(run: Run, text: str) -> None:
    ran = run("jobqueue_redrive", "--all", f"--spread={text}")

    assert "is not a time: write 90, 90s, 15m, 2h or 7d" in ran.error
