"""The app's configuration: receivers of a worker's own signals are connected here, as docs/handlers.md says."""

from django.apps import AppConfig


class ProbeConfig(AppConfig):
    """The probe app."""

    name = "tests.probe"

    def ready(self) -> None:
        """Connect what PROBE_RECEIVERS asks for."""
        from .receivers import connect_worker_receivers  # late: models are not ready before

        connect_worker_receivers()
