"""Enqueue a submission: its row and its jobs, together or not at all."""

from itertools import islice
from pathlib import Path

from django.contrib.auth.models import User
from django.db import transaction

from jobqueue.models import Job

from .collecting import files_of, index_jobs
from .models import Submission

FILES_MAX = 500


@transaction.atomic
def submit(path: Path, *, submitted_by: User) -> Submission:
    """Enqueue a job for the file, or for the first FILES_MAX files of the folder, and return its row."""
    jobs = Job.objects.enqueue_many(index_jobs(islice(files_of(path), FILES_MAX)))
    enqueued = [job.pk for job in jobs if job is not None]
    return Submission.objects.create(
        path=str(path), submitted_by=submitted_by, job_ids=enqueued, held=len(jobs) - len(enqueued)
    )
