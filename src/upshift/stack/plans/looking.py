"""All statements on one server: plans, and what the rules make of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from upshift.stack.plans.ask import Asker
from upshift.stack.plans.asked import Asked
from upshift.stack.plans.looked import Judgement, Planned, PlansReport, Server, Told
from upshift.stack.plans.members import PlanUnreadable
from upshift.stack.plans.model import rows_examined
from upshift.stack.plans.rules import judged
from upshift.stack.plans.source import Source, Wanted
from upshift.stack.plans.statements import NotExplained, read_parameters
from upshift.stack.suspects.finding import reported
from upshift.stack.suspects.model import Finding, Innocent, Unseen
from upshift.stack.suspects.thresholds import Thresholds

Progress = Callable[[int, int], None]


def planned(
    source: Source, asker: Asker, name: str, thresholds: Thresholds, *, execute: bool, progress: Progress
) -> PlansReport:
    """The plan of each statement. Raises ServerFailed when the server goes away; a statement that has no plan says why."""
    shares, found = source.shares(), []
    for number, wanted in enumerate(source.statements):
        progress(number, len(source.statements))
        told = explained(wanted, asker, source, execute=execute)
        found.append(_planned(wanted, shares[wanted.statement], told))
    asked = [
        Asked(statement=each.statement, text=each.text, share=each.share, plan=each.told.plan)
        for each in found
        if each.told.plan
    ]
    return PlansReport(
        server=server_of(asker, name),
        executed=execute,
        timed=source.timed,
        statements=tuple(found),
        judgement=judgement(asked, thresholds, timed=source.timed),
    )


def explained(wanted: Wanted, asker: Asker, source: Source, *, execute: bool) -> Told:
    """A statement's plan, and with ``execute`` what an execution counted; where that fails, EXPLAIN's plan with the reason."""
    sql = wanted.sql
    try:
        sql = asker.text(sql, read_parameters(wanted.parameters), source.family or asker.session.family)
    except NotExplained as refused:
        return Told(sql=sql, why_none=refused.message, hint=refused.hint)
    return _explained(asker, sql, execute=execute)


def _explained(asker: Asker, sql: str, *, execute: bool) -> Told:
    try:
        plan = asker.plan(sql, execute=execute)
    except (NotExplained, PlanUnreadable) as refused:
        known = _explained(asker, sql, execute=False) if execute else Told(sql=sql)
        return known.model_copy(update={"why_none": refused.message, "hint": refused.hint})
    return Told(sql=sql, plan=plan, rows_examined=rows_examined(plan.tree) if plan.executed else None)


def _planned(wanted: Wanted, share: float, told: Told) -> Planned:
    return Planned(statement=wanted.statement, text=wanted.text, share=share, executions=wanted.executions, told=told)


def server_of(asker: Asker, name: str) -> Server:
    return Server(name=name, family=asker.session.family, version=asker.session.version)


def judgement(asked: Iterable[Asked], thresholds: Thresholds, *, timed: bool) -> Judgement:
    """``timed``: shares are of time; else of the number of statements."""
    floor, whole = (thresholds, "time") if timed else (thresholds.untimed(), "statements")
    outcomes = [reported(each, floor, whole) for each in judged(tuple(asked), thresholds)]
    return Judgement(
        findings=tuple(each for each in outcomes if isinstance(each, Finding)),
        innocent=tuple(each for each in outcomes if isinstance(each, Innocent)),
        unseen=tuple(each for each in outcomes if isinstance(each, Unseen)),
    )
