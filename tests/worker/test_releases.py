"""The release of the project: marked by its first worker, and told by each."""

from jobqueue.models import Release, Worker

from .kinds import Launch
from .waiting import until


def test_a_worker_marks_the_release_that_it_runs(launch: Launch) -> None:
    launch("--processes", "1", env={"JOBQUEUE_RELEASE": "2026.11.30"})

    until(lambda: Release.objects.filter(pk="2026.11.30").exists(), within=20, what=lambda: "no release")
    assert Worker.objects.get().release == "2026.11.30"
