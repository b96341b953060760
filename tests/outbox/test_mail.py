"""JobQueueEmailBackend: mails are jobs of the caller's transaction, and arrive at a real SMTP server as they were."""

import email
import email.policy
import socket
from collections.abc import Callable, Iterator
from email.message import EmailMessage as Parsed
from pathlib import Path
from typing import Any

import pytest
from django.core import mail
from django.core.mail import EmailMessage, EmailMultiAlternatives, mail_managers, send_mail, send_mass_mail
from django.db import connection, transaction
from pytest_django import Settings

from jobqueue import outbox
from jobqueue.conf import get_settings
from jobqueue.exceptions import ConfigurationError, PayloadError
from jobqueue.models import Job
from jobqueue.states import Status
from jobqueue.testing import run_once
from tests.outbox.smtp import Mail, SmtpServer, smtp_server

pytestmark = pytest.mark.django_db

Configure = Callable[..., None]

QUEUEING = "jobqueue.mail.JobQueueEmailBackend"
SENDING = {name: f"django.core.mail.backends.{name}.EmailBackend" for name in ("smtp", "locmem", "filebased")}
HAS_MAILERS = hasattr(mail, "mailers")  # from Django 6.1 on: backends have names, and EMAIL_BACKEND is deprecated


@pytest.fixture
def server(settings: Settings, tmp_path: Path) -> Iterator[SmtpServer]:
    """Return the mail server behind the backend that enqueues."""
    with smtp_server() as server:
        if HAS_MAILERS:
            options = {"smtp": {"host": "127.0.0.1", "port": server.port}, "filebased": {"file_path": str(tmp_path)}}
            senders = {name: {"BACKEND": path, "OPTIONS": options.get(name, {})} for name, path in SENDING.items()}
            settings.MAILERS = {"default": {"BACKEND": QUEUEING}, **senders}
            settings.JOBQUEUE = {"MAIL_BACKEND": "smtp"}
        else:
            settings.EMAIL_BACKEND, settings.EMAIL_FILE_PATH = QUEUEING, tmp_path
            settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", server.port
        yield server


@pytest.fixture
def configure(settings: Settings, server: SmtpServer) -> Callable[..., None]:
    """Return the function that sets JOBQUEUE; `backend` is the backend that sends."""

    def change(backend: str = "smtp", **values: Any) -> None:
        settings.JOBQUEUE = {**values, "MAIL_BACKEND": backend if HAS_MAILERS else SENDING[backend]}

    return change


def message(**options: Any) -> EmailMultiAlternatives:
    given = {"subject": "Your order", "body": "Paid.", "from_email": "shop@example.com", "to": ["zoe@example.com"]}
    return EmailMultiAlternatives(**{**given, **options})


def parsed(mail: Mail) -> Parsed:
    found = email.message_from_bytes(mail.data, policy=email.policy.default)
    assert isinstance(found, Parsed)
    return found


def run() -> Job:
    """Run the one job there is."""
    run_once()
    return Job.objects.get(job_type="jobqueue.mail")


@pytest.mark.smoke
def test_a_mail_is_a_job_and_is_sent_by_its_worker(server: SmtpServer) -> None:
    assert send_mail("Your order", "Paid, thank you.", "Shop <shop@example.com>", ["zoe@example.com"]) == 1

    job = Job.objects.get()
    assert (job.job_type, job.queue, job.status, server.mails) == ("jobqueue.mail", "jobqueue", Status.PENDING, [])
    assert (job.payload["subject"], job.payload["recipients"]) == ("Your order", ["zoe@example.com"])
    assert run().status == Status.DONE
    (sent,) = server.mails
    assert (sent.sender, sent.recipients) == ("shop@example.com", ["zoe@example.com"])
    assert parsed(sent)["Subject"] == "Your order"
    assert parsed(sent).get_content() == "Paid, thank you.\r\n"
    assert Job.objects.get().result == {"recipients": 1, "message_id": parsed(sent)["Message-ID"]}


