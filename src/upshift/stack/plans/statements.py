"""Statements: where one ends, what kind it is, and its parameters put in as literals."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from typing import Any, Literal

from upshift.errors import UpshiftError
from upshift.stack.plans.model import Family

_MYSQL = re.compile(
    r"""(?P<string>'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*"|`(?:[^`]|``)*`)"""
    r"""|(?P<comment>--(?=[\s]|$)[^\n]*|\#[^\n]*|/\*.*?\*/)"""
    r"""|(?P<placeholder>\?)|(?P<end>;)|(?P<word>[A-Za-z_][\w$]*)|(?P<space>\s+)|(?P<other>.)""",
    re.S,
)
_POSTGRES = re.compile(
    r"""(?P<string>[eE]'(?:[^'\\]|\\.|'')*'|'(?:[^']|'')*'|"(?:[^"]|"")*"|\$(?P<tag>(?:[A-Za-z_]\w*)?)\$.*?\$(?P=tag)\$)"""
    r"""|(?P<comment>--[^\n\r]*|/\*.*?\*/)"""
    r"""|(?P<placeholder>\$\d+)|(?P<end>;)|(?P<word>[A-Za-z_][\w$]*)|(?P<space>\s+)|(?P<other>.)""",
    re.S,
)
EXPLAINABLE = ("select", "with", "table", "values", "insert", "update", "delete", "replace")
"""Statements that begin so have a plan on every server, where they exist at all."""
_LOCKS = ("update", "share", "key", "no")

Kind = Literal["string", "comment", "placeholder", "end", "word", "space", "other"]


class NotExplained(UpshiftError):
    """A statement that no plan can be asked for; the others go on."""


def tokens(sql: str, family: Family) -> Iterator[tuple[Kind, str]]:
    for found in (_POSTGRES if family == "postgres" else _MYSQL).finditer(sql):
        yield found.lastgroup if found.lastgroup != "tag" else "string", found[0]  # type: ignore[misc]


def split(text: str, family: Family) -> tuple[str, ...]:
    """The statements of a file, without the comments around them and the semicolons that end them."""
    found, current, begun = [], "", False
    for kind, piece in tokens(text, family):
        if kind == "end":
            found.append(current)
            current, begun = "", False
        elif begun or kind not in ("comment", "space") or piece.startswith(("/*!", "/*+")):
            current, begun = current + piece, True
    return tuple(each.strip() for each in (*found, current) if each.strip())


def first_word(sql: str, family: Family) -> str:
    """The statement's first word in small letters; empty where it has none."""
    return next((piece.lower() for kind, piece in tokens(sql, family) if kind == "word"), "")


def one_explainable(sql: str, family: Family) -> str:
    """The statement without a semicolon at its end. Raises NotExplained for several at once and for what has no plan."""
    each = split(sql, family)
    if len(each) > 1:
        raise NotExplained(f"{len(each)} statements in one text", "explain each by itself")
    if not each or first_word(sql, family) not in EXPLAINABLE:
        raise NotExplained("a statement without a plan", "SELECT, INSERT, UPDATE, DELETE and REPLACE have one")
    return each[0]


def only_reads(sql: str, family: Family) -> bool:
    """Whether it is a SELECT that neither writes a file or table nor locks rows. Functions that it calls are not looked at."""
    found = list(tokens(sql, family))
    words = [piece.lower() for kind, piece in found if kind == "word"]
    # MySQL and MariaDB execute what stands in such a comment.
    executable = any(kind == "comment" and piece.startswith(("/*!", "/*M!")) for kind, piece in found)
    if not words or words[0] not in ("select", "with") or executable:
        return False
    writes = {"into", "insert", "update", "delete", "replace", "merge"} & set(words[1:]) - _called(found)
    locking = any(first == "for" and then in _LOCKS for first, then in itertools.pairwise(words))
    shared = any(three == ("lock", "in", "share") for three in zip(words, words[1:], words[2:], strict=False))
    return not writes and not locking and not shared


def _called(found: list[tuple[Kind, str]]) -> set[str]:
    """``replace`` and ``insert`` where each of them is the function: a parenthesis follows."""
    called: set[str] = set()
    other: set[str] = set()
    said = [(kind, piece.lower()) for kind, piece in found if kind not in ("space", "comment")]
    for (kind, piece), (_kind, following) in itertools.pairwise([*said, ("end", ";")]):
        if kind == "word" and piece in ("replace", "insert"):
            (called if following == "(" else other).add(piece)
    return called - other


def placeholders(sql: str, family: Family) -> int:
    """How many parameters a statement has."""
    found = [piece for kind, piece in tokens(sql, family) if kind == "placeholder"]
    return max((int(piece[1:]) for piece in found), default=0) if family == "postgres" else len(found)


def read_parameters(text: str | None) -> list[Any] | None:
    """A trace's ``parameters``, decimals to their last digit; None where there are none.

    Raises NotExplained where the trace has not the whole value of one.
    """
    values = json.loads(text, parse_float=Decimal) if text else None
    if not isinstance(values, list):
        return None
    if any(isinstance(each, list) or (isinstance(each, dict) and set(each) != {"binary"}) for each in values):
        raise NotExplained("the trace does not have all of its parameters", "long data, defaults and what was cut are left out")
    return values


def filled(sql: str, parameters: Sequence[Any] | None, family: Family, literal: Callable[[Any], str]) -> str:
    """The statement with its parameters as literals, which ``literal`` quotes as the server needs it.

    Raises NotExplained where there are not as many parameters as the statement has places.
    """
    wanted = placeholders(sql, family)
    if not wanted:
        return sql
    if parameters is None or len(parameters) != wanted:
        given = "none" if parameters is None else str(len(parameters))
        raise NotExplained(
            f"the statement has {wanted} parameters, and {given} are known", "a trace has them; a file needs literals"
        )
    values, pieces = iter(parameters), []
    for kind, piece in tokens(sql, family):
        if kind != "placeholder":
            pieces.append(piece)
        else:
            value = parameters[int(piece[1:]) - 1] if family == "postgres" else next(values)
            # A blank on both sides: `a-?` with -1 would begin a comment, `?` beside a word would join it.
            pieces.append(f" {literal(value)} ")
    return "".join(pieces)
