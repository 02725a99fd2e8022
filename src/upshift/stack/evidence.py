"""What a trace shows, as frozen values: all that a rule may look at."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from upshift.stack.budget import Budget
from upshift.stack.lacks import Lack, Log
from upshift.values import Value


class Lost(Value):
    """What a capture missed."""

    connections: int = 0
    bytes: int = 0


class TraceFacts(Value):
    """The trace as a whole: ``trace.json``."""

    family: Literal["mysql", "postgres"]
    server_version: str | None
    """None: no login was seen."""
    began: str
    duration_us: int
    exchanges: int
    sessions: int
    gaps: Lost
    unread: Mapping[str, int]
    """Connections whose traffic was passed through unread, by reason."""
    capture: Literal["proxy", "pcap", "log"]
    added_us_p50: float | None
    added_us_p99: float | None
    whole: bool
    masked: bool
    incomplete: int = 0
    """Requests whose answer was not seen to its end."""
    lost: int = 0
    """Exchanges that the capture could not write in time."""
    stopped: str | None = None
    """Why the capture ended by itself."""
    log: Log | None = None
    """None: it was captured."""

    def lacking(self, *needed: Lack) -> tuple[Lack, ...]:
        """Those that the trace has not."""
        return tuple(each for each in needed if self.log and each in self.log.lacks)


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
    compressed: int
    transactions: int
    time_us: int


class Statement(Value):
    """All executions of one normalised statement."""

    statement: str
    text: str
    verb: str
    as_text: int
    """Executions as text, and COPY."""
    executes: int
    """Executions of a prepared statement; a bulk execution is one."""
    prepares: int
    prepares_again: int
    """Of a text that the same connection had prepared before."""
    prepares_with_literals: int
    prepared_literals: int
    """Different lists of literals in the texts that were prepared, if there are several."""
    fetches: int
    cursors: int
    """Executions that opened a cursor."""
    early_closes: int
    no_index: int
    """Executions for which the server said that they used no index."""
    rows: int
    rows_median: float
    """Of an execution, all its fetches together."""
    fetch_size: float | None
    """The median."""
    round_trips: int
    time_us: int
    """Of all its exchanges, without client gaps. This and the next three have what leads a flight of PostgreSQL's with them."""
    server_us: int
    """Of executions and fetches, without the network."""
    server_us_median: float
    """Of one execution."""
    text_server_us: int
    """Of executions as text, without the network."""
    prepare_us: int
    """From here on with the client gaps before them."""
    prepare_again_us: int
    close_us: int
    fetch_us: int
    cursor_us: int
    """Of executions that opened a cursor, and of all fetches."""

    @property
    def executions(self) -> int:
        return self.as_text + self.executes


class Loop(Value):
    """All runs of one length in which a transaction executes one statement again and again, by itself or among a few others."""

    statement: str
    verb: str
    length: int
    body: int
    """Statements from one execution to the next, at most: 1, where there is no other between."""
    runs: int
    again_us: int
    """Of all executions but each run's first, with the gaps before them."""
    gap_us_median: float
    exchange_us_median: float
    changed_median: float | None
    """Parameters or literals that differ from the execution before; None: not comparable."""
    affected_median: float


class Kind(Value):
    """All transactions that execute the same statements, however often each."""

    transactions: int
    requests: int
    gap_us: int
    gap_us_typical: float
    """The median over its transactions of the mean gap between two flights: what keeps a client from its CPU now and then
    does not show in it."""


class Followed(Value):
    """What a transaction executes after an ordered select without a limit, until the next one of these."""

    statement: str
    then: str
    times: int


Chat = Literal["SET", "SHOW", "USE", "SAVEPOINT", "ping", "reset", "session variables", "test query", "statistics"]


class Chatter(Value):
    """Requests that ask or change the session and touch no row of a table."""

    what: Chat
    requests: int
    round_trips: int
    time_us: int
    """With the client gaps before them."""
    example: str | None
    """The most frequent text."""


class SmallRequests(Value):
    """Requests and answers that fit into one TCP segment."""

    requests: int
    split: int
    """Requests that did not come at once."""
    split_us: int
    """From their first byte to their last."""
    stalls: int
    """Of 35 to 45 ms between the first and the last byte of a request or an answer: TCP's delayed acknowledgement is 40 ms."""
    stall_us: int


class Logins(Value):
    """Connections that began within the capture."""

    logins: int
    again: int
    """Beyond the most connections that were open at once: a pool that opens its connections has none."""
    round_trips: int
    login_us_median: float
    """From the first byte to the first request."""


class Definitions(Value):
    """Descriptions of columns in answers."""

    definition_bytes: int
    bytes_received: int
    large_answers: int
    """Answers whose descriptions alone fill a TCP segment."""
    large_us: float
    """Of those, the part of their time that their descriptions are of their bytes."""


class LockErrors(Value):
    """Transactions in which a statement ended because of a lock."""

    deadlocks: int
    timeouts: int
    serialization: int
    transactions: int
    time_us: int


class ServerStatement(Value):
    """What the server counted for one statement of the trace; all figures are of one execution.

    None: its log does not tell. Its own counters tell all.
    """

    statement: str
    executions: int
    wait_us: float
    lock_us: float | None
    rows_examined: float
    rows_sent: float
    rows_affected: float | None
    sort_rows: float | None
    temporary_tables: float | None
    temporary_disk_tables: float | None
    no_index: float | None


class BufferPool(Value):
    """What InnoDB counted of its buffer pool since the server's start."""

    pages: int
    page_bytes: int
    requests: int
    """Reads of a page, from the pool or the disk."""
    misses: int
    """Those that waited for the disk."""
    pages_read: int
    """From the disk, with what was read ahead."""
    read_us: float | None
    """Of reading data files; None: not counted."""
    statements_us: float
    """Of all statements."""


class ServerFacts(Value):
    """The server's side."""

    version: str
    statements: tuple[ServerStatement, ...]
    """Those of the trace that the server counted."""
    why_none: str | None = None
    """Why it counts no statements; None: it does."""
    pool: BufferPool | None = None
    """None: the server has no such counters."""


class Evidence(Value):
    """What rules look at. Rules about plans have their own beside it."""

    trace: TraceFacts
    budget: Budget
    clients: tuple[Client, ...]
    """Most time first."""
    statements: tuple[Statement, ...]
    """Most time first."""
    loops: tuple[Loop, ...]
    kinds: tuple[Kind, ...]
    """Of transactions with several requests, the largest gaps first."""
    followed: tuple[Followed, ...]
    chatter: tuple[Chatter, ...]
    small: SmallRequests
    logins: Logins
    definitions: Definitions
    lock_errors: LockErrors
    widest_transaction: int
    """Requests of the longest transaction."""
    commits: int
    commit_us_median: float
    """Without its network."""
    logged: tuple[ServerStatement, ...] = ()
    """What the server's log says that it counted; empty for a capture."""
    server: ServerFacts | None = None
    """None: it was not asked."""

    def text_of(self, statement: str) -> str:
        """A statement's normalised text."""
        return next((each.text for each in self.statements if each.statement == statement), "")
