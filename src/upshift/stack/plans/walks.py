"""Questions to a canonical tree that need more than one node."""

from __future__ import annotations

import re
from collections.abc import Iterator

from upshift.stack.plans.members import number
from upshift.stack.plans.model import Family, Node, Plan, accesses, nodes, rows_examined

_READS_ALL = ("sort", "aggregate", "materialize", "distinct", "window", "union")
_LIMIT = re.compile(r"Limit(?:/Offset)?: (\d+)(?:/(\d+))?")
_PASSES_ON = ("limit", "filter", "rows")
"""Operations that read no more of their input than is read of them."""


def cut_short(tree: Node, cut: bool = False) -> Iterator[tuple[Node, bool]]:
    """Every node, and whether something above it may have stopped reading it before its last row."""
    yield tree, cut
    below = (cut and tree.operation not in _READS_ALL) or tree.limit is not None or tree.operation == "limit"
    for at, child in enumerate(tree.children):
        # The first match of a semijoin is enough; a merge join ends with the shorter side.
        early = tree.join is not None and ((tree.join.kind in ("semi", "anti") and at > 0) or tree.join.method == "merge")
        yield from cut_short(child, below or early or child.operation == "subquery")


def taken(tree: Node, most: float | None = None) -> Iterator[tuple[Node, float | None]]:
    """Every node, and how many of its rows a LIMIT above it is estimated to take; None: all of them, or nobody knows.

    What stands between the two and reads all of its input, or may do so, takes all rows. So does what may run once for each row
    of another step: a part of a join, a subquery.
    """
    yield tree, most
    if tree.operation == "limit" and (wanted := _wanted(tree)) is not None:
        most = wanted if most is None else min(most, wanted)
    passes_on = tree.operation in _PASSES_ON or tree.said.startswith("Gather")
    for child in tree.children:
        if tree.join is not None or child.operation == "subquery":
            yield from ((each, None) for each in nodes(child))
        else:
            yield from taken(child, _taken_below(tree, child, most) if passes_on and most is not None else None)


def _taken_below(tree: Node, child: Node, most: float) -> float | None:
    if tree.operation == "limit":
        return most
    return most * child.estimated_rows / tree.estimated_rows if child.estimated_rows and tree.estimated_rows else None


def _wanted(limit: Node) -> float | None:
    """Rows that a LIMIT reads, those that its OFFSET leaves out among them."""
    # MySQL's words have both numbers. PostgreSQL's plan has none, but its costs are those of all rows that are read.
    if words := _LIMIT.match(limit.said):
        return float(words[1]) + float(words[2] or 0)
    own = limit.estimated_rows if limit.limit is None else float(limit.limit)
    below = limit.children[0] if limit.children else None
    if own is None or below is None or not (limit.estimated_cost and below.estimated_cost and below.estimated_rows):
        return own
    return max(own, below.estimated_rows * limit.estimated_cost / below.estimated_cost)


def estimated_examined(tree: Node, times: float = 1.0) -> float:
    """Rows that the plan is estimated to read; what has no estimate counts nothing."""
    own = 0.0
    if tree.reads_a_table:
        own = times * ((tree.estimated_read if tree.estimated_read is not None else tree.estimated_rows) or 0.0)
    times = 1.0 if _is_filled_once(tree) else times * _processes(tree)
    for at, child in enumerate(tree.children):
        looped = tree.join is not None and tree.join.method == "nested_loop" and at > 0
        outer = tree.children[0].estimated_rows if looped else None
        own += estimated_examined(child, times * max(1.0, outer) if outer is not None else times)
    return own


def _is_filled_once(tree: Node) -> bool:
    """Whether its rows are kept, and read again from there however often that is.

    MySQL fills its "Temporary table" each time, and what it invalidates; PostgreSQL's Memoize keeps the rows of some values.
    """
    return (
        tree.operation == "materialize"
        and tree.said not in ("Temporary table", "Memoize")
        and "(invalidate on row from" not in tree.said
    )


def processes(workers: float) -> float:
    """By what PostgreSQL divides the rows of a parallel scan: the leader takes a part of its own, less with more workers."""
    return workers + max(0.0, 1.0 - 0.3 * workers)


def _processes(tree: Node) -> float:
    """How many processes do what is below it: PostgreSQL's estimates there are those of one."""
    planned = number(tree.more.get("Workers Planned")) if tree.said.startswith("Gather") else None
    return processes(planned) if planned and tree.more.get("Single Copy") != "true" else 1.0


def rows_kept(tree: Node) -> float:
    """Rows that an executed sort or temporary table took in, all of its loops together: reading them again adds none."""
    kept, loops = tree.sort.rows if tree.sort else tree.actual_rows, tree.loops or 0.0
    below = next((each for each in tree.children if each.operation != "subquery"), None)
    if below is not None and below.loops is not None and below.loops < loops:
        loops = below.loops
        kept = below.actual_rows if tree.operation == "materialize" else kept
    return (kept or 0.0) * loops


def examined(plan: Plan) -> float:
    """Rows of tables that the plan read, or is estimated to."""
    counted = rows_examined(plan.tree) if plan.executed else None
    return counted if counted is not None else estimated_examined(plan.tree)


def estimate_and_count(node: Node, family: Family) -> tuple[float, float] | None:
    """Rows of one loop as estimated and as counted; None where one of both is not known.

    PostgreSQL's statistics know of values: its estimate of what a filter leaves counts. What MySQL and MariaDB estimate of a
    filter on a column without a histogram is a constant: their estimate of what is read counts.
    """
    if not node.loops:
        return None
    estimated, counted = (
        (node.estimated_rows, node.actual_rows) if family == "postgres" else (node.estimated_read, node.actual_read)
    )
    return None if estimated is None or counted is None else (estimated, counted)


def by_name(tree: Node) -> dict[str, Node]:
    """The access to each table that the statement names once."""
    every = accesses(tree)
    names = [each.name for each in every]
    return {each.name: each for each in every if names.count(each.name) == 1}
