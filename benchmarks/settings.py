"""The example project's settings without its apps, on a database of the benchmarks' own, with the handlers measured."""

import os

from benchmarks.database import NAME_VARIABLE, TWIN_SUFFIX
from project.settings import *  # noqa: F403
from project.settings import DATABASES

# Neither the admin nor the documents: what a project imports at start-up is its own.
INSTALLED_APPS = ["jobqueue", "benchmarks", "django.contrib.auth", "django.contrib.contenttypes"]

# No fallback: without the variable this would fill, and drop, whatever database DATABASE_URL names.
DATABASES["default"]["NAME"] = os.environ[NAME_VARIABLE]
DATABASES["twin"] = {**DATABASES["default"], "NAME": os.environ[NAME_VARIABLE] + TWIN_SUFFIX}
