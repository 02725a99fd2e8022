"""All statements on one server or on two: plans, answers, what differs, and what the rules make of it."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable

from upshift import __version__
from upshift.stack.plans.answers import Answer, answer
from upshift.stack.plans.ask import Asker
from upshift.stack.plans.asked import Asked
from upshift.stack.plans.compare import Difference, compare
from upshift.stack.plans.members import PlanUnreadable
from upshift.stack.plans.model import Plan, rows_examined
from upshift.stack.plans.rules import judged
from upshift.stack.plans.source import Source, Wanted
from upshift.stack.plans.statements import NotExplained, only_reads, read_parameters
from upshift.stack.suspects.model import Finding, Innocent, Outcome, Unseen
from upshift.stack.suspects.thresholds import Thresholds
from upshift.values import Value

SCHEMA_VERSION = 1
EXECUTIONS = 3
"""How often a statement is executed for its time: the median is reported, and the first execution fills the server's caches."""

Progress = Callable[[int, int], None]


class Told(Value):
    """What one server says of a statement."""

    sql: str = ""
    """As it was asked, with its parameters in it."""
    plan: Plan | None = None
    rows_examined: float | None = None
    """None: not executed."""
    answer: Answer | None = None
    why_none: str | None = None
    """Why there is no plan, no answer, or no execution of what should have been executed."""
    hint: str = ""


class Server(Value):
    name: str
    """Its address, without the login."""
    family: str
    version: str


class Planned(Value):
    """A statement and its plan."""

    statement: str
    text: str
    share: float
    executions: int
    told: Told


class Judgement(Value):
    findings: tuple[Finding, ...]
    innocent: tuple[Innocent, ...]
    unseen: tuple[Unseen, ...]


class PlansReport(Value):
    """The plans of all statements on one server."""

    schema_version: int = SCHEMA_VERSION
    upshift_version: str = __version__
    server: Server
    executed: bool
    timed: bool
    """Whether shares are of the trace's time; else of the number of statements."""
    statements: tuple[Planned, ...]
    """Most time first."""
    judgement: Judgement


class Compared(Value):
    """A statement on two servers."""

    statement: str
    text: str
    share: float
    executions: int
    a: Told
    b: Told
    same_answer: bool | None
    """False also where one server answers and the other fails; None: it was executed on neither."""
    differences: tuple[Difference, ...]
    """Of the plans."""


class Comparison(Value):
    """All statements on two servers."""

    schema_version: int = SCHEMA_VERSION
    upshift_version: str = __version__
    a: Server
    b: Server
    executed: bool
    timed: bool
    statements: tuple[Compared, ...]
    """Those that only one server explains first, then other answers, then other plans; within each, most time first."""
    judgement: Judgement

    @property
    def answers_differ(self) -> bool:
        return any(each.same_answer is False for each in self.statements)


def planned(
    source: Source, asker: Asker, name: str, thresholds: Thresholds, *, execute: bool, progress: Progress
) -> PlansReport:
    """The plan of each statement. Raises ServerFailed when the server goes away; a statement that has no plan says why."""
    shares, found = source.shares(), []
    for number, wanted in enumerate(source.statements):
        progress(number, len(source.statements))
        told = _told(wanted, asker, source, execute=execute, answers=False)
        found.append(_planned(wanted, shares[wanted.statement], told))
    asked = [_asked(each, each.told.plan) for each in found if each.told.plan]
    return PlansReport(
        server=_server(asker, name),
        executed=execute,
        timed=source.timed,
        statements=tuple(found),
        judgement=_judgement(asked, thresholds),
    )


