"""What a trace shows, as frozen values: all that a rule may look at."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from upshift.stack.budget import Budget
from upshift.values import Value


class Lost(Value):
    """What a capture missed."""

    connections: int = 0
    bytes: int = 0


class TraceFacts(Value):
    """The trace as a whole: ``trace.json``."""

    family: Literal["mysql", "postgres"]
    server_version: str
    began: str
    duration_us: int
    exchanges: int
    sessions: int
    gaps: Lost
    unread: Mapping[str, int]
    """Connections whose traffic was passed through unread, by reason."""
    capture: Literal["proxy", "pcap"]
    added_us_p50: float | None
    added_us_p99: float | None
    whole: bool
    masked: bool


class Client(Value):
    """All connections of one driver in one version."""

    name: str | None
    """As it calls itself; None: it does not."""
    version: str | None
    driver: str | None
    """Of ``drivers.DRIVERS``; None: not recognised."""
    connections: int
    joined_late: int
    encrypted: int
    transactions: int
    time_us: int


class Statement(Value):
    """All executions of one normalised statement. Times are of its exchanges, without client gaps, and add up in the budget."""

    statement: str
    text: str
    verb: str
    as_text: int
    """Executions as text."""
    executes: int
    """Executions of a prepared statement; a bulk execution is one."""
    prepares: int
    prepares_again: int
    """Of a text that the same connection had prepared before."""
    prepared_texts: int
    """Different texts that were prepared."""
    fetches: int
    cursors: int
    """Executions that opened a cursor."""
    early_closes: int
    rows: int
    rows_median: float
    fetch_size: int | None
    """The median."""
    round_trips: int
    time_us: int
    server_us: int
    prepare_again_us: int
    prepare_us: int
    fetch_us: int
    early_close_us: int

    @property
    def executions(self) -> int:
        return self.as_text + self.executes


class Evidence(Value):
    """What rules look at. Rules about plans have their own beside it."""

    trace: TraceFacts
    budget: Budget
    clients: tuple[Client, ...]
    statements: tuple[Statement, ...]
    """Most time first."""