def test_it_is_gone_with_a_rollback(server: SmtpServer) -> None:
    with transaction.atomic():
        send_mail("Your order", "Paid.", None, ["zoe@example.com"])
        transaction.set_rollback(True)

    assert not Job.objects.exists()


def test_attachments_alternatives_and_foreign_letters_arrive_as_they_were(server: SmtpServer) -> None:
    sent = message(subject="Grüße, Zoë", body="Zoë,\n.\n.. paid\n", headers={"X-Shop": "7"})
    sent.attach_alternative("<p>Zoë</p>", "text/html")
    sent.attach("bill é.pdf", bytes(range(256)), "application/pdf")
    sent.attach("note.txt", "Größe", "text/plain")
    sent.send()
    expected = sent.message().as_bytes()

    assert run().status == Status.DONE

    found = parsed(server.mails[0])
    assert str(found["Subject"]) == "Grüße, Zoë"
    assert found["X-Shop"] == "7"
    plain, html = found.get_body(("plain",)), found.get_body(("html",))
    assert plain is not None
    assert html is not None
    assert plain.get_content().replace("\r\n", "\n") == "Zoë,\n.\n.. paid\n"
    assert html.get_content().strip() == "<p>Zoë</p>"
    attachments = list(found.iter_attachments())
    assert [part.get_filename() for part in attachments] == ["bill é.pdf", "note.txt"]
    assert attachments[0].get_payload(decode=True) == bytes(range(256))
    # What goes over the wire has the line ends of SMTP, and no others.
    assert b"\n" not in server.mails[0].data.replace(b"\r\n", b"")
    assert len(server.mails[0].data.splitlines()) == len(expected.splitlines())


def test_bcc_is_in_the_envelope_and_in_no_header(server: SmtpServer) -> None:
    message(to=["a@example.com"], cc=["Bé <b@example.com>"], bcc=["c@example.com"]).send()

    run()

    (sent,) = server.mails
    assert sent.recipients == ["a@example.com", "b@example.com", "c@example.com"]
    assert b"c@example.com" not in sent.data
    assert parsed(sent)["Cc"].addresses[0].display_name == "Bé"


def test_every_attempt_sends_the_same_message(server: SmtpServer) -> None:
    server.refuse["BODY"] = "451 later"
    message().send()
    assert run().status == Status.SCHEDULED
    assert server.mails == []
    job = Job.objects.get()
    server.refuse.clear()

    for _ in range(2):
        Job.objects.filter(pk=job.pk).update(run_after=job.created_at, status=Status.SCHEDULED)
        run()

    assert len({parsed(sent)["Message-ID"] for sent in server.mails}) == 1
    assert len({sent.data for sent in server.mails}) == 1
    assert len(server.mails) == 2


@pytest.mark.parametrize(
    ("refuse", "status"),
    [
        ({"RCPT": "550 no such user"}, Status.DEAD),
        ({"RCPT": "450 greylisted"}, Status.SCHEDULED),
        ({"BODY": "554 spam"}, Status.DEAD),
        ({"BODY": "452 full"}, Status.SCHEDULED),
        ({"MAIL": "553 not yours"}, Status.DEAD),
        ({"EHLO": "554 go away", "HELO": "554 go away"}, Status.SCHEDULED),
    ],
    ids=["no such user", "greylisted", "spam", "full", "not yours", "go away"],
)
def test_what_the_server_refuses_for_good_is_a_dead_letter_and_all_else_is_tried_again(
    server: SmtpServer, refuse: dict[str, str], status: Status
) -> None:
    server.refuse.update(refuse)
    message().send()

    job = run()

    assert (job.status, job.attempts) == (status, 1)
    assert next(iter(refuse.values()))[4:] in job.last_error


