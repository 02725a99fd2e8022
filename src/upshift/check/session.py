"""A connection that cannot change anything: only SELECT, SHOW and SET SESSION go through it."""

from __future__ import annotations

import contextlib
import os
import re
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pymysql

from upshift.check.address import PASSWORD, Address, PasswordWanted
from upshift.errors import ServerFailed, UsageError

_READS = re.compile(r"(SELECT|SHOW|SET SESSION)\s", re.I)
STATEMENT_S = 20
"""Longer than this no statement of ours may work."""
LOCK_WAIT_S = 2
_ALL_ROWS = 2**64 - 1
_LOGIN_S = 10
_ANSWER_S = 3 * STATEMENT_S
"""Beside the statement itself: the way there, and a server that gives up late."""
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_GONE = (2006, 2013, 2014, 2055)
_DENIED = (1044, 1045, 1130, 1698)
WRONG_PASSWORD = 1045
_OF_THE_SERVER, _OF_THE_CLIENT = 1000, range(2000, 3000)
"""Numbers of errors that a server sends, and within them those that its clients make themselves."""


class Session:
    """Asks one server."""

    def __init__(self, connection: Any, *, local_port: bool = False) -> None:
        self._connection = connection
        self.local_port = local_port
        """Whether it goes to a port of this machine: its pid file may then be the server's."""

    def ask(self, statement: str) -> list[tuple[Any, ...]]:
        """The rows of a statement. Raises pymysql.MySQLError as the server says it, ServerFailed when it is gone."""
        assert _READS.match(statement), statement
        try:
            with self._connection.cursor() as cursor:
                cursor.execute(statement)
                return list(cursor.fetchall())
        except (pymysql.err.InterfaceError, pymysql.err.OperationalError, OSError) as error:
            if isinstance(error, pymysql.err.OperationalError) and error.args[0] not in _GONE:
                raise
            raise ServerFailed(f"the server went away during the check: {error}", "its log says why") from error

    @property
    def socket(self) -> Any:
        """The socket of the connection, which knows what process listens at its other end."""
        return self._connection._sock


@contextlib.contextmanager
def opened(address: Address) -> Iterator[Session]:
    """A read-only session.

    Raises UsageError when the server refuses the login, PasswordWanted where that had none, ServerFailed when it is not there.
    """
    connection = _connect(address)
    connection._read_timeout = _ANSWER_S
    try:
        session = Session(connection, local_port=address.host in _LOOPBACK)
        session.ask("SET SESSION TRANSACTION READ ONLY")
        session.ask("SET SESSION autocommit = 1")  # else the first SELECT opens a snapshot, which holds purge back
        session.ask("SET SESSION time_zone = 'SYSTEM'")  # in which InnoDB says when a transaction began (i_s.cc)
        session.ask(f"SET SESSION lock_wait_timeout = {LOCK_WAIT_S}")
        # Limits of the server's: the first cuts rows off without a word, the second refuses a look at all tables.
        session.ask(f"SET SESSION sql_select_limit = {_ALL_ROWS}")
        session.ask("SET SESSION sql_big_selects = 1")
        _bound(session)
        yield session
    except pymysql.MySQLError as error:
        raise ServerFailed(
            f"the server refuses a statement of the check: {_said(error)}", "log in as a user who may run SHOW and SELECT"
        ) from error
    finally:
        with contextlib.suppress(pymysql.MySQLError, OSError):
            connection.close()


def _bound(session: Session) -> None:
    """Statements that take long are given up by the server itself; nothing is hidden; no cache of statistics is written."""
    for setting in (
        f"max_execution_time = {STATEMENT_S * 1000}",
        f"max_statement_time = {STATEMENT_S}",
        "information_schema_stats_expiry = 0",
        "show_gipk_in_create_table_and_information_schema = ON",
    ):
        with contextlib.suppress(pymysql.err.OperationalError, pymysql.err.InternalError):  # the other family's
            session.ask(f"SET SESSION {setting}")


def _connect(address: Address) -> Any:
    if address.ca and not (os.access(address.ca, os.R_OK) and Path(address.ca).is_file()):
        raise UsageError(
            f"tls-ca: there is no file {address.ca} that this user may read",
            "name the file with the certificates that sign the server's",
        )
    where = {"unix_socket": address.socket} if address.socket else {"host": address.host, "port": address.port}
    try:
        return pymysql.connect(
            **where,
            user=address.user,
            password=address.password,
            ssl_ca=address.ca or None,
            ssl_verify_cert=bool(address.ca) or None,
            # None: as the server has it. A statement more than needed would be one that is not SET SESSION.
            autocommit=None,
            connect_timeout=_LOGIN_S,
            read_timeout=_LOGIN_S,
            program_name="upshift check",
        )
    except pymysql.MySQLError as error:
        code = error.args[0] if error.args else 0
        if code in _DENIED:
            refused = PasswordWanted if code == WRONG_PASSWORD and not address.password else UsageError
            raise refused(
                f"{address.shown()} refuses the login of {address.user}: {_said(error)}",
                f"the login comes from an option file, a login path or the URL; its password from the first two, or {PASSWORD}",
            ) from error
        if sent_by_server(code):
            raise ServerFailed(
                f"{address.shown()} takes no connection of {address.user}: {_said(error)}", "its message says what must change"
            ) from error
        raise ServerFailed(
            f"no server answers at {address.shown()}: {_said(error)}", "check the address, and that the server runs"
        ) from error
    except (RuntimeError, OSError, ValueError, LookupError, AssertionError, struct.error) as error:
        raise ServerFailed(
            f"no connection to {address.shown()}: {error}", "use its unix socket, or TLS with a file of certificates (tls-ca)"
        ) from error


def sent_by_server(code: object) -> bool:
    """Whether an error with this number comes from a server, not from its client."""
    return isinstance(code, int) and code >= _OF_THE_SERVER and code not in _OF_THE_CLIENT


def _said(error: pymysql.MySQLError) -> str:
    """The message without its number."""
    return str(error.args[1] if len(error.args) > 1 else error)
