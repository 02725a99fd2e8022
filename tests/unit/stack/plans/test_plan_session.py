"""A session whose server stops in the midst of an answer."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from upshift.errors import ServerFailed
from upshift.stack.plans import session as sessions
from upshift.stack.plans.session import PostgresSession


class Silent:
    """A connection to a server that answers what a session asks at its beginning, sends one row, and no more."""

    closed = False

    def __init__(self) -> None:
        self.ours, self.theirs = socket.socketpair()
        self.broken = False

    def fileno(self) -> int:
        return self.ours.fileno()

    def execute(self, sql: bytes, *, prepare: bool) -> Any:
        assert prepare
        if sql.startswith(b"SELECT"):
            self.read()
        self.description, self.fetchall = (True,), lambda: [("17.2",)]
        return self

    def cursor(self) -> Silent:
        return self

    def __enter__(self) -> Silent:
        return self

    def __exit__(self, *_: object) -> None: ...

    def stream(self, sql: bytes) -> Iterator[tuple[int]]:
        yield (1,)
        self.read()

    def read(self) -> None:
        self.ours.settimeout(20)  # The test fails in place of hanging.
        assert self.ours.recv(1) == b""
        self.broken = True
        raise psycopg.OperationalError("server closed the connection unexpectedly")

    def close(self) -> None:
        self.ours.close()


@pytest.fixture
def silent(monkeypatch: pytest.MonkeyPatch) -> Iterator[PostgresSession]:
    monkeypatch.setattr(sessions, "_HANGS_S", 0.1)
    connection: Any = Silent()
    session = PostgresSession(connection, "127.0.0.1:5432", 0.1)
    yield session
    session.close()
    connection.theirs.close()


def test_a_postgres_that_does_not_answer_is_given_up(silent: PostgresSession) -> None:
    with pytest.raises(ServerFailed, match=r"127\.0\.0\.1:5432 is gone: it does not answer any more"):
        silent.ask("SELECT 1")


def test_a_postgres_that_stops_between_rows_is_given_up(silent: PostgresSession) -> None:
    rows = silent.stream("SELECT 1")
    assert next(rows) == (1,)
    with pytest.raises(ServerFailed, match="does not answer any more"):
        next(rows)


def test_a_reader_that_takes_its_time_is_not_given_up(silent: PostgresSession) -> None:
    rows = silent.stream("SELECT 1")
    assert next(rows) == (1,)
    time.sleep(0.6)  # Three times the limit.
    assert not silent._patience.ran_out


class Refusing(Silent):
    """A connection to a server that refuses what a session asks at its beginning."""

    def execute(self, sql: bytes, *, prepare: bool) -> Any:
        raise psycopg.errors.InsufficientPrivilege("permission denied")


def test_a_session_that_cannot_begin_leaves_no_thread() -> None:
    before = set(threading.enumerate())
    connection: Any = Refusing()
    with pytest.raises(sessions.Refused):
        PostgresSession(connection, "127.0.0.1:5432", 0.1)
    left = set(threading.enumerate()) - before
    for each in left:
        each.join(5)
    assert not any(each.is_alive() for each in left)
