"""The rules about plans, P2 to P9 and E1, and the one place where what they saw becomes findings."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

from upshift.stack.plans.asked import Asked, Seen, plans_of
from upshift.stack.plans.engine import engine, untimed
from upshift.stack.plans.model import accesses
from upshift.stack.plans.one_server import conversion, lost_bound, no_index, planning, sorts, statistics
from upshift.stack.plans.two_servers import another_plan, not_covering
from upshift.stack.suspects.model import Accused, Finding, Fix, Innocent, Outcome, Status, Unseen
from upshift.stack.suspects.thresholds import Thresholds

Look = Callable[[Asked, Thresholds], Seen | None]


def _any_plan(_asked: Asked) -> str | None:
    return None


def _two_plans(asked: Asked) -> str | None:
    return None if asked.other else "it needs the plans of two servers: `upshift stack compare`"


def _bounds_known(asked: Asked) -> str | None:
    found = [node for plan, _where in plans_of(asked) for node in accesses(plan.tree) if node.access == "range"]
    return "the server's plan does not say its ranges" if found and all(node.bounds is None for node in found) else None


def _executed(asked: Asked) -> str | None:
    ran = any(plan.executed for plan, _where in plans_of(asked))
    return None if ran else "it needs an execution that ends in time: --execute, and --wait-seconds"


def _timed(asked: Asked) -> str | None:
    told = any(plan.planning_ms is not None for plan, _where in plans_of(asked))
    return _executed(asked) or (None if told else "the server does not say how long it planned")


class PlanRule(NamedTuple):
    look: Look
    blind: Callable[[Asked], str | None]
    """Why it sees nothing in these plans; None: it does."""
    looked_at: str
    fix: str
    limits: str
    sure: Status = "counted"
    """What a finding is where all its evidence comes from executions."""


RULES: Mapping[str, PlanRule] = {
    "P2": PlanRule(
        no_index,
        _any_plan,
        "no table is read whole for few of its rows",
        "Create an index on the columns of the filter.",
        "An index costs writes and memory. Without an execution, the rows that a filter leaves are the server's estimate.",
    ),
    "P3": PlanRule(
        sorts,
        _any_plan,
        "no large sort or temporary table, and none on disk",
        "Create an index in the order of ORDER BY or GROUP BY. Sort fewer rows, or shorter ones. Give sorts more memory.",
        "Without such an index, every server has to sort this result.",
    ),
    "P4": PlanRule(
        conversion,
        _any_plan,
        "no index is kept from use by a conversion",
        "Give the value in the type and collation of the column.",
        "MySQL and MariaDB report it themselves. On PostgreSQL, it is read from the plan's condition.",
    ),
    "P5": PlanRule(
        not_covering,
        _two_plans,
        "no index covers on one server and not on the other",
        "Create the covering index on both servers. On PostgreSQL, also run VACUUM, so that no row need be looked up.",
        "Rows in memory are looked up fast: the cost of the look-ups is not counted.",
    ),
    "P6": PlanRule(
        another_plan,
        _two_plans,
        "plans are the same, or examine about as many rows",
        "Create the same indexes on both servers, and update their statistics. Then make the other server use the index "
        "or the order of tables of the better plan.",
        "Fewer rows need not be faster. Without an execution, the rows are the estimates of two servers.",
    ),
    "P7": PlanRule(
        lost_bound,
        _bounds_known,
        "each range has the bounds that its condition has",
        "Write both bounds with constants or parameters on the bare column. Check whether a newer version uses both.",
        "A server cannot always use a bound that depends on a row of another table.",
    ),
    "P8": PlanRule(
        statistics,
        _executed,
        "estimates are near what was counted",
        "ANALYZE the table. Where values are uneven, add a histogram (MySQL, MariaDB) or extended statistics (PostgreSQL).",
        "A wrong estimate costs time only where it leads to another plan.",
    ),
    "P9": PlanRule(
        planning,
        _timed,
        "no statement is planned for long beside its execution",
        "Use fewer values in IN lists (eq_range_index_dive_limit), fewer tables in a join (optimizer_search_depth), and fewer "
        "indexes that are alike. On PostgreSQL, prepare the statement once.",
        "One execution was timed, with the counting of its EXPLAIN. Planning is a larger part of a plain execution.",
        sure="measured",
    ),
    "E1": PlanRule(
        engine,
        untimed,
        "the same plan over as many rows takes about the same time",
        "Look first at the settings that differ, listed with the servers. Then measure both programs with this workload "
        "(`upshift measure`), and ask `upshift explain` which functions take the time.",
        "The times include the machines of both servers, and the counting of EXPLAIN. The status is inferred where a server "
        "does not tell its own time: the client's clock then includes the network.",
        sure="measured",
    ),
}


def judged(
    asked: tuple[Asked, ...], thresholds: Thresholds, counted: Mapping[str, Collection[str]] = {}
) -> tuple[Outcome, ...]:
    """The outcome of each rule over all statements: findings first, the largest share first.

    ``counted`` has by suspect the statements of which a counter has the evidence: their plans are not asked.
    """
    outcomes = [
        _outcome(name, rule, tuple(each for each in asked if each.statement not in counted.get(name, ())), thresholds)
        for name, rule in RULES.items()
    ]
    return tuple(sorted(outcomes, key=lambda each: (0, -each.share) if isinstance(each, Finding) else (1, 0.0)))


def _outcome(name: str, rule: PlanRule, asked: tuple[Asked, ...], thresholds: Thresholds) -> Outcome:
    reasons = [rule.blind(each) for each in asked]
    if not asked or all(reasons):
        return Unseen(suspect=name, why=next(filter(None, reasons), "no statement has a plan"))
    seen_in = ((each, seen) for each in asked if (seen := rule.look(each, thresholds)))
    found = sorted(((each.share * seen.part, each, seen) for each, seen in seen_in), key=lambda three: -three[0])
    if not found:
        return Innocent(suspect=name, looked_at=f"{rule.looked_at} (statements: {reasons.count(None)})")
    _share, _asked, first = found[0]
    return Finding(
        suspect=name,
        share=min(1.0, sum(share for share, _asked, _seen in found)),
        status=rule.sure if all(seen.counted for _share, _asked, seen in found) else "inferred",
        said=first.said,
        evidence=first.figures,
        statements=tuple(
            Accused(statement=each.statement, text=each.text, share=share, figures=seen.figures) for share, each, seen in found
        ),
        fixes=(Fix(text=rule.fix),),
        limits=rule.limits,
    )
