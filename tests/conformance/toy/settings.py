"""A project of one table, for the kit's own tests."""

import os

import django

SECRET_KEY = "no secret"
INSTALLED_APPS = ["tests.conformance.toy"]
if django.VERSION < (6, 0):
    INSTALLED_APPS.append("django_tasks")
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": os.environ.get("TOY_DATABASE", ":memory:"),
        "OPTIONS": {"timeout": 20},
    }
}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_TZ = True
