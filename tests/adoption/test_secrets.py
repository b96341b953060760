"""No secret stands in the log of a worker at DEBUG, nor does a random number that anybody could guess guard one."""

import re
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from django.core.exceptions import ImproperlyConfigured
from django.db import connection
from psycopg import sql
from pytest_django import Settings

from jobqueue import outbox
from jobqueue.models import Job
from jobqueue.states import Status
from project.environment import jobqueue_settings
from tests.adoption.building import ROOT
from tests.connections import database_conninfo
from tests.outbox.receiver import Receiver, receiver
from tests.worker.conftest import effects, launch, wait_for
from tests.worker.launching import RunningWorker

__all__ = ["effects", "launch", "wait_for"]

SIGNING = f"whsec_{'s' * 43}="
TOKEN = "token-of-the-monitor-0123456789abcdef"
PASSWORD = "password-of-the-role-4711"
PAYLOAD = "hunter2-in-the-payload"
ERROR = "hunter3-in-the-error"
CHAT = "T0001/B0002/path-of-the-hook"
PATH = "path-that-only-the-receiver-knows"
SECRETS = (SIGNING, TOKEN, PASSWORD, PAYLOAD, ERROR, CHAT, PATH)


@pytest.fixture
def login(transactional_db: None) -> Iterator[str]:
    """Return the URL of the test database for a role of its own, whose password is known."""
    database, name = connection.settings_dict, f"talkative_{uuid.uuid4().hex[:12]}"
    role = sql.Identifier(name)
    with psycopg.connect(database_conninfo(), autocommit=True) as owner:
        owner.execute(sql.SQL("DROP ROLE IF EXISTS {}").format(role))
        owner.execute(sql.SQL("CREATE ROLE {} LOGIN SUPERUSER PASSWORD {}").format(role, sql.Literal(PASSWORD)))
        try:
            yield f"postgresql://{name}:{PASSWORD}@{database['HOST']}:{database['PORT']}/{database['NAME']}"
        finally:
            owner.execute(sql.SQL("DROP OWNED BY {}").format(role))
            owner.execute(sql.SQL("DROP ROLE {}").format(role))


@pytest.fixture
def target() -> Iterator[Receiver]:
    """Return a receiver of webhooks."""
    with receiver() as server:
        yield server


@pytest.mark.django_db(transaction=True)
def test_a_worker_at_debug_writes_no_secret(
    launch: Callable[..., RunningWorker], login: str, target: Receiver, settings: Settings, wait_for: Callable[..., Any]
) -> None:
    options: dict[str, Any] = {"WEBHOOK_ALLOW": "127.0.0.0/8", "WEBHOOK_SECRETS": {"partner": SIGNING}}
    settings.JOBQUEUE = options | {"WEBHOOK_ALLOW": ["127.0.0.0/8"]}
    worker = launch(
        "--metrics-port",
        "0",
        env={"DATABASE_URL": login, "DJANGO_SETTINGS_MODULE": "tests.adoption.talkative"},
        OPS_TOKEN=TOKEN,
        ALERT_WEBHOOKS=f"https://hooks.slack.com/services/{CHAT}",
        **options,
    )
    worker.may_show_tracebacks = True

    done = Job.objects.enqueue("probe.ok", {"password": PAYLOAD})
    dead = Job.objects.enqueue("probe.boom", {"text": f"login failed: password={ERROR}"}, max_attempts=1)
    sent = outbox.send_webhook(target.url(f"/{PATH}"), "order.paid", {"api_key": PAYLOAD}, secret="partner")

    wait_for(done, Status.DONE)
    wait_for(dead, Status.DEAD)
    wait_for(sent, Status.DONE)
    worker.stop()
    worker.ends()
    assert " DEBUG psycopg " in worker.log
    assert " DEBUG httpcore." in worker.log
    assert f"job ended job_id={dead.pk} type=probe.boom" in worker.log
    assert [secret for secret in SECRETS if secret in worker.log] == []


def test_a_secret_setting_that_cannot_be_read_is_not_repeated() -> None:
    with pytest.raises(ImproperlyConfigured) as raised:
        jobqueue_settings({"JOBQUEUE_WEBHOOK_SECRETS": f"partner={SIGNING}"})

    assert str(raised.value).startswith("JOBQUEUE_WEBHOOK_SECRETS=… cannot be read as ")


def test_random_is_used_where_nothing_is_to_be_kept_secret() -> None:
    """B311 of bandit is off, since jitter may be guessed; whatever is named a secret may not."""
    secret = re.compile(r"secret|token|password|nonce|salt|signature", re.IGNORECASE)
    lines = [
        f"{path.relative_to(ROOT)}: {line.strip()}"
        for folder in ("jobqueue", "project")
        for path in sorted((ROOT / folder).rglob("*.py"))
        for line in path.read_text().splitlines()
        if re.search(r"\brandom\.\w+\(", line) and secret.search(line)
    ]

    assert lines == []