def compared(
    source: Source,
    askers: tuple[Asker, Asker],
    names: tuple[str, str],
    thresholds: Thresholds,
    *,
    execute: bool,
    progress: Progress,
) -> Comparison:
    """Each statement on both servers. Raises ServerFailed when one goes away."""
    shares, found = source.shares(), []
    for number, wanted in enumerate(source.statements):
        progress(number, len(source.statements))
        a, b = (_told(wanted, asker, source, execute=execute, answers=execute) for asker in askers)
        found.append(_compared(wanted, shares[wanted.statement], a, b))
    asked = [
        _asked(each, first, each.b.plan if each.a.plan else None) for each in found if (first := each.a.plan or each.b.plan)
    ]
    return Comparison(
        a=_server(askers[0], names[0]),
        b=_server(askers[1], names[1]),
        executed=execute,
        timed=source.timed,
        statements=tuple(sorted(found, key=_order)),
        judgement=_judgement(asked, thresholds),
    )


def _told(wanted: Wanted, asker: Asker, source: Source, *, execute: bool, answers: bool) -> Told:
    sql = wanted.sql
    try:
        sql = asker.text(sql, read_parameters(wanted.parameters), source.family or asker.session.family)
    except NotExplained as refused:
        return Told(sql=sql, why_none=refused.message, hint=refused.hint)
    told = _explained(asker, sql, execute=execute)
    return _answered(told, asker) if answers and only_reads(sql, asker.session.family) else told


def _answered(told: Told, asker: Asker) -> Told:
    """With the answer, which needs no plan: a view is read without the right to explain it."""
    try:
        given = [answer(asker.session, told.sql) for _time in range(EXECUTIONS)]
    except NotExplained as refused:
        return told if told.why_none else told.model_copy(update={"why_none": refused.message, "hint": refused.hint})
    middle = statistics.median(each.ms for each in given)
    return told.model_copy(update={"answer": given[0].model_copy(update={"ms": middle})})


def _explained(asker: Asker, sql: str, *, execute: bool) -> Told:
    """The plan, and with ``execute`` what an execution counted; where that fails, EXPLAIN's plan with the reason."""
    try:
        plan = asker.plan(sql, execute=execute)
    except (NotExplained, PlanUnreadable) as refused:
        known = _explained(asker, sql, execute=False) if execute else Told(sql=sql)
        return known.model_copy(update={"why_none": refused.message, "hint": refused.hint})
    return Told(sql=sql, plan=plan, rows_examined=rows_examined(plan.tree) if plan.executed else None)


def _same_answer(a: Told, b: Told) -> bool | None:
    """Whether both answer the same; a server that fails where the other answers does not."""
    if a.answer and b.answer:
        return (a.answer.rows, a.answer.digest) == (b.answer.rows, b.answer.digest)
    failed = a if b.answer else b
    return False if (a.answer or b.answer) and failed.why_none else None


def _compared(wanted: Wanted, share: float, a: Told, b: Told) -> Compared:
    return Compared(
        statement=wanted.statement,
        text=wanted.text,
        share=share,
        executions=wanted.executions,
        a=a,
        b=b,
        same_answer=_same_answer(a, b),
        differences=compare(a.plan.tree, b.plan.tree) if a.plan and b.plan else (),
    )


def _planned(wanted: Wanted, share: float, told: Told) -> Planned:
    return Planned(statement=wanted.statement, text=wanted.text, share=share, executions=wanted.executions, told=told)


def _order(each: Compared) -> tuple[int, float]:
    one_only = (each.a.plan is None) != (each.b.plan is None)
    rank = 0 if one_only else 1 if each.same_answer is False else 2 if each.differences else 3
    return rank, -each.share


def _asked(each: Planned | Compared, plan: Plan, other: Plan | None = None) -> Asked:
    return Asked(statement=each.statement, text=each.text, share=each.share, plan=plan, other=other)


def _server(asker: Asker, name: str) -> Server:
    return Server(name=name, family=asker.session.family, version=asker.session.version)


def _judgement(asked: Iterable[Asked], thresholds: Thresholds) -> Judgement:
    outcomes: tuple[Outcome, ...] = judged(tuple(asked), thresholds)
    return Judgement(
        findings=tuple(each for each in outcomes if isinstance(each, Finding)),
        innocent=tuple(each for each in outcomes if isinstance(each, Innocent)),
        unseen=tuple(each for each in outcomes if isinstance(each, Unseen)),
    )
