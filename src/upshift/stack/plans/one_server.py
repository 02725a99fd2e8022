"""What the plans of one server give away: P2, P3, P4, P7, P8, P9. Each looks at both plans where there are two."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from upshift.stack.plans import text
from upshift.stack.plans.asked import Asked, Seen, figure, plans_of
from upshift.stack.plans.model import Node, accesses, nodes
from upshift.stack.plans.walks import cut_short, estimate_and_count, rows_kept, taken
from upshift.stack.suspects.thresholds import Thresholds

_NOT_FOUND_BY_INDEX = ("full_scan", "index_scan")
_CONVERSIONS = (1739, 1740)
"""MySQL: an index cannot be used for a lookup or a range "due to type or collation conversion"."""
_MARIADB_NOTE = 1105
_LOWER, _UPPER = (">", ">="), ("<", "<=")


def no_index(asked: Asked, thresholds: Thresholds) -> Seen | None:
    """P2: all rows of a table or all entries of an index are read, and hardly any is wanted."""
    worst: Seen | None = None
    most = 0.0
    for plan, where in plans_of(asked):
        for node, most_taken in taken(plan.tree):
            if not node.reads_a_table or node.access not in _NOT_FOUND_BY_INDEX or node.filter is None or node.never_ran:
                continue
            counted = bool(node.loops)
            read, left = (node.actual_read, node.actual_rows) if counted else (node.estimated_read, node.estimated_rows)
            if read is None or left is None or not read:
                continue
            rows, removed = read * (node.loops or 1.0), 1 - left / read
            at_most = ""
            if most_taken is not None and most_taken < left and not counted:
                # PostgreSQL's statistics know of values. What MySQL estimates of a filter is mostly a constant, and LIMIT 1 of
                # a value that is there once, or not at all, reads the whole table.
                known = plan.family == "postgres"
                rows, at_most = (rows * most_taken / left, "") if known else (rows, "at most ")
            # 1,992 of 19,923 rows is how MySQL rounds its guess of a tenth.
            if rows < thresholds["P2.rows"] or round(removed, 3) < thresholds["P2.removed"] or rows <= most:
                continue
            read_rows = f"{at_most}{rows:,.0f} rows read without an index to find them"
            said = f"{node.name}{where}: {read_rows}, {removed:.1%} of them removed"
            figures = (
                figure("rows_read", rows, threshold="P2.rows"),
                figure("removed", removed, "share", "P2.removed"),
            )
            worst, most = Seen(said, figures, counted), rows
    return worst


def sorts(asked: Asked, thresholds: Thresholds) -> Seen | None:
    """P3: a sort or a temporary table of many rows, or on disk."""
    worst: Seen | None = None
    most = -1.0
    for plan, where in plans_of(asked):
        for node in nodes(plan.tree):
            sort = node.sort
            if (sort is None and not node.temporary) or node.never_ran:
                continue
            counted = bool(node.loops)
            rows = rows_kept(node) if counted else (sort.rows if sort else node.estimated_rows) or 0.0
            spilled = plan.sort_merge_passes if sort else plan.disk_tables
            on_disk = bool(sort.on_disk if sort else node.temporary_on_disk) or bool(spilled)
            if (rows < thresholds["P3.rows"] and not on_disk) or rows <= most:
                continue
            what = f"a sort by {', '.join(sort.keys)}" if sort and sort.keys else "a sort" if sort else "a temporary table"
            said = f"{what}{where} of {rows:,.0f} rows{', on disk' if on_disk else ''}"
            figures = (
                figure("rows_sorted" if sort else "rows_kept", rows, threshold="P3.rows"),
                figure("on_disk", on_disk, ""),
            )
            worst, most = Seen(said, figures, counted or bool(spilled)), rows
    return worst


def conversion(asked: Asked, _thresholds: Thresholds) -> Seen | None:
    """P4: an index that the types of the two sides keep from being used."""
    for plan, where in plans_of(asked):
        told = [
            each.text
            for each in plan.notices
            if each.code in _CONVERSIONS or (each.code == _MARIADB_NOTE and each.text.startswith("Cannot use key"))
        ]
        if told:
            return Seen(f"the server says{where}: {told[0]}", (figure("warnings", len(told), ""),), True)
        for node in accesses(plan.tree):
            if node.converted and node.access in _NOT_FOUND_BY_INDEX:
                said = (
                    f"{node.name}{where}: {', '.join(node.converted)} is converted before it is compared, and no index finds it"
                )
                return Seen(said, (figure("columns", len(node.converted), ""),), False)
    return None


def lost_bound(asked: Asked, thresholds: Thresholds) -> Seen | None:
    """P7: a column has a lower and an upper bound in the condition, and the index is read with one of them."""
    for plan, where in plans_of(asked):
        for node in accesses(plan.tree):
            if node.index is None or node.bounds is None or node.never_ran:
                continue
            wanted = _sides(_conditions(node))
            for column, used in _sides(node.bounds).items():
                # PostgreSQL's filter has the lost bound alone, MySQL's both.
                if len(used) != 1 or len(used | wanted.get(column, set())) != 2:
                    continue
                # MySQL counts the rows of an index after the condition that is checked on its entries.
                counted = bool(node.loops) and node.index_filter is None
                estimated = 0.0 if counted else node.estimated_read or 0.0
                loops = node.loops or 1.0
                read = loops * max(node.actual_read or 0.0, estimated)
                removed = read - loops * (node.actual_rows or 0.0) if node.loops else read
                if removed < thresholds["P7.rows"]:
                    continue
                missing = "lower" if used == {"upper"} else "upper"
                said = f"{node.name}{where}: {node.index} is read without the {missing} bound of {column}"
                return Seen(said, (figure("rows_read", read), figure("left_out", removed, threshold="P7.rows")), counted)
    return None


def _conditions(node: Node) -> Iterator[str]:
    """The parts of what is checked on the rows that are about the table itself, not about another that is joined."""
    for condition in filter(None, (node.filter, node.index_filter)):
        for part in text.parts(text.plain(_untriggered(condition))):
            table = text.qualifier(part)
            if table in ("", node.name, node.table):
                yield from text.bounds(part)


def _untriggered(condition: str) -> str:
    """A condition of an outer join as it is written, without what switches it off for the rows that it makes."""
    return condition.removeprefix("trigcond(").removesuffix(")") if condition.startswith("trigcond(") else condition


def _sides(bounds: Iterable[str]) -> Mapping[str, set[str]]:
    """Of each column, whether it has a lower bound, an upper bound, or both."""
    found: dict[str, set[str]] = {}
    for each in filter(None, map(text.bound, bounds)):
        side = "lower" if each.operator in _LOWER else "upper" if each.operator in _UPPER else None
        if side:
            found.setdefault(each.column, set()).add(side)
    return found


def statistics(asked: Asked, thresholds: Thresholds) -> Seen | None:
    """P8: the estimate is far from what an execution counted."""
    worst: Seen | None = None
    farthest = thresholds["P8.times"]
    for plan, where in plans_of(asked):
        for node, cut in cut_short(plan.tree):
            figures = estimate_and_count(node, plan.family) if node.reads_a_table else None
            if figures is None or node.access in ("const", "unique"):
                continue
            estimated, counted = figures
            over = estimated > counted
            # MariaDB's plans do not show a LIMIT: reading less than estimated means nothing there. MySQL counts the rows of an
            # index after the condition that is checked on its entries.
            if over and (cut or node.index_filter or plan.family == "mariadb"):
                continue
            rows = estimated if over else counted * (node.loops or 1.0)
            times = max(estimated, 1.0) / max(counted, 1.0) if over else max(counted, 1.0) / max(estimated, 1.0)
            if rows < thresholds["P8.rows"] or times < farthest:
                continue
            said = f"{node.name}{where}: {estimated:,.0f} rows estimated, {counted:,.0f} counted"
            evidence = (
                figure("estimated_rows", estimated),
                figure("counted_rows", counted, threshold="P8.rows"),
                figure("times", times, "times", "P8.times"),
            )
            worst, farthest = Seen(said, evidence, True), times
    return worst


def planning(asked: Asked, thresholds: Thresholds) -> Seen | None:
    """P9: the server takes a large part of the statement's time to choose its plan."""
    worst: Seen | None = None
    for plan, where in plans_of(asked):
        if plan.planning_ms is None or not plan.whole_ms:
            continue
        took_us, part = plan.planning_ms * 1000, plan.planning_ms / plan.whole_ms
        if part <= thresholds["P9.share"] or took_us < thresholds["P9.planning_us"] or (worst and worst.part >= part):
            continue
        figures = (
            figure("planning_us", took_us, "us", "P9.planning_us"),
            figure("planning_share", part, "share", "P9.share"),
            figure("whole_us", plan.whole_ms * 1000, "us"),
        )
        worst = Seen(f"the plan{where} took {took_us:,.0f} µs, {part:.0%} of the execution's time", figures, True, part)
    return worst
