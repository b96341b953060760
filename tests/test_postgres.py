"""The embedded PostgreSQL of project/: created, started and stopped for real."""

import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import psycopg
import pytest

from project import postgres_programs
from project.postgres import Server
from project.postgres_programs import PostgresError

CLI = [sys.executable, "-m", "project.postgres"]
WAIT_FOR_SIGNAL = ["sh", "-c", "echo up; exec tail -f /dev/null"]


@pytest.fixture
def home() -> Iterator[Path]:
    # Not tmp_path, which lies in a folder that the server's account cannot enter when the tests run as root.
    home = Path(tempfile.mkdtemp(prefix="jobqueue-test-"))
    try:
        yield home
    finally:
        Server(home).remove()


@pytest.fixture(scope="module")
def shared_home() -> Iterator[Path]:
    """One server for the tests that leave it as good as they found it."""
    home = Path(tempfile.mkdtemp(prefix="jobqueue-test-"))
    try:
        yield home
    finally:
        Server(home).remove()


@pytest.fixture
def server(shared_home: Path) -> Server:
    server = Server(shared_home)
    server.ensure_running()
    return server


@pytest.fixture
def cli_env(shared_home: Path) -> dict[str, str]:
    env = {**os.environ, "PROJECT_POSTGRES_HOME": str(shared_home)}
    env.pop("DATABASE_URL", None)
    return env


def ask(url: str, query: str) -> object:
    with psycopg.connect(url) as connection:
        row = connection.execute(query).fetchone()
    assert row is not None
    return row[0]


def kill(server: Server) -> None:
    """Kill the server as the out-of-memory killer would, and wait for its processes to be gone."""
    postmaster = psutil.Process(server.pid())
    family = [postmaster, *postmaster.children()]
    postmaster.kill()
    psutil.wait_procs(family, timeout=20)


def test_the_server_is_postgresql_18_with_fsync_on(server: Server) -> None:
    url = server.url()

    assert str(ask(url, "SHOW server_version")).startswith("18")
    assert ask(url, "SHOW fsync") == "on"
    assert ask(url, "SELECT current_database()") == "jobqueue"


def test_a_second_call_finds_the_running_server(server: Server) -> None:
    pid = server.pid()

    url = Server(server.home).ensure_running()

    assert (url, server.pid()) == (server.url(), pid)


def test_the_server_admits_nobody_without_the_password(server: Server) -> None:
    password = (server.home / "password").read_text().strip()

    with pytest.raises(psycopg.OperationalError, match="authentication failed"):
        psycopg.connect(server.url().replace(password, "guess"))

    assert (server.home / "password").stat().st_mode & 0o077 == 0
    assert server.data.stat().st_mode & 0o077 == 0


def test_data_and_url_outlive_a_stop(server: Server) -> None:
    url = server.url()
    with psycopg.connect(url) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS kept AS SELECT 42 AS answer")

    assert server.stop() is True
    assert server.pid() is None
    assert server.stop() is False

    assert server.ensure_running() == url
    assert ask(url, "SELECT answer FROM kept") == 42


def test_a_server_that_was_killed_starts_again_over_its_pid_file(server: Server) -> None:
    kill(server)
    assert (server.data / "postmaster.pid").exists()
    assert server.pid() is None

    assert ask(server.ensure_running(), "SELECT 1") == 1


def test_a_pid_file_whose_number_another_process_has_now_is_no_server(server: Server) -> None:
    kill(server)
    pid_file = server.data / "postmaster.pid"
    # Of the same account: PostgreSQL itself would take it for a living server and refuse.
    stranger = subprocess.Popen(["tail", "-f", "/dev/null"], **postgres_programs.account())
    try:
        pid_file.write_text("\n".join([str(stranger.pid), *pid_file.read_text().splitlines()[1:]]) + "\n")

        assert server.pid() is None
        assert ask(server.ensure_running(), "SELECT 1") == 1
    finally:
        stranger.kill()
        stranger.wait()


def test_a_taken_port_is_left_to_its_owner(server: Server) -> None:
    port = int((server.home / "port").read_text())
    server.stop()

    with socket.create_server(("127.0.0.1", port)):
        url = server.ensure_running()

    assert f":{port}/" not in url
    assert ask(url, "SELECT 1") == 1


