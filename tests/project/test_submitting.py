"""The form: who may use it, what it enqueues, and that it does so in the request's transaction."""

from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.db import DatabaseError
from django.test import Client
from django.urls import reverse

from jobqueue.models import Job
from jobqueue.states import Status
from project.documents.collecting import files_of, index_jobs, is_allowed, key_of
from project.documents.models import Submission
from project.samples import Samples

ADDRESS = "/"


@pytest.fixture
def member(db: None, client: Client) -> Client:
    """Return a client of a person who may use the form."""
    user = User.objects.create_user("member")
    user.user_permissions.add(Permission.objects.get(codename="add_submission"))
    client.force_login(user)
    return client


def test_a_stranger_is_sent_to_the_login(db: None, client: Client) -> None:
    answer = client.get(ADDRESS)

    assert answer.headers["Location"] == f"{reverse('admin:login')}?next=/"


def test_a_person_without_the_permission_is_refused(db: None, client: Client, folder: Path) -> None:
    client.force_login(User.objects.create_user("guest"))

    answer = client.post(ADDRESS, {"path": str(folder)})

    assert answer.status_code == 403
    assert not Job.objects.exists()


def test_the_page_labels_its_field_and_its_table(member: Client) -> None:
    page = member.get(ADDRESS).content.decode()

    assert '<html lang="en">' in page
    assert '<label for="id_path">' in page
    assert 'aria-describedby="id_path_helptext"' in page
    assert "<caption>Newest first</caption>" in page


def test_a_folder_is_enqueued_and_its_jobs_are_shown(member: Client, folder: Path) -> None:
    for name in ("a.txt", "b.md", "skipped.exe", ".hidden.txt"):
        (folder / name).write_text("text")

    answer = member.post(ADDRESS, {"path": str(folder)}, follow=True)

    jobs = list(Job.objects.order_by("id"))
    assert [Path(job.payload["path"]).name for job in jobs] == ["a.txt", "b.md"]
    assert all((job.status, job.payload["size_bytes"]) == (Status.PENDING, 4) for job in jobs)
    assert Submission.objects.get().job_ids == [job.pk for job in jobs]
    page = answer.content.decode()
    assert "2 jobs were enqueued" in page
    assert "b.md" in page


def test_a_file_that_waits_already_is_not_enqueued_twice(member: Client, folder: Path) -> None:
    (folder / "a.txt").write_text("text")
    member.post(ADDRESS, {"path": str(folder)})

    answer = member.post(ADDRESS, {"path": str(folder / "a.txt")}, follow=True)

    assert Job.objects.count() == 1
    assert "1 file had an unfinished job already" in answer.content.decode()


@pytest.mark.parametrize("path", ["/etc/passwd", "/", "..", "gone.txt", "nul\0byte", ""])
def test_other_paths_are_refused_with_an_error_at_the_field(member: Client, folder: Path, path: str) -> None:
    answer = member.post(ADDRESS, {"path": path})

    assert answer.status_code == 400
    assert 'aria-describedby="id_path_helptext id_path_error"' in answer.content.decode()
    assert not Job.objects.exists()


def test_a_link_out_of_the_allowed_folder_is_refused(folder: Path) -> None:
    link = folder / "link.txt"
    link.symlink_to("/etc/passwd")

    assert not is_allowed(link)
    assert list(files_of(folder)) == []


def test_no_job_is_left_when_the_request_fails(member: Client, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "a.txt").write_text("text")
    member.raise_request_exception = False

    def full(*_args: Any, **_kwargs: Any) -> None:
        raise DatabaseError("disk full")

    monkeypatch.setattr(Submission.objects, "create", full)

    answer = member.post(ADDRESS, {"path": str(folder)})

    assert answer.status_code == 500
    assert not Job.objects.exists()


def test_a_pdf_is_enqueued_with_its_page_count(samples: Samples) -> None:
    [item] = index_jobs([samples.thick])

    assert item["payload"]["page_count"] == 2_400


def test_a_file_whose_name_is_no_utf8_is_left_out(folder: Path) -> None:
    (folder / "a\udcff.txt").touch()

    assert list(files_of(folder)) == []


def test_a_long_path_still_makes_a_key() -> None:
    assert key_of("index:a") == "index:a"
    assert len(key_of("index:" + "ä" * 200)) == 71
