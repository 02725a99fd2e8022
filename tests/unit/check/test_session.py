"""The session: what may go through it, and servers that are none or go away."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pymysql
import pytest

from upshift.check import session as sessions
from upshift.check.address import Address
from upshift.check.session import Session, opened
from upshift.errors import ServerFailed, UsageError

Listening = Callable[[bytes], Address]


@pytest.fixture
def listening(tmp_path: Path) -> Iterator[Listening]:
    """A program that greets whoever connects with these bytes, and says no more."""
    listener = socket.socket(socket.AF_UNIX)
    kept: list[socket.socket] = []

    def start(greeting: bytes) -> Address:
        listener.bind(str(tmp_path / "s"))
        listener.listen()

        def greet() -> None:
            client, _peer = listener.accept()
            client.sendall(greeting)
            if greeting:
                client.close()
            else:
                kept.append(client)

        threading.Thread(target=greet, daemon=True).start()
        return Address(socket=str(tmp_path / "s"), user="me")

    yield start
    for each in (listener, *kept):
        each.close()


@pytest.mark.parametrize(
    "greeting", [b"SSH-2.0-OpenSSH_9.2\r\n", b"\x04\x00\x00\x00\x0a9.7", b"HTTP/1.1 400 Bad Request\r\n\r\n", b""]
)
def test_what_is_no_server(listening: Listening, monkeypatch: pytest.MonkeyPatch, greeting: bytes) -> None:
    monkeypatch.setattr(sessions, "_LOGIN_S", 0.2)
    with pytest.raises(ServerFailed) as failed, opened(listening(greeting)):
        pass
    assert failed.value.hint


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (1040, "db:3306 takes no connection of me: Too many"),
        (1862, "db:3306 takes no connection of me: Your password has expired"),
        (3118, "db:3306 takes no connection of me: Account is locked"),
        (2003, "no server answers at db:3306: Can't connect"),
    ],
)
def test_a_server_that_answers_is_not_called_absent(monkeypatch: pytest.MonkeyPatch, code: int, said: str) -> None:
    def connect(**_given: Any) -> None:
        raise pymysql.err.OperationalError(code, said.rpartition(": ")[2])

    monkeypatch.setattr(pymysql, "connect", connect)
    with pytest.raises(ServerFailed, match=said), opened(Address(host="db", user="me")):
        pass


def test_a_server_that_refuses_every_statement(monkeypatch: pytest.MonkeyPatch) -> None:
    """As for an account whose password has expired."""

    class Refusing(Answering):
        def execute(self, statement: str) -> None:
            raise pymysql.err.OperationalError(1820, "You must reset your password")

    connection = Refusing()
    monkeypatch.setattr(pymysql, "connect", lambda **_given: connection)
    with pytest.raises(ServerFailed, match="refuses a statement of the check: You must reset"), opened(Address(host="db")):
        pass
    assert connection.closed


@pytest.mark.parametrize(
    ("error", "raised"),
    [
        (pymysql.err.OperationalError(1045, "Access denied"), UsageError),
        (pymysql.err.OperationalError(2003, "Can't connect"), ServerFailed),
        (pymysql.err.OperationalError(1040, "Too many connections"), ServerFailed),
        (RuntimeError("'cryptography' package is required"), ServerFailed),
    ],
)
def test_logins_that_fail(monkeypatch: pytest.MonkeyPatch, error: Exception, raised: type[Exception]) -> None:
    def connect(**_given: Any) -> None:
        raise error

    monkeypatch.setattr(pymysql, "connect", connect)
    with pytest.raises(raised, match=str(error.args[-1])), opened(Address(host="db", password="sesame")):
        pass


def test_a_file_of_certificates_that_is_not_there_is_named(tmp_path: Path) -> None:
    with (
        pytest.raises(UsageError, match="tls-ca: there is no file "),
        opened(Address(host="db", ca=str(tmp_path / "none.pem"))),
    ):
        pass


class Answering:
    """A connection whose statements end with ``error``, where there is one."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.asked: list[str] = []
        self.closed = False

    def cursor(self) -> Answering:
        return self

    def __enter__(self) -> Answering:
        return self

    def __exit__(self, *_exc: object) -> None:
        pass

    def execute(self, statement: str) -> None:
        self.asked.append(statement)
        if self.error and "max_" in statement:
            raise self.error

    def fetchall(self) -> list[tuple[int]]:
        return [(1,)]

    def close(self) -> None:
        self.closed = True


def test_the_session_is_read_only_before_anything_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    # A variable that this server does not have is no matter.
    connection = Answering(pymysql.err.OperationalError(1193, "Unknown system variable"))
    monkeypatch.setattr(pymysql, "connect", lambda **_given: connection)
    with opened(Address(host="db")) as session:
        assert session.ask("SELECT 1") == [(1,)]
    assert connection.asked[0] == "SET SESSION TRANSACTION READ ONLY" and connection.closed
    assert all(each.startswith(("SET SESSION ", "SELECT ")) for each in connection.asked)
    assert "SET SESSION time_zone = 'SYSTEM'" in connection.asked, "NOW() is compared with InnoDB's times"
    assert "SET SESSION sql_select_limit = 18446744073709551615" in connection.asked, "no row is cut off"


@pytest.mark.parametrize("error", [pymysql.err.OperationalError(2013, "Lost connection"), pymysql.err.InterfaceError(0, "")])
def test_a_server_that_goes_away(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    with pytest.raises(ServerFailed, match="went away"):
        Session(Answering(error)).ask("SELECT max_used")


@pytest.mark.parametrize("statement", ["DELETE FROM t", "SET GLOBAL x = 1", "FLUSH STATUS", "SELECTED", "KILL 1", "SET x = 1"])
def test_only_statements_that_read_go_through(statement: str) -> None:
    connection = Answering()
    with pytest.raises(AssertionError):
        Session(connection).ask(statement)
    assert not connection.asked