def test_many_first_callers_start_one_server(home: Path) -> None:
    env = {**os.environ, "PROJECT_POSTGRES_HOME": str(home)}

    with ThreadPoolExecutor(4) as pool:
        printed = list(pool.map(lambda _: subprocess.check_output([*CLI, "url"], env=env, text=True), range(4)))

    assert len(set(printed)) == 1
    assert ask(printed[0].strip(), "SELECT 1") == 1
    running = [each for each in psutil.process_iter(["cmdline"]) if str(home / "data") in (each.info["cmdline"] or [])]
    assert len(running) == 1


def test_an_initdb_that_was_cut_off_is_begun_again(home: Path) -> None:
    (home / "data.new").mkdir()
    (home / "data.new" / "PG_VERSION").write_text("18\n")

    assert ask(Server(home).ensure_running(), "SELECT 1") == 1


def test_a_folder_that_others_can_write_is_refused(home: Path) -> None:
    home.chmod(0o777)

    with pytest.raises(PostgresError, match="only its owner"):
        Server(home).ensure_running()
    home.chmod(0o700)


def test_a_server_that_cannot_start_says_why(home: Path) -> None:
    server = Server(home)
    server.ensure_running()
    server.stop()
    with (server.data / "postgresql.conf").open("a") as configuration:
        configuration.write("no_such_setting = 1\n")

    with pytest.raises(PostgresError, match="no_such_setting"):
        server.ensure_running()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root runs the programs as another account")
def test_programs_that_the_account_cannot_reach_are_copied(home: Path) -> None:
    installed = postgres_programs.installed_folder()
    with tempfile.TemporaryDirectory(prefix="jobqueue-closed-") as closed:  # mode 0700, as /root is
        postgres_programs.copy_programs(installed, Path(closed, "site-packages"))
        unreachable = Path(closed, "site-packages", installed.relative_to(installed.parents[2]))
        assert not postgres_programs.is_reachable(unreachable / "postgres")

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(postgres_programs, "installed_folder", lambda: unreachable)
            url = Server(home).ensure_running()

    assert ask(url, "SHOW data_directory") == str(home / "data")


def test_run_passes_the_url_and_the_status_on_and_leaves_a_running_server(
    server: Server, cli_env: dict[str, str]
) -> None:
    code = "import os, sys; print(os.environ['DATABASE_URL']); sys.exit(7)"

    done = subprocess.run([*CLI, "run", sys.executable, "-c", code], env=cli_env, capture_output=True, text=True)

    assert (done.returncode, done.stdout.strip(), done.stderr) == (7, server.url(), "")
    assert server.pid() is not None


def test_run_stops_the_server_that_it_started(server: Server, cli_env: dict[str, str]) -> None:
    server.stop()

    done = subprocess.run([*CLI, "run", "false"], env=cli_env)

    assert done.returncode == 1
    assert server.pid() is None


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_run_stops_the_server_when_it_is_told_to_end(
    server: Server, cli_env: dict[str, str], number: signal.Signals
) -> None:
    server.stop()
    with subprocess.Popen([*CLI, "run", *WAIT_FOR_SIGNAL], env=cli_env, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"

        process.send_signal(number)

        assert process.wait(timeout=30) == 128 + number
    assert server.pid() is None


def test_run_stops_the_server_after_ctrl_c(server: Server, cli_env: dict[str, str]) -> None:
    server.stop()
    command = [*CLI, "run", *WAIT_FOR_SIGNAL]
    with subprocess.Popen(command, env=cli_env, stdout=subprocess.PIPE, start_new_session=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"

        os.killpg(process.pid, signal.SIGINT)  # a terminal tells the whole group

        assert process.wait(timeout=30) == 130
    assert server.pid() is None


def test_run_uses_the_database_that_is_named(shared_home: Path) -> None:
    env = {**os.environ, "DATABASE_URL": "postgresql://elsewhere/db", "PROJECT_POSTGRES_HOME": "/nowhere"}

    done = subprocess.run([*CLI, "run", "sh", "-c", "echo $DATABASE_URL"], env=env, capture_output=True, text=True)

    assert done.stdout == "postgresql://elsewhere/db\n"


def test_psql_takes_options(server: Server, cli_env: dict[str, str]) -> None:
    done = subprocess.run([*CLI, "psql", "-Atc", "SELECT 6 * 7"], env=cli_env, capture_output=True, text=True)

    assert done.stdout == "42\n"
