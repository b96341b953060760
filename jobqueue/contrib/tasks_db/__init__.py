"""From django-tasks-db: a command that moves its waiting tasks, and a backend that knows its results."""
