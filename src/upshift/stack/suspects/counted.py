"""What the server's counters or its log say of each statement: rows examined (P1), no index (P2), temporary tables (P3)."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median

from upshift.stack.evidence import Evidence, ServerStatement, Statement
from upshift.stack.suspects.finding import DATA_VERBS, accused, count, figure, found, innocent, ratio, unseen
from upshift.stack.suspects.model import Figure, Finding, Outcome, Unit, Unseen
from upshift.stack.suspects.thresholds import Thresholds

_NO_INDEXES = (
    "only the server (--server), a capture, or a slow log with log_slow_extra=ON (MySQL) or log_slow_verbosity=query_plan "
    "(MariaDB) tells of indexes"
)


def _counted(evidence: Evidence) -> list[ServerStatement]:
    """What the server counted of statements that touch rows; where its log and its counters tell, the counters."""
    verbs = {each.statement: each.verb for each in evidence.statements if each.verb in DATA_VERBS and each.executions}
    of_server = evidence.server.statements if evidence.server else ()
    found = {each.statement: each for each in (*evidence.logged, *of_server)}
    # Of an UPDATE or DELETE whose changed rows are unknown, the rows examined say nothing: it may need all of them.
    return [
        each
        for each in found.values()
        if each.statement in verbs and (verbs[each.statement] == "select" or each.rows_affected is not None)
    ]


def _used(each: ServerStatement) -> float:
    return max(each.rows_sent, each.rows_affected or 0.0)


def _without_index(each: ServerStatement, thresholds: Thresholds) -> bool:
    removed = 1 - ratio(_used(each), each.rows_examined)
    many = each.rows_examined >= thresholds["P2.rows"]
    return (each.no_index or 0.0) >= 0.5 and many and removed >= thresholds["P2.removed"]


def _means(evidence: Evidence) -> str:
    """What the figures are."""
    if evidence.server and evidence.server.statements:
        return "The server's figures are means since its counters began."
    return "The figures are those of the log."


def examines_too_much(evidence: Evidence, thresholds: Thresholds) -> Outcome:
    """P1: many rows are read for each that is sent, although an index is used."""

    def guilty(each: ServerStatement) -> bool:
        much = each.rows_examined >= max(thresholds["P1.rows"], thresholds["P1.examined_per_sent"] * max(1.0, _used(each)))
        return much and not _without_index(each, thresholds)

    return _of_server(
        evidence,
        "P1",
        guilty,
        lambda each: (
            figure("rows_examined", each.rows_examined, "rows", "P1.rows"),
            figure("rows_sent", each.rows_sent, "rows", "P1.examined_per_sent"),
        ),
        said="with many rows examined for each that is sent",
        none="no statement examines many rows for each that it sends",
        limits=f"Aggregates read many rows by their nature. {_means(evidence)}{_of_indexes(evidence)}",
    )


def _of_indexes(evidence: Evidence) -> str:
    if all(each.no_index is not None for each in _counted(evidence)):
        return ""
    return " It does not say of each statement whether an index was used: P2 may be what is wrong."


def no_index(evidence: Evidence, thresholds: Thresholds) -> Outcome:
    """P2: whole tables are read, and most of their rows thrown away."""
    told = _of_server(
        evidence,
        "P2",
        lambda each: _without_index(each, thresholds),
        lambda each: (
            figure("rows_examined", each.rows_examined, "rows", "P2.rows"),
            figure("rows_sent", each.rows_sent, "rows", "P2.removed"),
        ),
        said="on large tables without an index",
        none="no statement reads a large table without an index",
        known=lambda each: each.no_index is not None,
        not_known=_NO_INDEXES,
        limits="The share is all of their time in the server. An index costs its upkeep with each change of the table.",
    )
    # For statements that the server did not count, there is the flag that comes with each answer.
    flagged = told if isinstance(told, Finding) else _flagged(evidence, thresholds)
    return flagged if isinstance(flagged, Finding) or isinstance(told, Unseen) else told


def _flagged(evidence: Evidence, thresholds: Thresholds) -> Outcome:
    """From the flag that MySQL and MariaDB send with an answer; it says nothing of how many rows."""
    if evidence.trace.family != "mysql":
        return unseen("P2", "PostgreSQL's answers do not tell of indexes")
    if evidence.trace.lacking("answers"):
        return unseen("P2", _NO_INDEXES)
    known = {each.statement for each in _counted(evidence)}
    flagged = [
        each
        for each in evidence.statements
        # A SHOW reads no table that could have an index.
        if each.verb in DATA_VERBS and ratio(each.no_index, each.executions) >= 0.5 and each.statement not in known
    ]
    least_us = _least_us(evidence, thresholds)
    guilty = [each for each in flagged if each.server_us_median >= least_us]
    if not guilty:
        within = f"{least_us:.0f} µs in the median"
        return innocent("P2", f"{count(len(flagged), 'statement')} without an index by the server's flag, each within {within}")
    time_us = sum(each.server_us for each in guilty)
    return found(
        evidence,
        "P2",
        share=evidence.budget.share(time_us),
        status="inferred",
        said=f"{count(len(guilty), 'statement')} for which the server flags that no index was used",
        figures=(
            figure("statements", len(guilty)),
            figure("executions_without_index", sum(each.no_index for each in guilty)),
            figure("server_us", time_us, "us"),
        ),
        statements=accused(
            evidence,
            guilty,
            lambda each: each.server_us,
            lambda each: (figure("server_us_median", each.server_us_median, "us", "P2.server_us"),),
        ),
        limits="Only the server knows how many rows were read: --server. The share is all of their time in the server.",
    )


def _least_us(evidence: Evidence, thresholds: Thresholds) -> float:
    """What an execution takes in the median at least, of a statement that reads a large table."""
    others = [
        each.server_us_median
        for each in evidence.statements
        if each.verb in DATA_VERBS and each.executions and not each.no_index
    ]
    return max(thresholds["P2.server_us"], thresholds["P2.times"] * median(others) if others else 0.0)


def sorts(evidence: Evidence, thresholds: Thresholds) -> Outcome:
    """P3: rows are sorted or put into temporary tables."""

    def guilty(each: ServerStatement) -> bool:
        many = (each.sort_rows or 0.0) >= thresholds["P3.rows"]
        return many or (each.temporary_disk_tables or 0.0) >= thresholds["P3.disk_tables"]

    return _of_server(
        evidence,
        "P3",
        guilty,
        _sorted,
        said="with sorts of many rows or temporary tables on disk",
        none="no statement sorts many rows or fills temporary tables on disk",
        known=_tells_sorts,
        not_known="the log does not tell how many rows are sorted: log_slow_extra=ON on MySQL",
        limits="The share is all of their time in the server. The counters do not show which part of it is the sort.",
    )


def sorts_known(evidence: Evidence) -> set[str]:
    """Statements of which a counter tells whether they sort: P3 asks no plan about them."""
    return {each.statement for each in _counted(evidence) if _tells_sorts(each)}


def _tells_sorts(each: ServerStatement) -> bool:
    return each.sort_rows is not None and each.temporary_disk_tables is not None


def _sorted(each: ServerStatement) -> tuple[Figure, ...]:
    """What is known of its sorts."""
    told: tuple[tuple[str, float | None, Unit, str | None], ...] = (
        ("sort_rows", each.sort_rows, "rows", "P3.rows"),
        ("temporary_tables", each.temporary_tables, "per_execution", None),
        ("temporary_disk_tables", each.temporary_disk_tables, "per_execution", "P3.disk_tables"),
    )
    return tuple(figure(name, value, unit, threshold) for name, value, unit, threshold in told if value is not None)


def _of_server(
    evidence: Evidence,
    suspect: str,
    guilty: Callable[[ServerStatement], bool],
    figures: Callable[[ServerStatement], tuple[Figure, ...]],
    *,
    said: str,
    none: str,
    limits: str,
    known: Callable[[ServerStatement], bool] = lambda _: True,
    not_known: str = "",
) -> Outcome:
    """``known`` says of which statements nothing is missing that a guilty one would show; ``not_known`` why there are none."""
    if evidence.trace.family == "postgres":
        return unseen(suspect, "PostgreSQL's statistics do not have rows examined")
    all_counted = _counted(evidence)
    if not all_counted:
        return unseen(suspect, _why_none(evidence))
    counted = {each.statement: each for each in all_counted if guilty(each)}
    if not counted:
        number = sum(map(known, all_counted))
        return (
            innocent(suspect, f"{none}, of {count(number, 'statement')} that the server counted")
            if number
            else unseen(suspect, not_known)
        )
    statements = [each for each in evidence.statements if each.statement in counted]

    def time_us(each: Statement) -> float:
        return each.server_us

    return found(
        evidence,
        suspect,
        share=evidence.budget.share(sum(map(time_us, statements))),
        status="counted",
        said=f"{count(len(statements), 'statement')} {said}",
        figures=(
            figure("statements", len(statements)),
            figure("executions", sum(each.executions for each in statements)),
            figure("server_us", sum(each.server_us for each in statements), "us"),
        ),
        statements=accused(evidence, statements, time_us, lambda each: figures(counted[each.statement])),
        limits=limits,
    )


def _why_none(evidence: Evidence) -> str:
    """Why the server counted nothing."""
    if evidence.server is None:
        return "only the server counts rows: --server, or a slow log of it"
    return evidence.server.why_none or (
        "the server counted none of the trace's statements: MariaDB forgets prepared ones with their connection"
    )
