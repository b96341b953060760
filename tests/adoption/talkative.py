"""The settings of the tests with all that can be logged in the log."""

from tests.settings import *  # noqa: F403  (as settings are derived)

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"whole": {"format": "%(asctime)s %(levelname)s %(name)s %(message)s"}},
    "handlers": {"console": {"class": "logging.StreamHandler", "formatter": "whole"}},
    "root": {"level": "DEBUG", "handlers": ["console"]},
    "loggers": {name: {"level": "DEBUG", "propagate": True} for name in ("django", "jobqueue", "psycopg", "asyncio")},
}
