"""A session with a server that only reads: what plans and answers are asked through."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
from collections.abc import Iterator
from typing import Any, Protocol

import psycopg
import psycopg.conninfo
import psycopg.sql
import pymysql
import pymysql.cursors

from upshift.check.address import PasswordWanted
from upshift.check.session import WRONG_PASSWORD, sent_by_server
from upshift.errors import ServerFailed, UsageError
from upshift.stack.plans.address import Address
from upshift.stack.plans.model import Family, Notice
from upshift.stack.plans.patience import Patience
from upshift.stack.plans.statements import NotExplained

_CONNECT_S = 10
_LOCK_WAIT_S = 2
_IDLE_S = 86400
"""A session waits while another server works, maybe longer than its own server waits for a client."""
_HANGS_S = 60
"""The server gives statements up before; so much later it counts as one that hangs."""
_REWRITTEN = 1003
"""The note that shows the statement as the optimizer rewrote it."""
_GONE = (2006, 2013, 2055, 1053, 4031)
_DENIED = (1044, 1045, 1049, 1130, 1698)


class Refused(Exception):
    """The server's own words about a statement that it does not execute, with its code."""

    def __init__(self, code: str, said: str) -> None:
        super().__init__(said)
        self.code, self.said = code, said


class Session(Protocol):
    """One connection. ``ask`` and ``stream`` raise Refused, and ServerFailed when the server is gone."""

    family: Family
    version: str

    def ask(self, sql: str) -> list[tuple[Any, ...]]:
        """All rows of one statement."""

    def stream(self, sql: str) -> Iterator[tuple[Any, ...]]:
        """The rows of one statement as they come, however many there are."""

    def literal(self, value: Any) -> str:
        """A parameter of a trace as a literal. Raises NotExplained for a value that the server cannot have."""

    def begin(self, *, read_only: bool) -> None: ...

    def rollback(self) -> None: ...

    def notices(self) -> tuple[Notice, ...]:
        """What the server remarked on the statement before."""


