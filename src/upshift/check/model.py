"""What a check knows of a server, and what it makes of it: frozen values, so that rules are pure and tests need no server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from upshift.card.model import Card
from upshift.server.huge_text import Text
from upshift.values import Value

Family = Literal["mysql", "mariadb"]
Section = Literal[
    "tables",
    "all tables",
    "indexes",
    "columns",
    "statistics",
    "index use",
    "instruments",
    "metrics",
    "transactions",
    "statements",
    "machine",
    "network",
    "file system",
    "disk",
    "disk speed",
    "text",
    "card",
    "persisted variables",
]
"""A part of the facts that a login, a server or a machine may keep from us."""
Severity = Literal["error", "warning", "note"]
"""error: data or the service is at risk; warning: it costs speed or will; note: worth knowing."""
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")
BY_SET = "a SET"
"""Where a value comes from that a statement set: a restart may undo it."""
BY_PERSIST = "SET PERSIST"
"""Where a value comes from that mysqld-auto.cnf has: it overrides option files and the command line."""
BY_COMMAND_LINE = "the command line"
"""It overrides option files."""
Cause = Literal[
    "memory",
    "durability",
    "I/O",
    "connections",
    "temporary tables",
    "caches",
    "schema",
    "statistics",
    "character sets",
    "transactions",
    "observation",
]


class Table(Value):
    """One table of the user's, from information_schema.tables."""

    schema_name: str
    name: str
    engine: str
    row_format: str
    rows: int
    data_bytes: int
    index_bytes: int
    free_bytes: int
    auto_increment: int | None
    collation: str
    options: str
    """Its ``create_options``: ``row_format=COMPACT stats_auto_recalc=0``."""

    @property
    def partitioned(self) -> bool:
        return "partitioned" in self.options.lower().split()


class IndexColumn(Value):
    name: str
    """Empty for a part that is an expression."""
    prefix: int | None
    """Characters that are indexed, where not all are."""
    descending: bool
    nullable: bool


class Index(Value):
    schema_name: str
    table: str
    name: str
    unique: bool
    kind: str
    """``BTREE``, ``FULLTEXT``, ``SPATIAL``, ``HASH``."""
    visible: bool
    columns: tuple[IndexColumn, ...]

    @property
    def primary(self) -> bool:
        return self.name == "PRIMARY"


class Column(Value):
    """A column that counts by itself, or that has a character set."""

    schema_name: str
    table: str
    name: str
    type: str
    """As in information_schema.columns.column_type: ``int unsigned``."""
    charset: str
    """Empty without one."""
    counts: bool
    """Whether it is AUTO_INCREMENT."""
    extra: str = ""
    """As in information_schema.columns.extra, and the attributes that it has for engines: ``auto_increment INVISIBLE``."""
    comment: str = ""


class StoredStatistics(Value):
    """A row of mysql.innodb_table_stats."""

    schema_name: str
    table: str
    rows: int
    age_s: int


class IndexUse(Value):
    """How often an index was read since the server's start, from performance_schema."""

    schema_name: str
    table: str
    index: str
    reads: int


class Transaction(Value):
    """One that is open, from information_schema.innodb_trx."""

    thread: int
    """Of its connection; 0 without one: a prepared XA transaction, or one that the server rolls back after a crash."""
    age_s: int
    rows_modified: int


class Running(Value):
    """A statement that is being executed."""

    thread: int
    age_s: int
    verb: str


class Disk(Value):
    """Where the data folder lies."""

    device: str
    rotational: bool | None
    """None: the kernel does not say, or the disk is virtual, whose word for it is worth nothing."""
    called_rotational: bool | None = None
    """What the kernel says, whatever it is worth. MariaDB believes it."""
    file_system_number: int
    """As stat has it: a folder with the same number lies on the same file system."""
    scheduler: str
    """The one in brackets; empty without one."""
    file_system: str
    mount_options: tuple[str, ...]
    free_bytes: int
    size_bytes: int


class Host(Value):
    """The machine that the server runs on, as the server's process sees it."""

    memory_bytes: int
    """What the server may use: the machine's memory, or the least limit of its control groups."""
    limited: bool
    """Whether a control group gives it less than the machine has."""
    resident_bytes: int
    swapped_bytes: int
    swap_bytes: int
    others_bytes: int
    """Resident memory of the machine's other processes."""
    cpus: float
    """That it may use: by its affinity, and a quota of its control groups."""
    numa_nodes: int
    swappiness: int
    huge_pages: str
    """Transparent huge pages: ``always``, ``madvise``, ``never``; empty where the kernel has none."""
    somaxconn: int | None
    """None: the server has a network of its own, and this one's setting does not hold for it."""
    disk: Disk | None
    thread_pool: bool
    """Whether ``thread_pool.so`` lies in the server's plugin folder."""
    text: Text | None = None
    """None: this user may not look at the server's memory."""
    idle_poll_ns: int | None = None
    """How long an idle CPU of a virtual machine polls before it halts; None where the kernel's governor is not haltpoll."""
    program: str = ""
    """The file that the process executes; empty where that cannot be seen."""
    unit: str = ""
    """The system's unit that started it, such as ``mysqld.service``; empty where none did."""


