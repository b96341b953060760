"""The server of the peers on Redis: one's own, in memory, gone at the end."""

import contextlib
import shutil
import socket
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

from benchmarks.peers import redis
from benchmarks.peers.errors import PeerFailed

needs_redis = pytest.mark.skipif(shutil.which(redis.PROGRAM) is None, reason=redis.MISSING)


def ask(url: str, command: str) -> str:
    parts = urlsplit(url)
    with socket.create_connection((parts.hostname, parts.port), timeout=5) as connection:
        connection.sendall(f"{command}\r\n".encode())
        return connection.recv(4096).decode()


@contextlib.contextmanager
def taken_port() -> Iterator[int]:
    with socket.socket() as holder:
        holder.bind((redis.HOST, 0))
        holder.listen()
        yield holder.getsockname()[1]


@needs_redis
def test_the_server_answers_and_is_gone_at_the_end() -> None:
    with redis.server() as url:
        assert ask(url, "PING") == "+PONG\r\n"

    with pytest.raises(ConnectionRefusedError):
        ask(url, "PING")


@needs_redis
def test_it_writes_nothing_to_disk() -> None:
    with redis.server() as url:
        assert ask(url, "CONFIG GET save").split() == ["*2", "$4", "save", "$0"]
        assert ask(url, "CONFIG GET appendonly").split()[-1] == "no"


@needs_redis
def test_two_at_once_know_nothing_of_each_other() -> None:
    with redis.server() as first, redis.server() as second:
        ask(first, "SET key value")

        assert first != second
        assert ask(second, "GET key") == "$-1\r\n"


@needs_redis
def test_a_port_taken_in_the_meantime_is_given_up_for_another(monkeypatch: pytest.MonkeyPatch) -> None:
    with taken_port() as taken:
        ports = iter([taken, redis._free_port()])
        monkeypatch.setattr(redis, "_free_port", lambda: next(ports))

        with redis.server() as url:
            assert urlsplit(url).port != taken
            assert ask(url, "PING") == "+PONG\r\n"


def test_where_it_is_missing_the_reason_tells_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")

    with pytest.raises(PeerFailed, match="apt-get install redis-server"), redis.server():
        pass


@needs_redis
def test_a_server_that_does_not_start_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    with taken_port() as taken:
        monkeypatch.setattr(redis, "_free_port", lambda: taken)

        with pytest.raises(PeerFailed, match=r"(?s)did not start: .*in use"), redis.server():
            pass
