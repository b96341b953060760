"""The fixtures themselves: several test runs on one server, databases that killed runs left."""

import subprocess
import sys

import psycopg
from django.db import connection

from tests.connections import database_conninfo

RUN_ANOTHER = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/test_settings.py", "-k"]


def test_another_test_run_on_this_server_takes_another_database(transactional_db: None) -> None:
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE mine ()")

    other = subprocess.run([*RUN_ANOTHER, "no_database_of_the_project"], capture_output=True, text=True, check=False)

    assert other.returncode == 0, other.stdout
    with psycopg.connect(database_conninfo()) as mine:
        mine.execute("TABLE mine")
        mine.execute("DROP TABLE mine")
