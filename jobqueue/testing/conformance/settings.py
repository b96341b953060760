"""Settings of a run: those of the tested project, with TASKS replaced, the kit's app added, and a database of its own.

The processes of workers read the same module, so that they work on the same database.
"""

import json
import os
from importlib import import_module

_run = json.loads(os.environ["JOBQUEUE_CONFORMANCE"])
globals().update({name: value for name, value in vars(import_module(_run["settings"])).items() if name.isupper()})

INSTALLED_APPS = [*globals().get("INSTALLED_APPS", []), *_run["apps"]]
INSTALLED_APPS = [*dict.fromkeys([*INSTALLED_APPS, "jobqueue.testing.conformance"])]
TASKS = _run["tasks"]
DATABASES = globals().get("DATABASES", {})
# In a worker: the databases that the run has created. In the run itself: the names that they will have.
_names = json.loads(os.environ.get("JOBQUEUE_CONFORMANCE_DATABASES", "{}"))
for _alias, _database in DATABASES.items():
    if _alias in _names:
        _database["NAME"] = _names[_alias]
    elif _database.get("ENGINE", "").endswith("sqlite3") and _run["has_worker"]:
        _database["TEST"] = {"NAME": f"{_run['folder']}/{_alias}.sqlite3"}
    elif not _database.get("ENGINE", "").endswith("sqlite3"):
        _database["TEST"] = {**_database.get("TEST", {}), "NAME": f"conformance_{_run['pid']}_{_alias}"}
