"""Run in a process of its own: jobqueue where nothing is installed but what setup.cfg requires.

Prints one JSON object: for each module of the package why it could not be imported, and for each use of something
optional what the user is told.
"""

import importlib
import json
import os
import pkgutil
import runpy
from collections.abc import Callable
from functools import partial

URL = "https://partner.example/hooks"


def setup() -> None:
    """Have Django with the settings of a new project: the three lines, the admin, a database that is not asked."""
    import django
    from django.conf import settings

    apps = ["admin", "auth", "contenttypes", "messages", "postgres", "sessions"]
    settings.configure(
        DATABASES={"default": {"ENGINE": "django.db.backends.postgresql", "NAME": "nobody", "HOST": "127.0.0.1"}},
        INSTALLED_APPS=["jobqueue", *(f"django.contrib.{app}" for app in apps)],
        JOBQUEUE=json.loads(os.environ["BARE_JOBQUEUE"]),
    )
    django.setup()


def said_by(call: Callable[[], object]) -> str:
    """Return the class and the text of what a call raises, "" where it does not."""
    try:
        call()
    except (Exception, SystemExit) as error:
        return f"{type(error).__name__}: {error}"
    return ""


def failing_modules() -> dict[str, str]:
    """Import every module of the package; returns what those say that cannot be imported."""
    import jobqueue

    names = [found.name for found in pkgutil.walk_packages(jobqueue.__path__, "jobqueue.", onerror=lambda name: None)]
    said = {name: said_by(partial(importlib.import_module, name)) for name in names if "__main__" not in name}
    return {name: text for name, text in said.items() if text}


def uses() -> dict[str, str]:
    """Use each thing that is optional; returns what the user is told."""
    from django.core.checks import run_checks
    from django.http import HttpResponse
    from django.test import RequestFactory

    from jobqueue import outbox, tracing, views
    from jobqueue.admin.live import htmx_url
    from jobqueue.ops.metrics import exposition

    request = RequestFactory().get("/metrics", headers={"Authorization": "Bearer " + "t" * 40})
    page = views.metrics(request)
    return {
        "send at once": said_by(lambda: outbox.deliver_webhook(URL, "order.paid", {})),
        "metrics": said_by(exposition),
        "metrics page": page.content.decode() if isinstance(page, HttpResponse) else "",
        "tracing": said_by(tracing._api),
        "htmx": htmx_url(),
        "conformance": said_by(lambda: runpy.run_module("jobqueue.testing.conformance", run_name="__main__")),
        "factories": said_by(lambda: importlib.import_module("jobqueue.testing.factories")),
        "backend": said_by(lambda: importlib.import_module("jobqueue.backends")),
        "checks": " | ".join(f"{message.id} {message.msg} {message.hint}" for message in run_checks(tags=["jobqueue"])),
    }


if __name__ == "__main__":
    setup()
    import jobqueue

    print(json.dumps({"home": jobqueue.__file__, "failing": failing_modules(), "uses": uses()}))
