"""What plans give away: the rules P2 to P8. Each looks at one statement's plans; ``judged`` puts the findings together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from upshift.stack.plans import text
from upshift.stack.plans.compare import CLUSTERED, compare, covers
from upshift.stack.plans.model import Node, Plan, accesses, nodes
from upshift.stack.plans.walks import by_name, cut_short, estimate_and_count, examined
from upshift.stack.suspects.model import Accused, Figure, Finding, Fix, Innocent, Outcome, Unit, Unseen
from upshift.stack.suspects.thresholds import Thresholds
from upshift.values import Value

_NOT_FOUND_BY_INDEX = ("full_scan", "index_scan")
_CONVERSIONS = (1739, 1740)
"""MySQL: an index cannot be used for a lookup or a range "due to type or collation conversion"."""
_MARIADB_NOTE = 1105
_LOWER, _UPPER = (">", ">="), ("<", "<=")


class Asked(Value):
    """A statement with its plan, and with the other server's where there are two."""

    statement: str
    """16 hexadecimal digits, as in the trace."""
    text: str
    share: float
    """Its part of the time of all statements that were looked at."""
    plan: Plan
    other: Plan | None = None


class Seen(NamedTuple):
    """Evidence in one statement's plans. ``counted``: by an execution, else estimated."""

    said: str
    figures: tuple[Figure, ...]
    counted: bool


Look = Callable[[Asked, Thresholds], Seen | None]


def _figure(name: str, value: float, unit: Unit = "rows", threshold: str | None = None) -> Figure:
    return Figure(name=name, value=value, unit=unit, threshold=threshold)


def _of(asked: Asked) -> Iterable[tuple[Plan, str]]:
    """The plans of a statement, each with the words that tell it from the other."""
    if asked.other is None:
        return ((asked.plan, ""),)
    return ((asked.plan, " on A"), (asked.other, " on B"))


def no_index(asked: Asked, thresholds: Thresholds) -> Seen | None:
    """P2: all rows of a table or all entries of an index are read, and hardly any is wanted."""
    worst: Seen | None = None
    most = 0.0
    for plan, where in _of(asked):
        for node in accesses(plan.tree):
            if node.access not in _NOT_FOUND_BY_INDEX or node.filter is None:
                continue
            counted = bool(node.loops)
            read, left = (node.actual_read, node.actual_rows) if counted else (node.estimated_read, node.estimated_rows)
            if read is None or left is None or not read:
                continue
            rows, removed = read * (node.loops or 1.0), 1 - left / read
            # 1,992 of 19,923 rows is how MySQL rounds its guess of a tenth.
            if rows < thresholds["P2.rows"] or round(removed, 3) < thresholds["P2.removed"] or rows <= most:
                continue
            said = f"{node.name}{where}: {rows:,.0f} rows read without an index to find them, {removed:.1%} of them removed"
            figures = (
                _figure("rows_read", rows, threshold="P2.rows"),
                _figure("removed", removed, "share", "P2.removed"),
            )
            worst, most = Seen(said, figures, counted), rows
    return worst


def sorts(asked: Asked, thresholds: Thresholds) -> Seen | None:
    """P3: a sort or a temporary table of many rows, or on disk."""
    worst: Seen | None = None
    most = -1.0
    for plan, where in _of(asked):
        for node in nodes(plan.tree):
            sort = node.sort
            if sort is None and not node.temporary:
                continue
            counted = bool(node.loops)
            kept = sort.rows if sort else node.actual_rows if counted else node.estimated_rows
            rows = (kept or 0.0) * (node.loops or 1.0)
            spilled = plan.sort_merge_passes if sort else plan.disk_tables
            on_disk = bool(sort.on_disk if sort else node.temporary_on_disk) or bool(spilled)
            if (rows < thresholds["P3.rows"] and not on_disk) or rows <= most:
                continue
            what = f"a sort by {', '.join(sort.keys)}" if sort and sort.keys else "a sort" if sort else "a temporary table"
            said = f"{what}{where} of {rows:,.0f} rows{', on disk' if on_disk else ''}"
            figures = (
                _figure("rows_sorted" if sort else "rows_kept", rows, threshold="P3.rows"),
                _figure("on_disk", on_disk, ""),
            )
            worst, most = Seen(said, figures, counted or bool(spilled)), rows
    return worst