class MysqlSession:
    """A session with a MySQL or MariaDB."""

    def __init__(self, connection: Any, where: str, wait_s: float) -> None:
        self._connection, self._where = connection, where
        self.version = str(self.ask("SELECT version()")[0][0])
        self.family: Family = "mariadb" if "mariadb" in self.version.lower() else "mysql"
        # At SERIALIZABLE, which may be the server's default, a SELECT in a transaction would lock all rows that it reads.
        self.ask("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        # Of metadata, and of rows.
        self.ask(f"SET SESSION lock_wait_timeout = {_LOCK_WAIT_S}, innodb_lock_wait_timeout = {_LOCK_WAIT_S}")
        limit = f"max_statement_time = {wait_s:g}" if self.family == "mariadb" else f"max_execution_time = {wait_s * 1000:.0f}"
        self.ask(f"SET SESSION {limit}")
        self.ask(f"SET SESSION wait_timeout = {_IDLE_S}")

    def ask(self, sql: str) -> list[tuple[Any, ...]]:
        with self._errors(), self._connection.cursor() as cursor:
            cursor.execute(sql)
            return list(cursor.fetchall())

    def stream(self, sql: str) -> Iterator[tuple[Any, ...]]:
        with self._errors(), self._connection.cursor(pymysql.cursors.SSCursor) as cursor:
            cursor.execute(sql)
            yield from cursor

    def literal(self, value: Any) -> str:
        if isinstance(raw := _plain(value), bytes):
            return f"X'{raw.hex()}'"
        return str(self._connection.escape(raw))

    def begin(self, *, read_only: bool) -> None:
        self.ask(f"START TRANSACTION{' READ ONLY' if read_only else ''}")

    def rollback(self) -> None:
        self.ask("ROLLBACK")

    def notices(self) -> tuple[Notice, ...]:
        rows = self.ask("SHOW WARNINGS")
        return tuple(Notice(code=int(code), text=str(said)) for _level, code, said in rows if code != _REWRITTEN)

    def close(self) -> None:
        """Without an error where the server is gone."""
        with contextlib.suppress(pymysql.MySQLError, OSError):
            self._connection.close()

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except pymysql.MySQLError as error:
            code, said = (*error.args, "", "")[:2]
            if isinstance(error, pymysql.err.InterfaceError) or code in _GONE:
                raise _gone(self._where, str(said or error)) from error
            raise Refused(str(code), str(said)) from error
        except OSError as error:
            raise _gone(self._where, str(error)) from error


class PostgresSession:
    """A session with a PostgreSQL."""

    family: Family = "postgres"

    def __init__(self, connection: psycopg.Connection[Any], where: str, wait_s: float) -> None:
        self._connection, self._where = connection, where
        self._patience = Patience(self._hang_up, wait_s + _HANGS_S)
        try:
            self.version = str(self.ask("SHOW server_version")[0][0])
            # Statements are sent as UTF-8. A database of bytes in no encoding would refuse those that are not.
            if connection.info.parameter_status("server_encoding") != "SQL_ASCII":
                self.ask("SET client_encoding = 'UTF8'")
            self.ask(f"SET statement_timeout = {wait_s * 1000:.0f}")
            self.ask(f"SET lock_timeout = {_LOCK_WAIT_S * 1000}")
            # PostgreSQL 13 has no such limit.
            with contextlib.suppress(Refused):
                self.ask(f"SET idle_session_timeout = '{_IDLE_S}s'")
        except BaseException:
            self._patience.close()
            raise

    def ask(self, sql: str) -> list[tuple[Any, ...]]:
        with self._errors(), self._patience.waiting():
            # Prepared: the server then refuses a text of several statements.
            cursor = self._connection.execute(sql.encode(), prepare=True)
            return cursor.fetchall() if cursor.description else []

    def stream(self, sql: str) -> Iterator[tuple[Any, ...]]:
        with self._errors(), self._connection.cursor() as cursor:
            rows = cursor.stream(sql.encode())
            while True:
                with self._patience.waiting():
                    row = next(rows, None)
                if row is None:
                    return
                yield row

    def literal(self, value: Any) -> str:
        try:
            # as_string() would read them in the connection's encoding, which SQL_ASCII has none of.
            return bytes(psycopg.sql.Literal(_plain(value)).as_bytes(self._connection)).decode()
        except (psycopg.Error, UnicodeError) as error:
            hint = "write the statement with another value into a file"
            raise NotExplained(f"PostgreSQL has no such value: {error}", hint) from error

    def begin(self, *, read_only: bool) -> None:
        # At SERIALIZABLE, which may be the server's default, others' transactions could fail because of this one.
        self.ask(f"BEGIN ISOLATION LEVEL REPEATABLE READ{', READ ONLY' if read_only else ''}")

    def rollback(self) -> None:
        self.ask("ROLLBACK")

    def notices(self) -> tuple[Notice, ...]:
        return ()

    def close(self) -> None:
        """Without an error where the server is gone."""
        self._patience.close()
        with contextlib.suppress(psycopg.Error, OSError):
            self._connection.close()

    def _hang_up(self) -> None:
        """The driver then meets the connection's end."""
        with contextlib.suppress(psycopg.Error, OSError), socket.socket(fileno=os.dup(self._connection.fileno())) as shared:
            shared.shutdown(socket.SHUT_RDWR)

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except psycopg.Error as error:
            if self._patience.ran_out:
                raise _gone(self._where, "it does not answer any more") from error
            if self._connection.closed or self._connection.broken or error.sqlstate in ("57P01", "57P02", "57P03"):
                raise _gone(self._where, str(error).strip()) from error
            raise Refused(error.sqlstate or "", (error.diag.message_primary or str(error)).strip()) from error


def _plain(value: Any) -> Any:
    """A value of a trace's parameters: bytes stand there as ``{"binary": "..."}``."""
    return bytes.fromhex(value["binary"]) if isinstance(value, dict) else value


def _gone(where: str, said: str) -> ServerFailed:
    return ServerFailed(f"the server at {where} is gone: {said}", "its log says why; start the command again when it runs")


@contextlib.contextmanager
def opened(address: Address, wait_s: float) -> Iterator[Session]:
    """A session.

    Raises UsageError when the server refuses the login, PasswordWanted where that had none, ServerFailed when it is not there
    or takes no session.
    """
    connection = _postgres(address) if address.postgres else _mysql(address, wait_s)
    try:
        made = PostgresSession if address.postgres else MysqlSession
        session: MysqlSession | PostgresSession = made(connection, address.shown(), wait_s)
    except BaseException as error:
        with contextlib.suppress(pymysql.MySQLError, psycopg.Error, OSError):
            connection.close()
        if isinstance(error, Refused):
            raise ServerFailed(
                f"{address.shown()} refuses to begin a session of {address.user}: {error.said} ({error.code})",
                "its message says what must change; where a pooler answers, name the server itself",
            ) from error
        raise
    with contextlib.closing(session):
        yield session


def _mysql(address: Address, wait_s: float) -> Any:
    where: dict[str, Any] = {"unix_socket": address.socket} if address.socket else {"host": address.host, "port": address.port}
    try:
        return pymysql.connect(
            **where,
            user=address.user,
            password=address.password,
            database=address.database or None,
            ssl_ca=address.ca or None,
            ssl_verify_cert=bool(address.ca) or None,
            connect_timeout=_CONNECT_S,
            read_timeout=wait_s + _HANGS_S,
            program_name="upshift stack",
        )
    except pymysql.MySQLError as error:
        code, said = (*error.args, "", "")[:2]
        if code in _DENIED:
            refused = PasswordWanted if code == WRONG_PASSWORD and not address.password else UsageError
            raise _denied(address, str(said), "its password in an option file, a login path or MYSQL_PWD", refused) from error
        raise (_unwelcome if sent_by_server(code) else _absent)(address, str(said or error)) from error
    except (RuntimeError, OSError, ValueError, LookupError, AssertionError, struct.error) as error:
        raise _absent(address, str(error)) from error


def _postgres(address: Address) -> psycopg.Connection[Any]:
    options = {"host": address.socket or address.host, "port": str(address.port), "user": address.user}
    options |= {"application_name": "upshift stack", "connect_timeout": str(_CONNECT_S)}
    if address.database:
        options["dbname"] = address.database
    if address.password:
        options["password"] = address.password
    if address.ca:
        options |= {"sslmode": "verify-ca", "sslrootcert": address.ca}
    try:
        return psycopg.connect(psycopg.conninfo.make_conninfo("", **options), autocommit=True)
    except psycopg.Error as error:
        said = " ".join(str(error).split())
        if not any(word in said for word in ("authentication", "password", "does not exist", "pg_hba")):
            raise (_unwelcome if "FATAL:" in said else _absent)(address, said) from error
        refused = PasswordWanted if error.pgconn is not None and error.pgconn.needs_password else UsageError
        raise _denied(address, said, "its password in ~/.pgpass or PGPASSWORD", refused) from error


def _denied(address: Address, said: str, hint: str, refused: type[UsageError]) -> UsageError:
    return refused(f"{address.shown()} refuses {address.user}: {said}", f"name the user and the database in the URL, {hint}")


def _unwelcome(address: Address, said: str) -> ServerFailed:
    return ServerFailed(f"{address.shown()} takes no connection of {address.user}: {said}", "its message says what must change")


def _absent(address: Address, said: str) -> ServerFailed:
    return ServerFailed(f"no server answers at {address.shown()}: {said}", "check the address, and that the server runs")
