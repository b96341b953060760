"""The example project's settings, with the probe app whose handlers the tests run."""

from psycopg import IsolationLevel

from project.settings import *  # noqa: F403
from project.settings import INSTALLED_APPS

INSTALLED_APPS = [*INSTALLED_APPS, "tests.probe", *env.list("PROBE_APPS", default=[])]  # noqa: F405

TASKS = {
    **TASKS,  # noqa: F405
    "other": {
        "BACKEND": "jobqueue.backends.JobQueueBackend",
        "QUEUES": ["default", "slow"],
        "OPTIONS": {"max_attempts": 2, "tasks": {"tests.backends.tasks.fails": {"max_attempts": 1}}},
    },
    "immediate": {"BACKEND": "jobqueue.backends.ImmediateBackend", "QUEUES": []},
    "dummy": {"BACKEND": "jobqueue.backends.DummyBackend", "QUEUES": []},
}

if env.str("PROBE_AUTOCOMMIT", default="on") == "off":  # noqa: F405
    DATABASES["default"]["AUTOCOMMIT"] = False  # noqa: F405

if isolation := env.str("PROBE_ISOLATION", default=""):  # noqa: F405
    DATABASES["default"].setdefault("OPTIONS", {})["isolation_level"] = IsolationLevel[isolation]  # noqa: F405

if mail_folder := env.str("PROBE_MAIL", default=""):  # noqa: F405
    EMAIL_BACKEND = "django.core.mail.backends.filebased.EmailBackend"
    EMAIL_FILE_PATH = mail_folder

if smtp_port := env.int("PROBE_SMTP", default=0):  # noqa: F405
    EMAIL_BACKEND = "jobqueue.mail.JobQueueEmailBackend"
    EMAIL_HOST, EMAIL_PORT = "127.0.0.1", smtp_port
