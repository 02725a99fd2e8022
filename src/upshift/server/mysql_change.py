"""Statements of a user's own on the data of a MySQL: an index, fresh statistics, another type."""

from __future__ import annotations

from pathlib import Path

import pymysql
from pymysql.constants import CLIENT, ER

from upshift.errors import ServerFailed

_LONGEST_S = 3600
"""Of one statement: an index on a large table takes its time."""
_TOLD = "Msg_type"
"""The column in which ANALYZE, OPTIMIZE and REPAIR say how it went: their errors come as rows."""


def change(socket: Path, database: str, sql: str) -> str | None:
    """As ``ServerKind.change``. The server tells the statements of the text from each other; DELIMITER is the client's word."""
    try:
        with (
            pymysql.connect(
                unix_socket=str(socket),
                user="root",
                database=database,
                autocommit=True,
                client_flag=CLIENT.MULTI_STATEMENTS,
                read_timeout=_LONGEST_S,
            ) as connection,
            connection.cursor() as cursor,
        ):
            return _executed(cursor, sql)
    except (pymysql.OperationalError, pymysql.InterfaceError, OSError) as error:
        raise ServerFailed(f"the server no longer answers: {error}", "it crashed or hangs: see its log") from error


def _executed(cursor: pymysql.cursors.Cursor, sql: str) -> str | None:
    done = 0
    try:
        cursor.execute(sql)
        while True:
            done += 1
            if said := _error_in(cursor):
                return said
            if not cursor.nextset():
                return None
    except pymysql.MySQLError as error:
        code, said = (*error.args, "", "")[:2]
        if code == ER.EMPTY_QUERY and done:  # A comment behind the last statement.
            return None
        if _is_lost(error):
            raise
        return f"{said} ({code})"


def _error_in(cursor: pymysql.cursors.Cursor) -> str | None:
    names = [column[0] for column in cursor.description or ()]
    if _TOLD not in names:
        return None
    rows = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
    return next((f"{row['Table']}: {row['Msg_text']}" for row in rows if str(row[_TOLD]).lower() == "error"), None)


def _is_lost(error: pymysql.MySQLError) -> bool:
    return isinstance(error, pymysql.InterfaceError) or error.args[:1] in ((2006,), (2013,), (2055,), (1053,))
