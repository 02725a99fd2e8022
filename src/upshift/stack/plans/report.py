"""Plans and comparisons on a terminal."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator

from upshift import console
from upshift.stack.plans.asked import Timing
from upshift.stack.plans.looked import Compared, Comparison, Judgement, PlansReport, Server, Told
from upshift.stack.plans.model import Family
from upshift.stack.plans.source import Source, Wanted
from upshift.stack.plans.statements import NotExplained, filled, one_explainable, only_reads, read_parameters
from upshift.stack.plans.terminal import lines
from upshift.stack.suspects.model import SUSPECTS, Figure

_TEXT = 110
_STATEMENTS = 5


def show_plans(report: PlansReport) -> None:
    """Each statement with its tree, then what the rules found."""
    console.result(f"{_server(report.server)}: {len(report.statements)} statements{_how(executed=report.executed)}")
    for each in report.statements:
        console.result("")
        console.result(f"{_head(each.share, each.text)}")
        for line in _tree(each.told):
            console.result(f"    {line}")
    _judgement(report.judgement, timed=report.timed)


_LEFT_OUT = "left out"


def show_dry_run(source: Source, family: Family, *, execute: bool, as_json: bool) -> None:
    """What would be done with each statement; nothing is asked."""
    would = [(_would(each, source.family or family, execute=execute), each.text) for each in source.statements]
    would += [(_LEFT_OUT, text) for text in source.without_plan]
    if as_json:
        told = [{"text": text, "would": what} for what, text in would]
        console.result_json(json.dumps({"schema_version": 1, "dry_run": True, "statements": told}, indent=2))
        return
    for what, text in would:
        console.result(f"{what:10} {textwrap.shorten(text, _TEXT)}")


def _would(wanted: Wanted, family: Family, *, execute: bool) -> str:
    try:
        sql = one_explainable(wanted.sql, family)
        filled(sql, read_parameters(wanted.parameters), family, str)
    except NotExplained:
        return _LEFT_OUT
    return "executed" if execute and only_reads(sql, family) else "explained"


def show_comparison(report: Comparison) -> None:
    """Differences first; a statement that is the same on both servers has no plans below it."""
    differing = sum(map(_differs, report.statements))
    console.result(f"A {_server(report.a)}")
    console.result(f"B {_server(report.b)}")
    console.result(f"{len(report.statements)} statements{_how(executed=report.executed)}: {differing} differ")
    if report.settings:
        console.result("settings that differ, A | B:")
    for setting in report.settings:
        console.result(f"    {setting}")
    for each in report.statements:
        console.result("")
        console.result(_head(each.share, each.text))
        for line in _compared(each):
            console.result(f"    {line}")
    _judgement(report.judgement, timed=report.timed)


def _differs(each: Compared) -> bool:
    return bool(each.differences) or each.same_answer is False or (each.a.plan is None) != (each.b.plan is None)


def _compared(each: Compared) -> Iterator[str]:
    if each.same_answer is not None:
        yield _answers(each)
    if each.why_uncompared:
        yield f"answers are not compared: {each.why_uncompared}"
    for difference in each.differences:
        yield f"{difference}"
    if each.a.plan and each.b.plan and not each.differences:
        yield "same plan"
    figures = [_figures(told) for told in (each.a, each.b)]
    if all(figures):
        yield f"A {figures[0]}; B {figures[1]}"
    if each.timing:
        yield _timing(each.timing)
    if each.why_untimed:
        yield f"says nothing of the engines: {each.why_untimed}"
    for name, told in (("A", each.a), ("B", each.b)):
        if told.why_none:
            yield f"{name}: {told.why_none}; {told.hint}"
    if each.differences or each.same_answer is False:
        for name, told in (("A", each.a), ("B", each.b)):
            if told.plan:
                yield f"{name}:"
                yield from (f"    {line}" for line in lines(told.plan.tree))


def _answers(each: Compared) -> str:
    rows = {name: f"{told.answer.rows:,}" for name, told in (("A", each.a), ("B", each.b)) if told.answer}
    if each.same_answer:
        return f"same answer: {rows['A']} rows"
    if len(rows) == 1:
        return "".join(f"ANSWER ON {name} ALONE: {count} rows" for name, count in rows.items())
    return f"ANOTHER ANSWER: {rows['A']} rows on A, {rows['B']} on B{', other cells' if rows['A'] == rows['B'] else ''}"


def _timing(timing: Timing) -> str:
    where = "in the server" if timing.clock == "server" else "with the network"
    spread = f"{timing.ci_low:.2f}x to {timing.ci_high:.2f}x at {timing.confidence:.1%}" if timing.rounds > 1 else "one round"
    a, b = (f"{ms:,.0f}" if ms >= 100 else f"{ms:.3g}" for ms in (timing.a_ms, timing.b_ms))
    return f"in turns: A {a} ms, B {b} ms {where}: B takes {timing.ratio:.2f}x, {spread}"


def _figures(told: Told) -> str:
    if told.rows_examined is None:
        return ""
    taken = f", {told.answer.ms:,.1f} ms" if told.answer else ""
    return f"{told.rows_examined:,.0f} rows examined{taken}"


def _tree(told: Told) -> Iterator[str]:
    if told.plan is None:
        yield f"no plan: {told.why_none}; {told.hint}"
        return
    yield from lines(told.plan.tree)
    for notice in told.plan.notices:
        yield f"warning {notice.code}: {notice.text}"
    if told.why_none:
        yield f"not executed: {told.why_none}; {told.hint}"


def _judgement(judgement: Judgement, *, timed: bool) -> None:
    whole = "time" if timed else "statements"
    for finding in judgement.findings:
        console.result("")
        title = SUSPECTS[finding.suspect].title
        console.result(f"{finding.suspect} {title}: at most {finding.share:.1%} of the {whole}, {finding.status}")
        console.result(f"    {finding.said}")
        if finding.evidence:
            console.result(f"    evidence: {', '.join(map(_figure, finding.evidence))}")
        for accused in finding.statements[:_STATEMENTS]:
            console.result(f"    {_head(accused.share, accused.text)}")
        if (more := len(finding.statements) - _STATEMENTS) > 0:
            console.result(f"    and {more} more: --json has them")
        for fix in finding.fixes:
            console.result(f"    fix: {fix.text}")
        console.result(f"    limits: {finding.limits}")
    console.result("")
    if judgement.innocent:
        named = ", ".join(f"{each.suspect} {SUSPECTS[each.suspect].title}" for each in judgement.innocent)
        console.result(f"ruled out: {named}")
    for each in judgement.unseen:
        console.result(f"not seen: {each.suspect} {SUSPECTS[each.suspect].title}: {each.why}")


def _figure(each: Figure) -> str:
    name = each.name.replace("_", " ")
    if each.unit == "share":
        return f"{name} {each.value:.1%}"
    # A ratio near 1 is all in its decimals.
    return f"{name} {each.value:.2f}" if each.unit == "times" and each.value < 10 else f"{name} {each.value:,.0f}"


def _head(share: float, text: str) -> str:
    return f"{share:6.1%}  {textwrap.shorten(text, _TEXT, placeholder=' ...')}"


def _server(server: Server) -> str:
    return f"{server.family} {server.version} at {server.name}"


def _how(*, executed: bool) -> str:
    return ", each SELECT executed" if executed else ", none executed"