def test_a_mail_server_that_is_down_is_tried_again(server: SmtpServer) -> None:
    message().send()
    server.shutdown()
    server.server_close()

    job = run()

    assert job.status == Status.SCHEDULED
    assert "refused" in job.last_error


def test_messages_of_one_call_are_enqueued_all_or_none(server: SmtpServer, configure: Configure) -> None:
    configure(PAYLOAD_MAX_BYTES=4096)
    too_large = ("s", "x" * 5000, "shop@example.com", ["zoe@example.com"])

    assert send_mass_mail([("s", "b", "shop@example.com", ["zoe@example.com"])] * 3) == 3
    with pytest.raises(PayloadError, match="bytes of JSON are over the limit of 4096"):
        send_mass_mail([("s", "b", "shop@example.com", ["zoe@example.com"]), too_large])

    assert Job.objects.count() == 3


@pytest.mark.filterwarnings("ignore:.*(fail_silently|get_connection)")  # deprecated in 6.1
def test_fail_silently_leaves_out_what_cannot_be_enqueued_and_keeps_the_transaction(
    server: SmtpServer, configure: Configure, caplog: pytest.LogCaptureFixture
) -> None:
    configure(PAYLOAD_MAX_BYTES=4096)
    too_large = ("s", "x" * 5000, "shop@example.com", ["zoe@example.com"])

    sent = send_mass_mail([too_large, ("s", "b", "shop@example.com", ["zoe@example.com"])], fail_silently=True)

    assert (sent, Job.objects.count()) == (1, 1)
    assert "mail not enqueued recipients=1" in caplog.text
    assert "zoe@example.com" not in caplog.text


@pytest.mark.filterwarnings("ignore:.*(fail_silently|get_connection)")  # deprecated in 6.1
def test_fail_silently_keeps_the_callers_transaction_where_the_database_refuses(server: SmtpServer) -> None:
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE jobqueue_job ADD CONSTRAINT no_mail CHECK (job_type <> 'jobqueue.mail')")

    assert send_mail("s", "b", "shop@example.com", ["zoe@example.com"], fail_silently=True) == 0

    assert not Job.objects.exists()  # and so the transaction still takes statements


def test_a_message_without_recipients_is_none(server: SmtpServer) -> None:
    assert not EmailMessage("s", "b", "shop@example.com", []).send()
    assert not Job.objects.exists()


def test_a_header_that_cannot_be_is_refused_at_the_call(server: SmtpServer) -> None:
    with pytest.raises(ValueError, match=r"newlines|linefeed|carriage"):
        message(subject="a\nBcc: evil@example.com").send()

    assert not Job.objects.exists()


def test_the_queue_of_mails_can_be_chosen(server: SmtpServer, configure: Configure) -> None:
    configure(MAIL_QUEUE="mail")

    message().send()

    assert Job.objects.get().queue == "mail"


def test_the_backend_that_sends_can_be_chosen(server: SmtpServer, configure: Configure, tmp_path: Path) -> None:
    configure("filebased")
    message(subject="Zoë").send()

    assert run().status == Status.DONE

    (file,) = tmp_path.iterdir()
    assert email.message_from_bytes(file.read_bytes(), policy=email.policy.default)["Subject"] == "Zoë"
    assert server.mails == []


def test_a_backend_that_hands_over_to_a_service_finds_the_usual_fields(
    server: SmtpServer, configure: Configure
) -> None:
    configure("locmem")
    sent = message(to=["Zoë <zoe@example.com>"], bcc=["c@example.com"], reply_to=["help@example.com"])
    sent.attach_alternative("<p>Paid.</p>", "text/html")
    sent.attach("bill.pdf", b"%PDF", "application/pdf")
    sent.send()

    run()

    (found,) = mail.outbox
    assert isinstance(found, EmailMultiAlternatives)
    assert (found.subject, str(found.body).strip(), found.from_email) == ("Your order", "Paid.", "shop@example.com")
    assert (found.to, found.bcc, found.reply_to) == (["Zoë <zoe@example.com>"], ["c@example.com"], ["help@example.com"])
    assert found.recipients() == ["Zoë <zoe@example.com>", "c@example.com"]
    assert [(str(part[0]).strip(), part[1]) for part in found.alternatives] == [("<p>Paid.</p>", "text/html")]
    assert found.attachments == [("bill.pdf", b"%PDF", "application/pdf")]


