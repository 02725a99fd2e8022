"""What a SELECT answers: how many rows, and a digest that is the same on every server whatever the order."""

from __future__ import annotations

import datetime
import hashlib
import json
import math
import time
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from upshift.stack.plans.ask import refusals, transaction
from upshift.stack.plans.session import Session
from upshift.stack.plans.statements import NotExplained, only_reads
from upshift.values import Value

_DIGEST_BYTES = 16
_WHOLE = 2 ** (8 * _DIGEST_BYTES)


class Answer(Value):
    """All rows of one execution."""

    rows: int
    digest: str
    """The sum of the rows' hashes: equal rows in another order have the same."""
    ms: float
    """From the request to the last row."""


def answer(session: Session, text: str) -> Answer:
    """Execute a SELECT in a read-only transaction that is rolled back. Raises NotExplained for anything else."""
    if not only_reads(text, session.family):
        raise NotExplained("only a SELECT that locks and writes nothing is executed", "compare its plan without --execute")
    total, count, began = 0, 0, time.perf_counter()
    with refusals(), transaction(session, read_only=True):
        for row in session.stream(text):
            total = (total + row_hash(row)) % _WHOLE
            count += 1
    return Answer(rows=count, digest=f"{total:032x}", ms=(time.perf_counter() - began) * 1000)


def row_hash(row: tuple[Any, ...]) -> int:
    cells = json.dumps([canonical(cell) for cell in row], ensure_ascii=False)
    return int.from_bytes(hashlib.blake2b(cells.encode("utf-8", "surrogatepass"), digest_size=_DIGEST_BYTES).digest(), "big")


def canonical(cell: Any) -> str | None:
    """A cell as a text that does not depend on the server's type for it; None: NULL.

    Numbers lose zeros at their ends, and floating point keeps 12 digits: servers add in another order. Texts lose blanks at
    their end, which CHAR has on PostgreSQL and not on MySQL.
    """
    if cell is None:
        return None
    return next((form(cell) for kinds, form in _FORMS if isinstance(cell, kinds)), None) or str(cell).rstrip(" ")


def _number(value: Decimal) -> str:
    if not value.is_finite():
        return str(value)
    text = format(value, "f")
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return "0" if text in ("-0", "") else text


def _binary(cell: bytes | bytearray | memoryview) -> str:
    raw = bytes(cell)
    # A BIT of MySQL is one byte.
    return str(raw[0]) if len(raw) == 1 and raw[0] < 2 else f"x{raw.hex()}"


def _float(cell: float) -> str:
    return _number(Decimal(f"{cell:.12g}")) if math.isfinite(cell) else str(cell)


def _time(cell: datetime.time) -> str:
    return _number(Decimal(cell.hour * 3600 + cell.minute * 60 + cell.second) + Decimal(cell.microsecond) / 1000000)


_FORMS: tuple[tuple[Any, Callable[[Any], str]], ...] = (
    (bool, lambda cell: str(int(cell))),
    (float, _float),
    ((int, Decimal), lambda cell: _number(Decimal(cell))),
    ((bytes, bytearray, memoryview), _binary),
    (datetime.datetime, lambda cell: cell.isoformat(sep=" ")),
    (datetime.timedelta, lambda cell: _number(Decimal(str(cell.total_seconds())))),
    (datetime.time, _time),
    ((dict, list), lambda cell: json.dumps(cell, sort_keys=True, default=str, ensure_ascii=False)),
)
"""A time of day is seconds, as an interval is: MySQL has one type for both."""
