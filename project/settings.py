"""Settings of the example project, each read from the environment."""

from pathlib import Path
from typing import Any

import django
import environ
from django.core.management.utils import get_random_secret_key

from project.environment import jobqueue_settings

BASE_DIR = Path(__file__).resolve().parent.parent

env = environ.Env()

DEBUG = env.bool("DEBUG", default=False)
# A key in the source would be no secret; with one a process, a restart of the web server ends its sessions.
SECRET_KEY = env.str("SECRET_KEY", default="") or get_random_secret_key()
ALLOWED_HOSTS = env.list("ALLOWED_HOSTS", default=["localhost", "127.0.0.1", "[::1]"])

INSTALLED_APPS = [
    "jobqueue",
    "project",
    "project.documents",
    "django_htmx",
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.postgres",
    "django.contrib.staticfiles",
]
if django.VERSION < (6, 0):  # where the tasks API is the backport's
    INSTALLED_APPS.append("django_tasks")

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.locale.LocaleMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]

ROOT_URLCONF = "project.urls"
WSGI_APPLICATION = "project.wsgi.application"
ASGI_APPLICATION = "project.asgi.application"

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    },
]


def _own_server() -> str:
    from project import postgres  # late: a worker that is given a database needs none of its libraries

    return postgres.ensure_running()


# Without DATABASE_URL a PostgreSQL of this checkout's own is started, on first use, and kept running.
DATABASES = {"default": env.db_url_config(env.str("DATABASE_URL", default="") or _own_server())}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

JOBQUEUE = jobqueue_settings(env.ENVIRON)

# Tasks of django.tasks are jobs of the same queue; no QUEUES: any name.
TASKS: dict[str, dict[str, Any]] = {"default": {"BACKEND": "jobqueue.backends.JobQueueBackend", "QUEUES": []}}

LANGUAGE_CODE = "en-us"
# Those that jobqueue has catalogues for; the browser of whoever looks chooses.
LANGUAGES = [("en", "English"), ("de", "Deutsch"), ("ko", "한국어")]
USE_I18N = True
USE_TZ = True
TIME_ZONE = env.str("TIME_ZONE", default="UTC")

STATIC_URL = "static/"
STATIC_ROOT = BASE_DIR / "staticfiles"
MEDIA_ROOT = env.path("MEDIA_ROOT", default=str(BASE_DIR / "media"))()

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "filters": {"job": {"()": "jobqueue.logs.JobFilter"}},
    "formatters": {
        "text": {"format": "%(asctime)s %(levelname)s %(name)s job_id=%(job_id)s %(message)s"},
        "json": {"()": "jobqueue.logs.JSONFormatter"},
    },
    "handlers": {
        "console": {
            "class": "logging.StreamHandler",
            "filters": ["job"],
            "formatter": env.str("LOG_FORMAT", default="text"),
        },
    },
    "root": {"handlers": ["console"], "level": env.str("LOG_LEVEL", default="INFO")},
}

LOGIN_URL = "admin:login"

# Where the samples and the logs of the demo lie.
DEMO_HOME = Path(env.str("DEMO_HOME", default=str(BASE_DIR / ".demo")))
# What people may have indexed through the form: these files and folders, and all below them.
DOCUMENT_ROOTS = env.list(
    "DOCUMENT_ROOTS",
    default=[f"{BASE_DIR}/README.md", f"{BASE_DIR}/docs", f"{DEMO_HOME}/samples", "/usr/share/doc"],
)
PARTNER_URL = env.str("PARTNER_URL", default="http://127.0.0.1:8099/notifications")