def conversion(asked: Asked, _thresholds: Thresholds) -> Seen | None:
    """P4: an index that the types of the two sides keep from being used."""
    for plan, where in _of(asked):
        told = [
            each.text
            for each in plan.notices
            if each.code in _CONVERSIONS or (each.code == _MARIADB_NOTE and each.text.startswith("Cannot use key"))
        ]
        if told:
            return Seen(f"the server says{where}: {told[0]}", (_figure("warnings", len(told), ""),), True)
        for node in accesses(plan.tree):
            if node.converted and node.access in _NOT_FOUND_BY_INDEX:
                said = (
                    f"{node.name}{where}: {', '.join(node.converted)} is converted before it is compared, and no index finds it"
                )
                return Seen(said, (_figure("columns", len(node.converted), ""),), False)
    return None


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
                return Seen(said, (_figure("look_ups", ups, threshold="P5.rows"),), bool(node.loops))
    return None


def _look_ups(node: Node) -> float:
    """Rows that are looked up beside the index that found them."""
    if node.covering:
        return node.heap_fetches or 0.0
    if covers(node):
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
        _figure("rows_examined_a", rows[0], threshold="P6.rows"),
        _figure("rows_examined_b", rows[1]),
        _figure("times", more / less, "times", "P6.times"),
        _figure("differences", len(differences), ""),
    )
    return Seen(said, figures, asked.plan.executed and asked.other.executed)


def lost_bound(asked: Asked, thresholds: Thresholds) -> Seen | None:
    """P7: a column has a lower and an upper bound in the condition, and the index is read with one of them."""
    for plan, where in _of(asked):
        for node in accesses(plan.tree):
            if node.index is None or node.bounds is None or len(node.bounds) > 1 + len(node.key_columns):
                continue
            conditions = [each for each in (node.filter, node.index_filter) if each]
            wanted = _sides([part for each in conditions for part in text.bounds(_untriggered(each))])
            for column, used in _sides(node.bounds).items():
                if len(used) != 1 or len(wanted.get(column, used)) != 2:
                    continue
                counted = bool(node.loops)
                read = max(node.actual_read or 0.0, node.estimated_read or 0.0)
                removed = read - (node.actual_rows or 0.0) if counted else read
                if removed < thresholds["P7.rows"]:
                    continue
                missing = "lower" if used == {"upper"} else "upper"
                said = f"{node.name}{where}: {node.index} is read without the {missing} bound of {column}"
                return Seen(said, (_figure("rows_read", read), _figure("left_out", removed, threshold="P7.rows")), counted)
    return None


def _untriggered(condition: str) -> str:
    """A condition of an outer join as it is written, without what switches it off for the rows that it makes."""
    inner = condition.removeprefix("trigcond(").removesuffix(")") if condition.startswith("trigcond(") else condition
    return inner


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
    for plan, where in _of(asked):
        for node, cut in cut_short(plan.tree):
            figures = estimate_and_count(node, plan.family) if node.reads_a_table else None
            if figures is None or node.access in ("const", "unique"):
                continue
            estimated, counted = figures
            over = estimated > counted
            # MariaDB's plans do not show a LIMIT: reading less than estimated means nothing there.
            if over and (cut or plan.family == "mariadb"):
                continue
            rows = estimated if over else counted * (node.loops or 1.0)
            times = max(estimated, 1.0) / max(counted, 1.0) if over else max(counted, 1.0) / max(estimated, 1.0)
            if rows < thresholds["P8.rows"] or times < farthest:
                continue
            said = f"{node.name}{where}: {estimated:,.0f} rows estimated, {counted:,.0f} counted"
            evidence = (
                _figure("estimated_rows", estimated),
                _figure("counted_rows", counted, threshold="P8.rows"),
                _figure("times", times, "times", "P8.times"),
            )
            worst, farthest = Seen(said, evidence, True), times
    return worst


def _any_plan(_asked: Asked) -> str | None:
    return None


