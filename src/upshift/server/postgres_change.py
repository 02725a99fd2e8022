"""Statements of a user's own on the data of a PostgreSQL, each with its own commit."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import psycopg

# In one text the server would make all of them one transaction, in which VACUUM and others are refused.
_PIECE = re.compile(
    r"""
      (?<!\w)[eE]'(?:[^'\\]|''|\\.)*'      # a string with escapes
    | '(?:[^']|'')*'                # a string
    | "(?:[^"]|"")*"                # a name
    | \$(?P<tag>[A-Za-z_]\w*|)\$.*?\$(?P=tag)\$   # a function's body
    | --[^\n\r]*                    # a comment
    | /\*.*?\*/
    | (?P<end>;)
    """,
    re.X | re.S,
)
_NOTHING = re.compile(r"(?:\s|--[^\n\r]*(?:[\n\r]|$)|/\*(?:(?!\*/).)*\*/)*", re.S)


def change(connection: psycopg.Connection[Any], sql: str) -> str | None:
    """As ``ServerKind.change``, on a connection that commits each statement.

    Raises OperationalError when the server is gone.
    """
    for statement in statements(sql):
        try:
            connection.execute(statement.encode())
        except psycopg.Error as error:
            if connection.closed or connection.broken:
                raise psycopg.OperationalError(str(error)) from error
            return f"{error.diag.message_primary or error} ({error.sqlstate})"
    return None


def statements(sql: str) -> Iterator[str]:
    """The statements of a text, told from each other as the server's own lexer does; comments nest for the server alone."""
    start = 0
    for piece in _PIECE.finditer(sql):
        if piece["end"]:
            yield from _said(sql[start : piece.start()])
            start = piece.end()
    yield from _said(sql[start:])


def _said(text: str) -> Iterator[str]:
    """Nothing for a text of comments alone."""
    if not _NOTHING.fullmatch(text):
        yield text.strip()
