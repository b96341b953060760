"""`manage.py visit buy`, `manage.py visit admin`: open the project's pages as a browser would."""

import hashlib
from pathlib import Path
from typing import Any

from django.contrib import admin
from django.contrib.auth import get_user_model
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.test import Client
from django.urls import reverse

from jobqueue.models import Job


class Command(BaseCommand):
    """Ends with an error where a page or a job is not as it should be."""

    def add_arguments(self, parser: CommandParser) -> None:
        """Take which pages."""
        parser.add_argument("pages", choices=["buy", "admin"])

    def handle(self, *args: Any, **options: Any) -> None:
        """Open them."""
        client = Client(headers={"host": "localhost"})
        if options["pages"] == "buy":
            self.see(client, "/buy")
            return
        job = Job.objects.get()
        digest = hashlib.sha256(Path("manage.py").read_bytes()).hexdigest()
        if (job.get_status_display(), job.result) != ("done", {"sha256": digest}):
            raise CommandError(f"the job is {job.get_status_display()}, its result {job.result}")
        client.force_login(get_user_model().objects.create_superuser("boss", "boss@localhost", "secret"))
        for model in admin.site._registry:
            self.see(client, reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_changelist"))
        self.see(client, reverse("admin:index"))
        self.see(client, reverse("admin:jobqueue_job_change", args=[job.pk]))

    def see(self, client: Client, address: str) -> None:
        """Open one page."""
        status = client.get(address).status_code
        if status != 200:
            raise CommandError(f"{address} answers {status}")
        self.stdout.write(f"{status} {address}")
