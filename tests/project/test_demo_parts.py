"""project.demo: its database, its processes and its lines."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import psycopg
import pytest
from django.contrib.auth import get_user_model

from jobqueue.models import Action, GroupNote, Job, Queue
from jobqueue.states import Status
from jobqueue.testing import drain
from project.demo import scene
from project.demo.database import make_database
from project.demo.processes import Processes, free_port
from project.demo.telling import Teller, counts_line, is_settled
from project.demo.work import FOUND_MAX, chosen_documents, found_documents
from project.samples import Samples, make_samples
from tests.factories import JobFactory


@pytest.fixture
def processes(tmp_path: Path) -> Processes:
    return Processes(tmp_path)


def test_the_database_is_made_anew_each_time(demo_url: str) -> None:
    first = make_database(demo_url)
    with psycopg.connect(first, autocommit=True) as connection:
        connection.execute("CREATE TABLE rest (id int)")

    second = make_database(demo_url)

    assert first == second == f"{demo_url}_demo"
    with psycopg.connect(second) as connection:
        assert connection.execute("SELECT to_regclass('rest')").fetchone() == (None,)


def test_a_database_that_the_demo_did_not_make_is_left_alone(demo_url: str) -> None:
    make_database(demo_url)
    with psycopg.connect(demo_url, autocommit=True) as connection:
        connection.execute(f"COMMENT ON DATABASE \"{demo_url.rpartition('/')[2]}_demo\" IS 'mine'")

    with pytest.raises(SystemExit, match="was not made by the demo"):
        make_database(demo_url)


def test_a_database_in_use_is_said_to_be(demo_url: str) -> None:
    with psycopg.connect(make_database(demo_url)), pytest.raises(SystemExit, match="in use"):
        make_database(demo_url)


def test_a_url_of_a_demo_database_is_taken_as_it_is() -> None:
    assert make_database("postgresql://me@localhost/shop_demo") == "postgresql://me@localhost/shop_demo"


def test_an_ended_process_is_reported_with_its_last_lines(processes: Processes) -> None:
    processes.start("short", "-c", "import sys; print('told'); sys.exit(3)")
    processes._running["short"].wait()

    assert processes.ended() == ["short ended with code 3:\ntold"]


def test_stopping_ends_every_process(processes: Processes) -> None:
    processes.start("long", "-c", "import signal; signal.pause()")
    process = processes._running["long"]

    processes.stop()

    assert process.returncode == -15
    assert processes.ended() == []


@pytest.mark.skipif(sys.platform != "linux", reason="the death signal is Linux's")
def test_a_process_ends_with_a_demo_that_is_killed(processes: Processes, tmp_path: Path) -> None:
    fifo = tmp_path / "alive"
    os.mkfifo(fifo)
    code = (
        "import pathlib, signal, sys; from project.demo.processes import Processes;"
        "p = Processes(pathlib.Path(sys.argv[1]));"
        "p.start('child', '-c', f'import signal; f = open({sys.argv[2]!r}, \"wb\", 0);'"
        "'f.write(b\"1\"); signal.pause()');"
        "signal.pause()"
    )
    parent = subprocess.Popen([sys.executable, "-c", code, tmp_path, fifo], cwd=Path(__file__).parents[2])
    with fifo.open("rb") as alive:
        assert alive.read(1) == b"1"
        parent.send_signal(signal.SIGKILL)
        parent.wait()

        assert alive.read() == b""  # the other end is closed: the child has ended


def test_a_port_in_use_is_stepped_over() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]

        assert free_port(port) > port


def test_the_counts_are_one_line() -> None:
    counts = {Status.DONE: 3, Status.SCHEDULED: 1}

    assert counts_line(counts) == "done 3 dead 0 pending 0 running 0 scheduled 1 cancelled 0"
    assert not is_settled(counts)
    assert is_settled({Status.DONE: 3, Status.DEAD: 1})


def test_each_thing_is_told_once(db: None, capsys: pytest.CaptureFixture[str]) -> None:
    JobFactory(status=Status.DEAD, payload={"path": "/a/b.pdf"}, last_error="PdfError: broken\nmore")
    JobFactory(status=Status.DONE, payload={"path": "/a/c.pdf"}, attempts=2, last_error="refused")
    teller = Teller()

    teller.look()
    teller.look()

    told = capsys.readouterr().out
    assert told.count("b.pdf: dead letter after 3 attempts: failed: PdfError: broken\n") == 1
    assert told.count("c.pdf: done at attempt 2; before that: refused\n") == 1
    assert told.count("done 1 dead 1 pending 0 running 0 scheduled 0 cancelled 0\n") == 1


def test_samples_are_made_once(samples: Samples) -> None:
    before = samples.map.stat().st_mtime_ns

    again = make_samples(samples.folder)

    assert again.map.stat().st_mtime_ns == before
    assert len(again.good) == 120


def test_a_folder_can_be_named_whose_documents_are_indexed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.md").touch()
    monkeypatch.setenv("DEMO_FOLDER", str(tmp_path))

    assert chosen_documents() == [tmp_path / "a.md"]


def test_without_one_the_repository_is_indexed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DEMO_FOLDER", raising=False)

    assert "CHANGELOG.md" in {path.name for path in chosen_documents()}


def test_what_is_found_on_the_machine_is_bounded() -> None:
    found = found_documents()

    assert len(found) == len(set(found))
    assert 0 < len(found) <= FOUND_MAX


def test_the_scene_has_something_of_everything(transactional_db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a worker: what runs for an hour ends at once here, so that the scene gives up waiting for it."""
    get_user_model().objects.create_superuser("admin", password="x")
    monkeypatch.setattr(scene, "SECONDS", 0.0)
    monkeypatch.setattr(scene, "WAIT_SECONDS", 0.1)

    scene.set_scene("chosen", lambda _seconds: bool(drain()) and False)

    dead = Counter(Job.objects.dead().values_list("job_type", flat=True))
    assert dead == {"demo.deliver": scene.NOTES, "demo.enlarge": 6, "demo.fail": 3}
    assert Queue.objects.filter(name=scene.PAUSED).exists()
    assert Job.objects.filter(queue=scene.PAUSED, status=Status.PENDING).count() == 5
    notes = {note.job_type: note for note in GroupNote.objects.all()}
    assert scene.MISSPELT in notes["demo.deliver"].note
    assert notes["demo.deliver"].assignee == "admin"
    assert notes["demo.enlarge"].muted_until is not None
    assert {"pause_queue", "note_group", "hand_over", "mute_group"} <= set(
        Action.objects.values_list("action", flat=True)
    )
    viewer = get_user_model().objects.get(username="viewer")
    assert viewer.check_password("chosen")
    assert viewer.get_all_permissions() == {"jobqueue.view_job"}


def test_what_died_of_the_misspelt_host_succeeds_with_the_right_one(transactional_db: None) -> None:
    Job.objects.enqueue("demo.deliver", {"host": scene.RIGHT, "note": {"id": 7}})

    assert [status for _, status in drain()] == [Status.DONE]


def test_what_can_be_tried_is_told_with_address_and_password() -> None:
    lines = scene.told("http://localhost:8000", "chosen")

    assert "http://localhost:8000/admin/jobqueue/" in lines[0]
    assert "password: chosen" in lines[0]
    assert {"Dead", "Stuck", "Queues", "Workers", "Costs", "Incidents", "Audit"} <= {line.split()[0] for line in lines}


def test_a_process_that_ended_tells_its_code(processes: Processes) -> None:
    processes.start("quick", "-c", "raise SystemExit(3)")
    give_up = time.monotonic() + 30
    while processes.exit_code("quick") is None and time.monotonic() < give_up:
        os.sched_yield()

    assert processes.exit_code("quick") == 3
    assert processes.exit_code("never started") is None
