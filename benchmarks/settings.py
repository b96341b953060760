"""The example project's settings without its apps, on a database of the benchmarks' own, with the handlers measured."""

import os
import re

from benchmarks.database import NAME_VARIABLE, TWIN_SUFFIX
from jobqueue import sql
from project.settings import *  # noqa: F403
from project.settings import DATABASES

# Neither the admin nor the documents: what a project imports at start-up is its own.
INSTALLED_APPS = ["jobqueue", "benchmarks", "django.contrib.auth", "django.contrib.contenttypes"]

# No fallback: without the variable this would fill, and drop, whatever database DATABASE_URL names.
DATABASES["default"]["NAME"] = os.environ[NAME_VARIABLE]
DATABASES["twin"] = {**DATABASES["default"], "NAME": os.environ[NAME_VARIABLE] + TWIN_SUFFIX}

# For the row "statistics": workers whose settles count nothing, to see what the counting costs.
if "BENCHMARKS_UNCOUNTED" in os.environ:
    for name in ("SETTLE_DONE", "SETTLE_ENDED", "COMPLETE_JOB"):
        text, cut = re.subn(r"counted AS \(.*?\),\n(?=charged AS)", "", getattr(sql, name), flags=re.DOTALL)
        assert cut == 1, name
        setattr(sql, name, text)
