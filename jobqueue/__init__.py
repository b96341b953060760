"""Background jobs on the PostgreSQL that a Django project already has: at least once, fenced."""

from .backoff import Backoff
from .exceptions import Dead, Discard, Retry, Snooze
from .gauges import count, gauge
from .limits import MB, Limits
from .registry import job

__version__ = "0.1.0"

__all__ = ["MB", "Backoff", "Dead", "Discard", "Limits", "Retry", "Snooze", "__version__", "count", "gauge", "job"]
