"""What differs between two plans of one statement, on two servers or on one at two times."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Literal

from upshift.stack.plans import text
from upshift.stack.plans.model import Node, accesses, nodes
from upshift.values import Value

What = Literal["tables", "order", "access", "index", "bounds", "covering", "join"]
_ONE_ROW = ("const", "unique")
CLUSTERED = "PRIMARY"
"""MySQL's and MariaDB's name of the primary key, in which InnoDB keeps whole rows: they are not looked up elsewhere."""


class Difference(Value):
    """One thing in which two plans differ."""

    what: What
    table: str
    """As the statement calls it; empty: of the plan as a whole."""
    a: str
    b: str

    def __str__(self) -> str:
        return f"{self.what}{f' of {self.table}' if self.table else ''}: {self.a} | {self.b}"


def compare(a: Node, b: Node) -> tuple[Difference, ...]:
    """In what two plans differ; empty: they are the same. Estimates, costs and figures of an execution do not count.

    ``const`` and ``unique`` are the same: whether a value is known beforehand is how a server tells its plan. Values of bounds
    do not count, since servers write them in ways of their own; columns and operators do. What one of the two does not say is
    no difference, nor is what one of them knows without a plan: a row that is not there, the least value of an index.
    """
    return tuple(_differences(a, b))


def _differences(a: Node, b: Node) -> Iterator[Difference]:
    left, right = _by_name(a), _by_name(b)
    if not left or not right:
        return
    if left.keys() != right.keys():
        only_a, only_b = (
            ", ".join(_named(key) for key in one if key not in two) for one, two in ((left, right), (right, left))
        )
        yield Difference(what="tables", table="", a=only_a or "-", b=only_b or "-")
    orders = [
        [_named(key) for key, node in one.items() if key in left and key in right and not _early(key, left, right)]
        for one in (left, right)
    ]
    if orders[0] != orders[1]:
        yield Difference(what="order", table="", a=", ".join(orders[0]), b=", ".join(orders[1]))
    for key in left:
        if key in right:
            yield from _of_access(left[key], right[key])
    joins = [[each.join.method for each in nodes(one) if each.join and each.said != "constant table"] for one in (a, b)]
    # The plan of a constant table has no join step on MySQL: only methods beside nested loops tell plans apart.
    methods = [sorted(method for method in one if method != "nested_loop") for one in joins]
    if methods[0] != methods[1]:
        yield Difference(
            what="join", table="", a=", ".join(methods[0]) or "nested_loop", b=", ".join(methods[1]) or "nested_loop"
        )


def _by_name(tree: Node) -> dict[tuple[str, int], Node]:
    """Accesses by what the statement calls the table, and the how manieth of that name it is; in the order of reading."""
    seen: Counter[str] = Counter()
    found: dict[tuple[str, int], Node] = {}
    for each in accesses(tree):
        found[each.name, seen[each.name]] = each
        seen[each.name] += 1
    return found


def _named(key: tuple[str, int]) -> str:
    return key[0] if key[1] == 0 else f"{key[0]} ({key[1] + 1})"


def _early(key: tuple[str, int], left: dict[tuple[str, int], Node], right: dict[tuple[str, int], Node]) -> bool:
    """Whether a table is one row that is read before all others, wherever the plan shows it."""
    return "const" in (left[key].access, right[key].access)


def _of_access(a: Node, b: Node) -> Iterator[Difference]:
    if a.access != b.access and not (a.access in _ONE_ROW and b.access in _ONE_ROW):
        yield Difference(what="access", table=a.name, a=described(a), b=described(b))
        return
    if not same_index(a, b):
        yield Difference(what="index", table=a.name, a=a.index or "-", b=b.index or "-")
        return
    if (shapes := (shape(a), shape(b)))[0] != shapes[1] and None not in shapes:
        yield Difference(what="bounds", table=a.name, a=", ".join(a.bounds or ()) or "-", b=", ".join(b.bounds or ()) or "-")
    if covers(a) != covers(b) and CLUSTERED not in (a.index, b.index):
        yield Difference(what="covering", table=a.name, a=_covering(a), b=_covering(b))


def described(node: Node) -> str:
    """``range using orders_created``."""
    return f"{node.access}{f' using {node.index}' if node.index else ''}"


def same_index(a: Node, b: Node) -> bool:
    """Whether two accesses use one index, also where servers name it differently: a primary key by its columns."""
    if a.index == b.index:
        return True
    names = {a.index or "", b.index or ""}
    if CLUSTERED not in names:
        return False
    other = (names - {CLUSTERED}).pop()
    return other.endswith(("_pkey", "_pk")) or (bool(a.key_columns) and a.key_columns == b.key_columns)


def shape(node: Node) -> frozenset[tuple[str, str]] | None:
    """Columns and operators of the bounds; None where the server does not say them, or says what is no list of bounds."""
    if node.bounds is None:
        return None
    found = [text.bound(each) for each in node.bounds]
    if any(each is None for each in found):
        return None
    return frozenset((each.column, each.operator) for each in found if each and each.operator != "is not null")


def covers(node: Node) -> bool:
    """Whether no row is looked up beside the index."""
    return bool(node.covering) or node.index == CLUSTERED or node.index is None or node.access in _ONE_ROW


def _covering(node: Node) -> str:
    return "covering" if covers(node) else "looks rows up"
