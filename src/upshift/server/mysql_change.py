"""Statements on the data of a MySQL: statistics of all tables, and what a user asks for, such as an index or another type."""

from __future__ import annotations

from pathlib import Path

import pymysql
from pymysql.constants import CLIENT, ER

from upshift.errors import ServerFailed
from upshift.server.mysql_asking import asked

_LONGEST_S = 3600
"""Of one statement: an index on a large table takes its time."""
_TOLD = "Msg_type"
"""The column in which ANALYZE, OPTIMIZE and REPAIR say how it went: their errors come as rows."""

_OWN_SCHEMAS = ("information_schema", "mysql", "performance_schema", "sys")


def gather_statistics(socket: Path) -> None:
    """ANALYZE every base table that is not the server's own. Raises ServerFailed, also where the server refuses."""
    with asked(socket) as cursor:
        # Until the server stops: what InnoDB still had to gather would overwrite these with those of an earlier moment.
        cursor.execute("SET GLOBAL innodb_stats_auto_recalc = OFF")
        found = "SELECT table_schema, table_name FROM information_schema.tables WHERE table_type = 'BASE TABLE'"
        cursor.execute(f"{found} AND table_schema NOT IN %s ORDER BY 1, 2", (_OWN_SCHEMAS,))
        tables = [".".join(f"`{name.replace('`', '``')}`" for name in each) for each in cursor.fetchall()]
    # One by one: each has the time that a statement may take.
    for table in tables:
        if said := change(socket, None, f"ANALYZE NO_WRITE_TO_BINLOG TABLE {table}"):
            raise ServerFailed(f"statistics of {table} cannot be gathered: {said}", "look at the server's log")


def change(socket: Path, database: str | None, sql: str) -> str | None:
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
