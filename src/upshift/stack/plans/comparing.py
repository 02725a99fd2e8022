"""All statements on two servers: plans, answers, times in turns, what differs, and what the rules make of it."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import NamedTuple

from upshift.stack.plans.answers import Answer, answer
from upshift.stack.plans.ask import Asker
from upshift.stack.plans.asked import Asked, Timing
from upshift.stack.plans.compare import compare
from upshift.stack.plans.engine import incomparable
from upshift.stack.plans.looked import Compared, Comparison, Told
from upshift.stack.plans.looking import Progress, explained, judgement, server_of
from upshift.stack.plans.members import PlanUnreadable
from upshift.stack.plans.settings import settings_that_differ
from upshift.stack.plans.source import Source, Wanted
from upshift.stack.plans.statements import NotExplained, only_reads
from upshift.stack.plans.timing import ABBA, Turns, take_turns, timings
from upshift.stack.suspects.thresholds import Thresholds

Askers = tuple[Asker, Asker]
Given = tuple[Sequence[Answer], Sequence[Answer]]
"""The answers that each server gave to the same statement, one after the other."""


class _Looked(NamedTuple):
    """One statement on both."""

    wanted: Wanted
    a: Told
    b: Told
    same_answer: bool | None
    why_uncompared: str | None = None
    turns: Turns | None = None
    why_untimed: str | None = None


def compared(
    source: Source,
    askers: Askers,
    names: tuple[str, str],
    thresholds: Thresholds,
    *,
    execute: bool,
    rounds: int,
    progress: Progress,
) -> Comparison:
    """Each statement on both servers; ``rounds`` of A, B, B, A time what both execute alike. Raises ServerFailed when one
    goes away.
    """
    shares, looked = source.shares(), []
    for number, wanted in enumerate(source.statements):
        progress(number, len(source.statements))
        a, b = (explained(wanted, asker, source, execute=execute) for asker in askers)
        one = _Looked(wanted, a, b, None)
        looked.append(_executed(one, askers, thresholds, rounds) if execute else one)
    timed = timings({each.wanted.statement: each.turns for each in looked if each.turns})
    found = [_compared(each, shares[each.wanted.statement], timed.get(each.wanted.statement)) for each in looked]
    asked = (_asked(each) for each in found)
    return Comparison(
        a=server_of(askers[0], names[0]),
        b=server_of(askers[1], names[1]),
        executed=execute,
        timed=source.timed,
        settings=settings_that_differ(askers[0].session, askers[1].session),
        statements=tuple(sorted(found, key=_order)),
        judgement=judgement(filter(None, asked), thresholds, timed=source.timed),
    )


def _executed(looked: _Looked, askers: Askers, thresholds: Thresholds, rounds: int) -> _Looked:
    """With both answers; and with times, where they tell of the engines."""
    a, b, given = _answered((looked.a, looked.b), askers)
    unsteady = _unsteady(given)
    looked = looked._replace(a=a, b=b, same_answer=None if unsteady else _same_answer(a, b), why_uncompared=unsteady)
    if why := incomparable(a.plan, b.plan, looked.same_answer, thresholds):
        return looked._replace(why_untimed=why)
    try:
        return looked._replace(turns=_turns(looked, askers, rounds))
    except (NotExplained, PlanUnreadable) as refused:
        return looked._replace(why_untimed=refused.message)


def _answered(told: tuple[Told, Told], askers: Askers) -> tuple[Told, Told, Given]:
    """With the answers of a SELECT, which need no plan: a view is read without the right to explain it. And all of them.

    The time is the mean of two executions, in turns.
    """
    given: tuple[list[Answer], list[Answer]] = ([], [])
    failed: list[NotExplained | None] = [None, None]
    for server in ABBA:
        if failed[server] is None and only_reads(told[server].sql, askers[server].session.family):
            try:
                given[server].append(answer(askers[server].session, told[server].sql))
            except NotExplained as refused:
                failed[server] = refused
    first, second = (_with_answer(*each) for each in zip(told, given, failed, strict=True))
    return first, second, given


def _unsteady(given: Given) -> str | None:
    """Why the answers do not show whether both servers give the same; None: they do, or a server gave none.

    A statement may differ by itself, as one with UUID() does. Numbers of rows that do not are compared nevertheless.
    """
    if not all(given):
        return None
    servers = [name for name, own in zip("AB", given, strict=True) if len({(each.rows, each.digest) for each in own}) > 1]
    rows = [{each.rows for each in own} for own in given]
    if not servers or (all(len(each) == 1 for each in rows) and rows[0] != rows[1]):
        return None
    who = f"{servers[0]} answers" if len(servers) == 1 else "both servers answer"
    return f"{who} it differently each time"


def _with_answer(told: Told, given: Sequence[Answer], failed: NotExplained | None) -> Told:
    if given:
        mean = statistics.fmean(each.ms for each in given)
        return told.model_copy(update={"answer": given[0].model_copy(update={"ms": mean})})
    if failed and not told.why_none:
        return told.model_copy(update={"why_none": failed.message, "hint": failed.hint})
    return told


def _same_answer(a: Told, b: Told) -> bool | None:
    """Whether both answer the same; a server that fails where the other answers does not."""
    if a.answer and b.answer:
        return (a.answer.rows, a.answer.digest) == (b.answer.rows, b.answer.digest)
    failed = a if b.answer else b
    return False if (a.answer or b.answer) and failed.why_none else None


def _turns(looked: _Looked, askers: Askers, rounds: int) -> Turns:
    """By the servers' own clocks where both say what they took, else by the client's. Raises NotExplained."""
    own = all(told.plan and told.plan.execution_ms is not None for told in (looked.a, looked.b))

    def once(asker: Asker, sql: str) -> float:
        return asker.execution_ms(sql) if own else answer(asker.session, sql).ms

    first, second = askers
    return take_turns(
        "server" if own else "client", lambda: once(first, looked.a.sql), lambda: once(second, looked.b.sql), rounds
    )


def _compared(looked: _Looked, share: float, timing: Timing | None) -> Compared:
    a, b = looked.a, looked.b
    return Compared(
        statement=looked.wanted.statement,
        text=looked.wanted.text,
        share=share,
        executions=looked.wanted.executions,
        a=a,
        b=b,
        same_answer=looked.same_answer,
        why_uncompared=looked.why_uncompared,
        differences=compare(a.plan.tree, b.plan.tree) if a.plan and b.plan else (),
        timing=timing,
        why_untimed=looked.why_untimed,
    )


def _asked(each: Compared) -> Asked | None:
    """What the rules are asked of a statement; None: no server explains it."""
    plan, other = (each.a.plan, each.b.plan) if each.a.plan else (each.b.plan, None)
    if plan is None:
        return None
    return Asked(
        statement=each.statement,
        text=each.text,
        share=each.share,
        plan=plan,
        other=other,
        timing=each.timing,
        why_untimed=each.why_untimed,
        plain_ratio=each.b.answer.ms / each.a.answer.ms if each.a.answer and each.b.answer else None,
    )


def _order(each: Compared) -> tuple[int, float]:
    one_only = (each.a.plan is None) != (each.b.plan is None)
    rank = 0 if one_only else 1 if each.same_answer is False else 2 if each.differences else 3
    return rank, -each.share
