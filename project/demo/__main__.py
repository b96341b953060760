"""Run the demo: `make demo`, or `python -m project.demo`.

Environment: DEMO_SECONDS (stop by itself then, or earlier when all is settled), DEMO_PORT (8000, the next free one if
taken), DEMO_PASSWORD (of the user admin; random), DEMO_FOLDER (documents to index instead of the repository's own),
DEMO_HOME (samples and logs), DATABASE_URL (the demo's database is made beside the one it names).
"""

import os

import django

from project import postgres
from project.demo.database import make_database

# What `manage.py demo_provoke budget_80` spends.
BUDGETS = '{"demo": {"job_type": "demo.spend", "amount": "2", "unit": "USD", "per": "hour", "at_limit": "alert"}}'


def main() -> int:
    """Set the environment up, then the settings that are read from it, then run."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
    os.environ.setdefault("JOBQUEUE_BUDGETS", BUDGETS)
    os.environ["DATABASE_URL"] = make_database(os.environ.get("DATABASE_URL") or postgres.ensure_running())
    django.setup()
    from project.demo.run import run  # models can be imported only now

    return run(os.environ.get("DEMO_SECONDS", ""))


if __name__ == "__main__":
    raise SystemExit(main())
