"""An app that was moved from Celery: only the import line of its tasks has changed."""
