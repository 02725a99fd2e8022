"""The canonical plan tree: what a server does for a statement, in words that hold for every server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from pydantic import Field

from upshift.values import Value

Family = Literal["mysql", "mariadb", "postgres"]

Operation = Literal[
    "access",
    "join",
    "filter",
    "sort",
    "aggregate",
    "distinct",
    "limit",
    "materialize",
    "union",
    "window",
    "subquery",
    "write",
    "rows",
    "other",
]

Access = Literal[
    "const", "unique", "ref", "range", "index_merge", "index_scan", "full_scan", "fulltext", "intermediate", "none", "unknown"
]
"""How rows are found. ``const``: at most one row, by a unique key and constants. ``unique``: at most one row for each row of
another table. ``ref``: the rows with equal values in the first columns of an index. ``range``: rows between bounds, or of a
list. ``index_merge``: several indexes at once. ``index_scan``, ``full_scan``: all entries of an index, all rows.
``fulltext``: a full-text index. ``intermediate``: rows that the statement made itself. ``none``: no row is read."""

Method = Literal["nested_loop", "hash", "merge", "buffered"]
JoinKind = Literal["inner", "left", "right", "full", "semi", "anti"]


class Join(Value):
    """How the rows of two children meet."""

    kind: JoinKind
    method: Method


class Sort(Value):
    """A sort. ``rows`` went into it in each loop, as far as the server says or its child does."""

    keys: tuple[str, ...] = ()
    rows: float | None = None
    on_disk: bool | None = None
    limit: int | None = None


class Node(Value):
    """One step. Its children's rows go into it, in the order in which they are read: of a join, the outer or built side first.

    Rows, estimated or counted, are those of one loop, as servers print them. ``estimated_read`` and ``actual_read`` go into
    its filter, ``estimated_rows`` and ``actual_rows`` come out. None: the server does not say.
    """

    operation: Operation
    said: str = ""
    """The server's own words."""
    table: str | None = None
    """Where the server shows only an alias, that."""
    alias: str | None = None
    access: Access | None = None
    index: str | None = None
    key_columns: tuple[str, ...] = ()
    """The first columns of the index that find rows."""
    bounds: tuple[str, ...] | None = None
    """Conditions that hold for all rows that the index finds, as ``column operator value``; None: the server does not say."""
    covering: bool | None = None
    """Whether the index has all that the statement needs of the table; None: no index, or the server does not say."""
    index_filter: str | None = None
    """What is checked on the index's entries before the rows are looked up."""
    filter: str | None = None
    """What is checked on the rows."""
    estimated_rows: float | None = None
    estimated_read: float | None = None
    estimated_cost: float | None = None
    """In the server's own unit; costs of two servers cannot be compared."""
    actual_rows: float | None = None
    actual_read: float | None = None
    loops: float | None = None
    """None: not executed. 0: never reached."""
    total_ms: float | None = None
    """Until the last row of one loop, its children's time with it."""
    join: Join | None = None
    sort: Sort | None = None
    temporary: bool = False
    """Whether its rows are kept in a temporary table or a hash table of groups."""
    temporary_on_disk: bool | None = None
    limit: int | None = None
    converted: tuple[str, ...] = ()
    """PostgreSQL: columns whose type is converted before the filter compares them."""
    heap_fetches: float | None = None
    """PostgreSQL: rows of a covering access that were looked up in the table after all, of all loops."""
    more: dict[str, str] = Field(default_factory=dict)
    """Members of the server's answer that have no place above, as text."""
    children: tuple[Node, ...] = ()

    @property
    def name(self) -> str:
        """What the statement calls its table."""
        return self.alias or self.table or ""

    @property
    def reads_a_table(self) -> bool:
        """Whether it reads a table of the database, not rows that the statement made."""
        return self.operation == "access" and self.access not in (None, "intermediate", "none")

    @property
    def never_ran(self) -> bool:
        """Whether the execution did not reach it: what it would have done cost nothing."""
        return self.loops == 0

    @property
    def examined(self) -> float | None:
        """Rows that it read in all loops; None where it was not executed."""
        if self.access == "const" and self.actual_read is None and self.actual_rows is None:
            return None if self.loops is None else 1.0
        read = self.actual_read if self.actual_read is not None else self.actual_rows
        return None if read is None or self.loops is None else read * self.loops


class Notice(Value):
    """A warning that the server gave beside a plan."""

    code: int
    text: str


class Plan(Value):
    """A statement's plan on one server."""

    family: Family
    version: str = ""
    tree: Node
    executed: bool = False
    execution_ms: float | None = None
    notices: tuple[Notice, ...] = ()
    planning_ms: float | None = None
    """Of an execution, what chose the plan; None: the server does not say."""
    whole_ms: float | None = None
    """Of the same execution from its text to its last row."""
    sort_merge_passes: int | None = None
    """MySQL, MariaDB: runs of sorts on disk that were merged by the execution; None: not counted."""
    disk_tables: int | None = None
    """MySQL, MariaDB: temporary tables on disk that the execution made; None: not counted."""


def nodes(tree: Node) -> Iterator[Node]:
    """Every node, each before its children, children in their order."""
    yield tree
    for child in tree.children:
        yield from nodes(child)


def accesses(tree: Node) -> tuple[Node, ...]:
    """Every access to a table, in the order in which the tables are read."""
    return tuple(each for each in nodes(tree) if each.reads_a_table)


def rows_examined(tree: Node) -> float | None:
    """Rows of tables that an execution read; None where the statement was not executed, or the server does not count them."""
    every = accesses(tree)
    if all(each.loops is None for each in nodes(tree)) or any(each.loops and each.examined is None for each in every):
        return None
    return sum(each.examined or 0.0 for each in every)
