"""What is counted of each driver, and what must have been done by it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from upshift.values import Value

Language = Literal["java", "node", "go", "python", "c"]

ROWS = 1000
"""Rows of the table that is read."""
BATCH = 100
LINES = 10
"""Lines of an order."""


class Operation(Value):
    """One thing that applications do."""

    title: str
    unit: str
    """What the figures are given for."""
    times: int
    rows: int = 0
    """Rows that one reads."""
    added: int = 0
    """Rows that one adds to the tables that begin empty."""
    raised: int = 0
    """By how much the sum of the columns that are counted up grows."""
    languages: tuple[Language, ...] = ()
    """Whose programs have it; empty: all."""


OPERATIONS: Mapping[str, Operation] = {
    "point_select": Operation(title="point select", unit="statement", times=1000, rows=1),
    "ten_rows": Operation(title="select of 10 rows", unit="statement", times=100, rows=10),
    "fetch": Operation(title="fetch of 1,000 rows", unit="statement", times=10, rows=ROWS),
    "batch_insert": Operation(title="batch of 100 inserts", unit="batch", times=10, added=BATCH),
    "batch_update": Operation(title="batch of 100 updates", unit="batch", times=10, raised=BATCH),
    "transaction": Operation(title="transaction of 3 statements", unit="transaction", times=100, rows=1, added=1, raised=1),
    "new_order": Operation(
        title="NewOrder of 10 lines",
        unit="transaction",
        times=50,
        # The customer, the district; of each line the item and its stock.
        rows=2 + 2 * LINES,
        added=2 + LINES,
        raised=1 + LINES,
        languages=("java",),
    ),
}

CONNECT = "connect"
"""Only connects: what it takes is no part of an operation."""
