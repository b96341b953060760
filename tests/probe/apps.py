"""The app's configuration: receivers of a worker's own signals are connected here, as docs/handlers.md says."""

import os

from django.apps import AppConfig


class ProbeConfig(AppConfig):
    """The probe app."""

    name = "tests.probe"

    def ready(self) -> None:
        """Connect what PROBE_RECEIVERS asks for, and trace where PROBE_TRACES says where to."""
        from .receivers import connect_worker_receivers  # late: models are not ready before

        connect_worker_receivers()
        if path := os.environ.get("PROBE_TRACES"):
            from .tracing import trace_to_file

            trace_to_file(path)
