"""How deep MySQL's expressions may nest: what a server's stack frames leave of a thread's stack."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pymysql

from upshift.errors import ServerFailed

# Each level of an expression, around the next one.
_SHAPES = {
    "IF": ("IF(@a, 1, ", ")"),
    "CASE": ("CASE WHEN @a THEN 1 ELSE ", " END"),
    "ABS": ("ABS(", ")"),
    "subquery": ("(SELECT ", ")"),
}
# More than the parser takes: its stack ends at 32,000 symbols (MY_YACC_MAX), of which a level of any shape needs two or more.
_TOO_DEEP = 16_384
_TIMEOUT_S = 60
# The client library's numbers of a connection that was lost in a statement.
_LOST = (2006, 2013)


def deepest(socket: Path) -> Mapping[str, int]:
    """For each shape of expression the levels that the server takes, one less than where it refuses the statement.

    It refuses for want of stack (ER_STACK_OVERRUN_NEED_MORE), or because the parser's own stack is full (ER_DA_OOM). Raises
    ServerFailed when a statement takes the connection down.
    """
    found = {}
    for shape, (before, after) in _SHAPES.items():
        taken, refused = 1, _TOO_DEEP
        while refused - taken > 1:
            levels = (taken + refused) // 2
            if _takes(socket, f"SELECT {before * levels}1{after * levels}"):
                taken = levels
            else:
                refused = levels
        found[shape] = taken
    return found


def _takes(socket: Path, statement: str) -> bool:
    try:
        with (
            pymysql.connect(unix_socket=str(socket), user="root", read_timeout=_TIMEOUT_S) as connection,
            connection.cursor() as cursor,
        ):
            cursor.execute(statement)
    except pymysql.MySQLError as error:
        if not error.args or error.args[0] in _LOST:
            raise ServerFailed(
                "the server died of a deeply nested expression",
                "the server ran out of stack before its check of the stack: look at the recipe's flags",
            ) from error
        return False
    return True
