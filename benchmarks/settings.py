"""The example project's settings on a database of the benchmarks' own, with the handlers that are measured."""

import os

from benchmarks.database import NAME_VARIABLE, TWIN_SUFFIX
from project.settings import *  # noqa: F403
from project.settings import DATABASES, INSTALLED_APPS

INSTALLED_APPS = [*INSTALLED_APPS, "benchmarks"]

# No fallback: without the variable this would fill, and drop, whatever database DATABASE_URL names.
DATABASES["default"]["NAME"] = os.environ[NAME_VARIABLE]
DATABASES["twin"] = {**DATABASES["default"], "NAME": os.environ[NAME_VARIABLE] + TWIN_SUFFIX}
