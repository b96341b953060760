"""A job over its memory is killed at once and alone; what is only reserved or shared does not count."""

from jobqueue.models import Job
from jobqueue.outcomes import Outcome
from jobqueue.states import Status

from . import processes
from .effects import Effects
from .kinds import Enqueue, Launch, WaitFor
from .waiting import until

MB = 2**20


def test_a_job_over_its_memory_is_dead_at_once(
    launch: Launch, enqueue: Enqueue, wait_for: WaitFor, effects: Effects
) -> None:
    """C97: in one go, in steps, in C, in another program: within 2 s, named for what it was; the neighbour goes on."""
    worker = launch("--processes", "3")
    neighbour = enqueue("mark", seconds=4)
    before = processes.resident_mb(worker.pid)
    jobs = {how: enqueue("alloc", mb=400, how=how, _max_attempts=3) for how in ("once", "steps", "c", "grandchild")}

    for how, job in jobs.items():
        dead = wait_for(job, Status.DEAD)
        assert (dead.outcome, dead.attempts) == (Outcome.MEMORY, 1), how
        assert "memory limit of 150 MB exceeded" in dead.last_error
        assert dead.attempt_rows.get().peak_memory_bytes > 150 * MB
        assert (dead.finished_at - effects.all("start", job_id=job.pk)[0].at).total_seconds() < 3
        worker.says(f"job needs attention job_id={job.pk}")
    assert wait_for(neighbour).attempts == 1
    assert processes.resident_mb(worker.pid) - before < 10


def test_a_job_under_its_memory_is_left_alone_and_measured(launch: Launch, enqueue: Enqueue, wait_for: WaitFor) -> None:
    launch()

    done = wait_for(enqueue("alloc", mb=80, how="steps"))

    assert done.result == 16
    assert 60 * MB < done.peak_memory_bytes < 150 * MB


def test_reserved_address_space_threads_and_copies_do_not_count(
    launch: Launch, enqueue: Enqueue, wait_for: WaitFor
) -> None:
    """C98: 4 GB mapped, 64 idle threads, and two forks of a process of 70 MB, under a limit of 150 MB."""
    launch()

    wait_for(enqueue("reserve", _max_attempts=1))


def test_a_job_with_a_memory_limit_runs_alone_in_its_child(
    launch: Launch, enqueue: Enqueue, wait_for: WaitFor, effects: Effects
) -> None:
    """With four slots in one child, its neighbours end before it starts, and none starts beside it."""
    launch("--processes", "1", "--threads", "4", LIMITS={"probe.mark": {"memory_bytes": 150 * MB}})
    beside = [enqueue("async_mark", seconds=0.3) for _ in range(6)]
    limited = enqueue("mark", seconds=0.4)
    beside += [enqueue("async_mark", seconds=0.1) for _ in range(6)]

    wait_for(limited)
    for job in beside:
        wait_for(job)

    (start,), (end,) = effects.all("start", job_id=limited.pk), effects.all("end", job_id=limited.pk)
    ids = [job.pk for job in beside]
    during = [row for row in effects.all() if row.job_id in ids and row.pid == start.pid and start.at < row.at < end.at]
    assert during == []


def test_an_input_over_its_limit_is_dead_before_the_handler_starts(
    launch: Launch, make_job: Enqueue, wait_for: WaitFor
) -> None:
    """C99: bytes, a number that the payload carries, and what should be a number and is none."""
    worker = launch()
    good = make_job(job_type="probe.small_input", payload={"document": {"page_count": 10}})
    over: list[tuple[dict[str, object], str]] = [
        ({"text": "x" * 100}, "bytes, its limit is 100"),
        ({"document": {"page_count": 11}}, "document.page_count is 11, its limit is 10"),
        ({"document": {"page_count": "9"}}, "is a string"),
    ]
    for payload, words in over:
        job = make_job(job_type="probe.small_input", payload=payload)

        dead = wait_for(job, Status.DEAD)

        assert (dead.outcome, dead.attempts) == (Outcome.INPUT_LIMIT, 1)
        assert words in dead.last_error
        worker.says(f"job needs attention job_id={job.pk}")
    assert wait_for(good).result == "let through"


def test_a_child_too_large_for_the_next_job_is_replaced_before_it(
    launch: Launch, enqueue: Enqueue, wait_for: WaitFor, effects: Effects
) -> None:
    """A job is not killed for what its predecessor left in the process."""
    launch("--processes", "1")
    fat = wait_for(enqueue("leak", mb=120)).result

    done = wait_for(enqueue("alloc", mb=60, _max_attempts=1))

    assert done.outcome == Outcome.DONE
    assert effects.all("start", job_id=done.pk)[0].pid != fat
    until(lambda: not processes.is_alive(fat), what="the large child's end")


def test_a_job_that_runs_alone_has_its_turn_in_a_busy_child(
    launch: Launch, enqueue: Enqueue, wait_for: WaitFor, effects: Effects
) -> None:
    """Four slots that are never all free by themselves: the child is emptied for it, others wait meanwhile."""
    launch("--processes", "1", "--threads", "4", LIMITS={"probe.mark": {"memory_bytes": 150 * MB}})
    specs = [("probe.slices", {"count": count}) for count in (2, 3, 4, 5)] * 20
    Job.objects.enqueue_many([*specs[:8], ("probe.mark", {}), *specs[8:]])

    (limited,) = Job.objects.filter(job_type="probe.mark")
    done = wait_for(limited, within=20)

    assert Job.objects.filter(job_type="probe.slices", status=Status.DONE).count() < 40
    assert done.lease_epoch <= 3