def _two_plans(asked: Asked) -> str | None:
    return None if asked.other else "it needs the plans of two servers: `upshift stack compare`"


def _bounds_known(asked: Asked) -> str | None:
    found = [node for plan, _where in _of(asked) for node in accesses(plan.tree) if node.access == "range"]
    return "the server's plan does not say its ranges" if found and all(node.bounds is None for node in found) else None


def _executed(asked: Asked) -> str | None:
    ran = any(plan.executed for plan, _where in _of(asked))
    return None if ran else "it needs an execution: --execute"


class PlanRule(NamedTuple):
    look: Look
    blind: Callable[[Asked], str | None]
    """Why it sees nothing in these plans; None: it does."""
    looked_at: str
    fix: str
    limits: str


RULES: Mapping[str, PlanRule] = {
    "P2": PlanRule(
        no_index,
        _any_plan,
        "no table is read whole for few of its rows",
        "an index on the columns of the filter",
        "An index costs writes and memory. Without an execution the rows that a filter leaves are the server's guess.",
    ),
    "P3": PlanRule(
        sorts,
        _any_plan,
        "no large sort or temporary table, and none on disk",
        "an index in the order of ORDER BY or GROUP BY; fewer rows or shorter ones before the sort; more memory for sorts",
        "A result that must be sorted and has no such index pays for it on every server.",
    ),
    "P4": PlanRule(
        conversion,
        _any_plan,
        "no index is kept from use by a conversion",
        "give the value in the type and collation of the column",
        "Both servers of the MySQL family say so themselves; of PostgreSQL it is read from the plan's condition.",
    ),
    "P5": PlanRule(
        not_covering,
        _two_plans,
        "no index covers on one server and not on the other",
        "the covering index on both servers; on PostgreSQL VACUUM, too, so that rows need not be looked at",
        "Rows in memory are looked up fast: what the look-ups cost is not counted.",
    ),
    "P6": PlanRule(
        another_plan,
        _two_plans,
        "plans are the same, or examine about as many rows",
        "the same indexes and fresh statistics on both; then the index or the order of tables that the better plan has",
        "Fewer rows need not be faster. Without an execution the rows are estimates of two servers.",
    ),
    "P7": PlanRule(
        lost_bound,
        _bounds_known,
        "each range has the bounds that its condition has",
        "write both bounds with constants or parameters on the bare column; look whether a newer version uses both",
        "A bound that depends on a row of another table cannot always be used.",
    ),
    "P8": PlanRule(
        statistics,
        _executed,
        "estimates are near what was counted",
        "ANALYZE the table; a histogram (MySQL, MariaDB) or extended statistics (PostgreSQL) where values are uneven",
        "A wrong estimate costs only where another plan would have been chosen.",
    ),
}


def judged(asked: tuple[Asked, ...], thresholds: Thresholds) -> tuple[Outcome, ...]:
    """The outcome of each rule over all statements: findings first, the largest share first."""
    outcomes = [_outcome(name, rule, asked, thresholds) for name, rule in RULES.items()]
    return tuple(sorted(outcomes, key=lambda each: (0, -each.share) if isinstance(each, Finding) else (1, 0.0)))


def _outcome(name: str, rule: PlanRule, asked: tuple[Asked, ...], thresholds: Thresholds) -> Outcome:
    reasons = [rule.blind(each) for each in asked]
    if not asked or all(reasons):
        return Unseen(suspect=name, why=next(filter(None, reasons), "no statement has a plan"))
    found = [(each, seen) for each in asked if (seen := rule.look(each, thresholds))]
    if not found:
        return Innocent(suspect=name, looked_at=f"{rule.looked_at} (statements: {reasons.count(None)})")
    found.sort(key=lambda pair: -pair[0].share)
    first = found[0][1]
    return Finding(
        suspect=name,
        share=min(1.0, sum(each.share for each, _seen in found)),
        status="counted" if all(seen.counted for _each, seen in found) else "inferred",
        said=first.said,
        evidence=first.figures,
        statements=tuple(
            Accused(statement=each.statement, text=each.text, share=each.share, figures=seen.figures) for each, seen in found
        ),
        fixes=(Fix(text=rule.fix),),
        limits=rule.limits,
    )