def test_a_mail_of_html_alone_keeps_its_kind(server: SmtpServer, configure: Configure) -> None:
    configure("locmem")
    sent = message(body="<p>Paid.</p>")
    sent.content_subtype = "html"
    sent.send()

    run()

    assert (str(mail.outbox[0].body).strip(), mail.outbox[0].content_subtype) == ("<p>Paid.</p>", "html")


def test_without_the_setting_other_backends_send_by_themselves(settings: Settings) -> None:
    """outbox.send_mail() enqueues whatever EMAIL_BACKEND is, and that one sends in the end."""
    if HAS_MAILERS:
        settings.MAILERS = {"default": {"BACKEND": SENDING["locmem"]}}
    job = outbox.send_mail(message())
    assert job is not None
    assert mail.outbox == []

    run()

    assert [sent.subject for sent in mail.outbox] == ["Your order"]


def test_send_mail_takes_options_of_its_own(configure: Configure) -> None:
    configure(MAIL_QUEUE="mail")

    job = outbox.send_mail(message(), queue="jobqueue", priority=0, using="default")

    assert job is not None
    assert (job.queue, job.priority) == ("jobqueue", 0)
    assert outbox.send_mail(message(to=[])) is None


def test_deliver_mail_sends_at_once_whatever_the_backend_is(server: SmtpServer) -> None:
    outbox.deliver_mail([message()])

    assert (len(server.mails), Job.objects.count()) == (1, 0)


@pytest.mark.skipif(HAS_MAILERS, reason="MAILERS have a timeout of their own")
def test_a_mail_server_that_says_nothing_is_not_waited_for_for_ever(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jobqueue.outbox.mails.SMTP_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        settings.EMAIL_BACKEND, settings.EMAIL_TIMEOUT = QUEUEING, None
        settings.EMAIL_HOST, settings.EMAIL_PORT = silent.getsockname()

        with pytest.raises(OSError, match="timed out"):
            outbox.deliver_mail([message()])


def test_a_mail_that_cannot_be_sent_does_not_tell_of_itself_by_mail(
    server: SmtpServer, configure: Configure, settings: Settings
) -> None:
    configure(NOTIFIERS=["jobqueue.notifiers.EmailNotifier"])
    settings.MANAGERS = ["ops@example.com"] if HAS_MAILERS else [("Ops", "ops@example.com")]
    server.refuse["RCPT"] = "550 no such user"
    mail_managers("on fire", "now")

    for _ in range(5):
        run_once(10)

    dead = Job.objects.filter(job_type="jobqueue.mail")
    assert [job.status for job in dead] == [Status.DEAD]
    assert [job.status for job in Job.objects.filter(job_type="jobqueue.notify")] == [Status.DONE]


def test_the_backend_that_enqueues_cannot_be_the_one_that_sends(settings: Settings) -> None:
    settings.JOBQUEUE = {"MAIL_BACKEND": "jobqueue.mail.JobQueueEmailBackend"}

    with pytest.raises(ConfigurationError, match="cannot be the backend that enqueues"):
        get_settings()


@pytest.mark.skipif(not HAS_MAILERS, reason="Django before 6.1 has no MAILERS")
def test_with_mailers_the_one_that_sends_must_be_another(server: SmtpServer, settings: Settings) -> None:
    settings.JOBQUEUE = {}
    message().send()

    job = run()

    assert job.status == Status.SCHEDULED
    assert "must name another of MAILERS" in job.last_error
    assert Job.objects.count() == 1
