"""What the plans of two servers give away beside each other: P5 and P6."""

from __future__ import annotations

from upshift.stack.plans.asked import Asked, Seen, figure
from upshift.stack.plans.compare import CLUSTERED, compare, covers
from upshift.stack.plans.model import Node, rows_examined
from upshift.stack.plans.walks import by_name, examined
from upshift.stack.suspects.thresholds import Thresholds


def not_covering(asked: Asked, thresholds: Thresholds) -> Seen | None:
    """P5: one server finds all in the index, the other looks rows up."""
    if asked.other is None:
        return None
    pair = ((asked.plan, asked.other, "A", "B"), (asked.other, asked.plan, "B", "A"))
    for covering, looking, first, second in pair:
        there = by_name(covering.tree)
        for name, node in by_name(looking.tree).items():
            beside = there.get(name)
            if beside is None or not beside.covering or beside.index == CLUSTERED or _look_ups(beside) >= thresholds["P5.rows"]:
                continue
            ups = _look_ups(node)
            if ups >= thresholds["P5.rows"]:
                said = f"{name}: {beside.index} covers the statement on {first}; on {second} {ups:,.0f} rows are looked up"
                return Seen(said, (figure("look_ups", ups, threshold="P5.rows"),), bool(node.loops))
    return None


def _look_ups(node: Node) -> float:
    """Rows that are looked up beside the index that found them."""
    if node.covering:
        return node.heap_fetches or 0.0
    if covers(node) or node.never_ran:
        return 0.0
    if node.loops:
        return node.examined or 0.0
    return node.estimated_read or node.estimated_rows or 0.0


def another_plan(asked: Asked, thresholds: Thresholds) -> Seen | None:
    """P6: the servers' plans differ, and one examines far more rows."""
    if asked.other is None or not (differences := compare(asked.plan.tree, asked.other.tree)):
        return None
    rows = examined(asked.plan), examined(asked.other)
    more, less = max(rows), max(1.0, min(rows))
    if more < thresholds["P6.rows"] or more / less < thresholds["P6.times"]:
        return None
    worse = "A" if rows[0] > rows[1] else "B"
    said = f"{worse} examines {more:,.0f} rows, the other {min(rows):,.0f}; {differences[0]}"
    figures = (
        figure("rows_examined_a", rows[0], threshold="P6.rows"),
        figure("rows_examined_b", rows[1]),
        figure("times", more / less, "times", "P6.times"),
        figure("differences", len(differences), ""),
    )
    return Seen(said, figures, all(rows_examined(each.tree) is not None for each in (asked.plan, asked.other)))
