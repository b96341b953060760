"""The outbox: webhooks at real HTTP and HTTPS servers, mails at a real SMTP server."""
