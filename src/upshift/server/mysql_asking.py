"""What a running MySQL is asked: its counters, and what it does in the background."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TypeAlias

import pymysql

from upshift.errors import ServerFailed
from upshift.server.kind import Counters

Connection: TypeAlias = "pymysql.Connection[pymysql.cursors.Cursor]"

BACKGROUND = ("Innodb_buffer_pool_pages_dirty", "Innodb_data_reads", "Innodb_data_written", "Innodb_os_log_written")
"""What tells background work, beside the length of the history: flushing, loading the buffer pool, the log."""
# Each is counted for text and for prepared statements; a fetch is none of them.
_STATEMENTS = (
    "Com_select",
    "Com_insert",
    "Com_insert_select",
    "Com_replace",
    "Com_replace_select",
    "Com_update",
    "Com_update_multi",
    "Com_delete",
    "Com_delete_multi",
)


def connected(socket: Path) -> Connection:
    """Raises pymysql.MySQLError where nobody answers."""
    return pymysql.connect(unix_socket=str(socket), user="root", connect_timeout=5, read_timeout=20)


@contextlib.contextmanager
def answering() -> Iterator[None]:
    """Raises ServerFailed for a server that no longer answers."""
    try:
        yield
    except pymysql.MySQLError as error:
        raise ServerFailed(f"the server no longer answers: {error}", "it crashed or hangs: see its log") from error


@contextlib.contextmanager
def asked(socket: Path) -> Iterator[pymysql.cursors.Cursor]:
    """For statements to a server that has answered before. Raises ServerFailed when it no longer does."""
    with answering(), connected(socket) as connection, connection.cursor() as cursor:
        yield cursor


def counters(connection: Connection) -> Counters:
    """What clients have had done since the server's start."""
    with connection.cursor() as cursor:
        found = _status(cursor, "Questions", "Com_commit", *_STATEMENTS)
    statements = sum(found[name] for name in _STATEMENTS)
    return Counters(queries=found["Questions"], statements=statements, transactions=found["Com_commit"])


def background(socket: Path) -> dict[str, int]:
    """Counters that stand still, by name, when nothing is flushed, loaded, logged or purged. Raises ServerFailed."""
    with asked(socket) as cursor:
        cursor.execute("SELECT NAME, COUNT FROM information_schema.INNODB_METRICS WHERE NAME = 'trx_rseg_history_len'")
        history = {name: int(value) for name, value in cursor.fetchall()}
        return {**history, **_status(cursor, *BACKGROUND)}


def holds_snapshot(socket: Path) -> bool:
    """Whether a transaction is open. Raises ServerFailed."""
    with asked(socket) as cursor:
        cursor.execute("SELECT COUNT(*) FROM information_schema.INNODB_TRX")
        ((found,),) = cursor.fetchall()
    return bool(found)


def _status(cursor: pymysql.cursors.Cursor, *names: str) -> dict[str, int]:
    cursor.execute("SHOW GLOBAL STATUS WHERE Variable_name IN %s", (names,))
    return {name: int(value) for name, value in cursor.fetchall()}
