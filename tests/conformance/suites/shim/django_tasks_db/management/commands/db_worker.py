"""Its command, by our run_once(): what its tests start in their own process."""

from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from jobqueue.models import Job
from jobqueue.testing import run_once


class Command(BaseCommand):
    def add_arguments(self, parser: CommandParser) -> None:
        for name in ("--queue-name", "--exclude-queues", "--worker-id"):
            parser.add_argument(name, default="")
        parser.add_argument("--backend", dest="backend_name", default="default")
        parser.add_argument("--interval", type=float)
        parser.add_argument("--max-tasks", type=int)
        parser.add_argument("--batch", action="store_true")
        parser.add_argument("--no-startup-delay", dest="startup_delay", action="store_false")

    def handle(self, *, queue_name: str, exclude_queues: str, **options: Any) -> None:
        queues: set[str] = set((queue_name or "default").split(","))
        if "*" in queues:
            queues = set(Job.objects.values_list("queue", flat=True)) - set(exclude_queues.split(","))
        if options["backend_name"] == "default":
            ran = run_once(options["max_tasks"] or 100, sorted(queues))
            if len(ran) == options["max_tasks"]:
                self.stdout.write(f"Run maximum tasks ({len(ran)})")
