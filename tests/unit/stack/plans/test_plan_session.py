"""A session whose server stops in the midst of an answer."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import psycopg
import pymysql
import pytest

from upshift.errors import ServerFailed
from upshift.stack.plans import session as sessions
from upshift.stack.plans.address import read_address
from upshift.stack.plans.ask import Asker
from upshift.stack.plans.looking import explained
from upshift.stack.plans.session import MysqlSession, PostgresSession
from upshift.stack.plans.source import Source, Wanted


class Silent:
    """A connection to a server that answers what a session asks at its beginning, sends one row, and no more."""

    closed = False
    # What psycopg quotes literals by.
    adapters = psycopg.adapters
    connection = None

    def __init__(self, encoding: str = "UTF8") -> None:
        self.ours, self.theirs = socket.socketpair()
        self.broken = False
        self.sent: list[str] = []
        self._encoding = encoding

    @property
    def info(self) -> Silent:
        return self

    def parameter_status(self, name: str) -> str:
        assert name == "server_encoding"
        return self._encoding

    def fileno(self) -> int:
        return self.ours.fileno()

    def execute(self, sql: bytes, *, prepare: bool) -> Any:
        assert prepare
        self.sent.append(sql.decode())
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


@pytest.mark.parametrize(("encoding", "converts"), [("UTF8", True), ("LATIN1", True), ("SQL_ASCII", False)])
def test_statements_are_sent_in_the_encoding_that_the_session_has(encoding: str, converts: bool) -> None:
    connection: Any = Silent(encoding)
    with contextlib.closing(PostgresSession(connection, "127.0.0.1:5432", 1)) as session:
        assert ("SET client_encoding = 'UTF8'" in connection.sent) is converts
        assert session.literal("Müller") == "'Müller'"
    connection.theirs.close()


@pytest.mark.parametrize("value", ["a\0b", "a\ud800b"])
def test_a_value_that_postgres_cannot_have_is_why_there_is_no_plan(silent: PostgresSession, value: str) -> None:
    sql = "SELECT id FROM orders WHERE note = $1"
    wanted = Wanted(statement="0" * 16, text=sql, sql=sql, parameters=json.dumps([value]))
    told = explained(wanted, Asker(silent), Source(family="postgres", statements=(wanted,)), execute=False)
    assert told.plan is None and told.hint
    assert told.why_none and told.why_none.startswith("PostgreSQL has no such value: ")


class Mysql:
    """A connection to a MySQL that takes each statement."""

    def __init__(self) -> None:
        self.sent: list[str] = []

    def cursor(self) -> Mysql:
        return self

    def __enter__(self) -> Mysql:
        return self

    def __exit__(self, *_: object) -> None: ...

    def execute(self, sql: str) -> None:
        self.sent.append(sql)

    def fetchall(self) -> list[tuple[str]]:
        return [("9.7.4",)]

    def close(self) -> None: ...


class RefusingMysql(Mysql):
    """One that refuses all."""

    def execute(self, sql: str) -> None:
        raise pymysql.err.OperationalError(1820, "You must reset your password")


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("mysql://me@db/shop", r"db:3306, shop refuses to begin a session of me: You must reset your password \(1820\)"),
        ("postgres://me@db/shop", "db:5432, shop refuses to begin a session of me: permission denied"),
    ],
)
def test_a_server_that_refuses_what_a_session_begins_with_is_named(
    url: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pymysql, "connect", lambda **_: RefusingMysql())
    monkeypatch.setattr(psycopg, "connect", lambda *_, **__: Refusing())
    with pytest.raises(ServerFailed, match=said) as failed, sessions.opened(read_address(url, environment={}), 1):
        pass
    assert "pooler" in failed.value.hint


@pytest.mark.parametrize(
    ("url", "error", "said"),
    [
        ("mysql://me@db", pymysql.err.OperationalError(1040, "Too many"), "db:3306 takes no connection of me: Too many"),
        ("mysql://me@db", pymysql.err.OperationalError(3159, "Insecure"), "db:3306 takes no connection of me: Insecure"),
        ("mysql://me@db", pymysql.err.OperationalError(2003, "Can't connect"), "no server answers at db:3306: Can't"),
        ("mysql://me@db", AssertionError("another protocol"), "no server answers at db:3306: another protocol"),
        ("postgres://me@db", psycopg.OperationalError("FATAL:  sorry, too many"), "db:5432 takes no connection of me: FATAL"),
        ("postgres://me@db", psycopg.OperationalError("Connection refused"), "no server answers at db:5432: Connection"),
    ],
)
def test_a_server_that_takes_no_connection_is_not_one_that_does_not_answer(
    url: str, error: Exception, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def connect(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(pymysql, "connect", connect)
    monkeypatch.setattr(psycopg, "connect", connect)
    with pytest.raises(ServerFailed, match=said), sessions.opened(read_address(url, environment={}), 1):
        pass


def test_a_session_may_be_idle_while_another_server_works() -> None:
    connection = Mysql()
    MysqlSession(connection, "127.0.0.1:3306", 1)
    assert "SET SESSION wait_timeout = 86400" in connection.sent


@pytest.mark.parametrize("known", [True, False])
def test_so_may_one_of_postgres_where_that_has_a_limit(known: bool) -> None:
    class Postgres(Silent):
        def execute(self, sql: bytes, *, prepare: bool) -> Any:
            found = super().execute(sql, prepare=prepare)
            if b"idle_session_timeout" in sql and not known:
                raise psycopg.errors.UndefinedObject("unrecognized configuration parameter")
            return found

    connection: Any = Postgres()
    PostgresSession(connection, "127.0.0.1:5432", 1).close()
    assert "SET idle_session_timeout = '86400s'" in connection.sent
    connection.theirs.close()
