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
    | (?P<line>--[^\n\r]*)          # a comment
    | (?P<comment>/\*)
    | (?P<atomic>(?i:\bBEGIN\s+ATOMIC\b))   # a function's body, of statements
    | (?P<word>(?i:\b(?:CASE|END)\b))
    | (?P<end>;)
    """,
    re.X | re.S,
)
_EDGE = re.compile(r"/\*|\*/")


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
    """The statements of a text, told from each other as the server's own lexer does. A text of comments alone is none."""
    start = at = depth = 0
    bare = ""
    while piece := _PIECE.search(sql, at):
        before = sql[at : piece.start()]
        at = (_comment_end(sql, piece.start()) if piece["comment"] else None) or piece.end()
        is_comment = piece["line"] or at > piece.end()
        bare += before if is_comment or piece["end"] else before + piece[0]
        if piece["atomic"]:
            depth += 1
        elif piece["word"] and depth:
            depth += 1 if piece["word"].upper() == "CASE" else -1
        elif piece["end"] and not depth:
            if bare.strip():
                yield sql[start : piece.start()].strip()
            start, bare = at, ""
    if (bare + sql[at:]).strip():
        yield sql[start:].strip()


def _comment_end(sql: str, begin: int) -> int | None:
    """Behind a comment, in which others may be nested; None where it is not closed, which the server refuses."""
    depth = 0
    for edge in _EDGE.finditer(sql, begin):
        depth += 1 if edge[0] == "/*" else -1
        if not depth:
            return edge.end()
    return None