class Facts(Value):
    """All that was read of one server."""

    family: Family
    version: tuple[int, int, int]
    version_text: str
    variables: Mapping[str, str]
    """Global variables."""
    status: Mapping[str, str]
    """Global status, names in lower case."""
    origins: Mapping[str, str] = {}
    """Where a variable's value comes from: a file, ``BY_COMMAND_LINE``, ``BY_SET``, ``BY_PERSIST``; by default those that are
    not named."""
    threads_running: tuple[int, ...] = ()
    """Several looks, some tenths of a second apart, without the thread that looks."""
    tables: tuple[Table, ...] = ()
    indexes: tuple[Index, ...] = ()
    columns: tuple[Column, ...] = ()
    references: tuple[tuple[str, str, str], ...] = ()
    """Columns of foreign keys: schema, table, column. Their indexes may not go."""
    statistics: tuple[StoredStatistics, ...] = ()
    index_use: tuple[IndexUse, ...] = ()
    instruments: int = 0
    """Instruments of performance_schema for waits (``wait/synch``) that are enabled and timed."""
    performance_schema_bytes: int = 0
    metrics: Mapping[str, int] = {}
    """Of information_schema.innodb_metrics."""
    transactions: tuple[Transaction, ...] = ()
    statements: tuple[Running, ...] = ()
    host: Host | None = None
    card: Card | None = None
    """What the machine costs a server, where somebody measured it. Its disk is the data's unless ``disk speed`` is unseen."""
    unseen: Mapping[Section, str] = {}
    """The parts that could not be read, and why."""

    def text(self, name: str) -> str:
        return self.variables[name]

    def number(self, name: str) -> int:
        """A variable's number. Raises ValueError for one that is none."""
        return int(float(self.variables[name]))

    def on(self, name: str) -> bool:
        return self.variables[name].upper() in ("ON", "1", "YES")

    def counted(self, name: str) -> int:
        """A status counter; 0 for one that this server does not have."""
        try:
            return int(float(self.status.get(name, "0")))
        except ValueError:
            return 0

    @property
    def counted_s(self) -> int:
        """Seconds that all status counters cover."""
        up = self.counted("uptime")
        return min(up, self.counted("uptime_since_flush_status") or up)

    def a_second(self, name: str) -> float:
        """A status counter's mean since it was 0. FLUSH STATUS resets Max_used_connections and those of the binary log's cache,
        which have no rate here; MariaDB's FLUSH GLOBAL STATUS resets all but InnoDB's.
        """
        reset = self.family == "mariadb" and self.version >= (11, 5, 0) and not name.startswith("innodb_")
        return self.counted(name) / max(1, self.counted_s if reset else self.counted("uptime"))


class Found(Value):
    """What a rule's condition says when it holds."""

    evidence: str
    """The figures that it stands on, in one or two sentences."""
    settings: Mapping[str, str] = {}
    """The fix as settings for my.cnf: name, value."""
    now: Mapping[str, str] = {}
    """How it is, of those settings that no global variable shows."""
    beside: tuple[str, ...] = ()
    """Variables without whose values the fix would change nothing. Those that the server does not have do not count."""
    statements: tuple[str, ...] = ()
    """The fix as SQL."""
    commands: tuple[str, ...] = ()
    """The fix as commands for the machine's shell."""


class NothingKnown(Exception):
    """What a rule's condition raises where it cannot judge this server. Its text says why."""


class Finding(Value):
    """A rule that found something, with all that a reader needs to decide."""

    id: str
    title: str
    cause: Cause
    severity: Severity
    evidence: str
    my_cnf: tuple[str, ...]
    """Lines for the section [mysqld]; a restart applies them."""
    sql: tuple[str, ...]
    """Statements; SET PERSIST_ONLY for settings that an option file would not change, which a restart applies."""
    shell: tuple[str, ...]
    effect: str
    risk: str
    source: str
    provable: bool
    settings_now: Mapping[str, str]
    """What ``my_cnf`` and SET PERSIST_ONLY change, as it is."""
    settings_then: Mapping[str, str]
    settings_beside: Mapping[str, str] = {}
    """What ``--prove`` gives both servers beside these."""


class NotJudged(Value):
    """A rule that could say nothing, and why."""

    id: str
    title: str
    why: str


class Passed(Value):
    id: str
    title: str


class Report(Value):
    """What a check prints."""

    schema_version: int = 1
    server: str
    """Its address, without a login."""
    family: Family
    version: str
    uptime_s: int
    on_this_machine: bool
    findings: tuple[Finding, ...]
    """Worst first."""
    well: tuple[Passed, ...]
    not_judged: tuple[NotJudged, ...]
    unseen: Mapping[Section, str]
    ignored: tuple[str, ...]
    """Rules that ``--only`` and ``--ignore`` left out."""


class Checked(Value):
    """What the check before an ``optimize`` came to."""

    report: Report | None
    """None: none was made."""
    why_none: str = ""
    """Why not, in one sentence."""
    failed: bool = False
    """Whether one was asked for."""
