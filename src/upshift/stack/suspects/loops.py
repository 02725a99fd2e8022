"""One statement again and again within a transaction: by the application (C6), or by a driver that takes a batch apart (C7)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from upshift.stack.evidence import Evidence, Loop
from upshift.stack.suspects.finding import MOST_STATEMENTS, count, figure, found, innocent, unseen
from upshift.stack.suspects.model import Accused, Outcome
from upshift.stack.suspects.thresholds import Thresholds

_CHANGES = ("insert", "update", "delete", "replace")


def row_by_row(evidence: Evidence, thresholds: Thresholds) -> Outcome:
    """C6: a statement for each key, where one for all would do."""
    return _outcome(
        evidence,
        "C6",
        _guilty(evidence, thresholds, batch=False),
        thresholds,
        limits="The trace does not show that one statement can do for all keys: a key may depend on the answer before it.",
    )


def batch_not_rewritten(evidence: Evidence, thresholds: Thresholds) -> Outcome:
    """C7: changes of rows that follow each other as fast as their answers come: nobody did much with these."""
    return _outcome(
        evidence,
        "C7",
        _guilty(evidence, thresholds, batch=True),
        thresholds,
        limits="The trace does not show whether the driver takes a batch apart or the application sends its rows one by one: "
        "their requests look the same.",
    )


def _guilty(evidence: Evidence, thresholds: Thresholds, *, batch: bool) -> list[Loop]:
    return [
        each
        for each in evidence.loops
        if each.length >= max(2, thresholds["C6.statements"])
        and each.body <= max(1, thresholds["C6.body"])
        and _one_row_each(each, evidence.trace.masked)
        and _is_batch(each, thresholds) == batch
    ]


def _one_row_each(loop: Loop, masked: bool) -> bool:
    if loop.verb in ("insert", "replace"):
        return loop.affected_median <= 1
    if loop.verb in _CHANGES:
        return masked or loop.changed_median != 0
    # Selects that differ in more than their key ask for other things.
    return masked or loop.changed_median == 1


def _is_batch(loop: Loop, thresholds: Thresholds) -> bool:
    return loop.verb in _CHANGES and loop.gap_us_median < thresholds["C7.gap_per_exchange"] * loop.exchange_us_median


def _outcome(evidence: Evidence, suspect: str, guilty: Sequence[Loop], thresholds: Thresholds, *, limits: str) -> Outcome:
    if not guilty:
        if evidence.widest_transaction < 2:
            return unseen(suspect, "no transaction of several statements: independent requests look like a loop")
        return innocent(
            suspect, f"no transaction repeats a statement {thresholds['C6.statements']:.0f} times in a loop for one row each"
        )
    time_us = {each.statement: 0.0 for each in guilty}
    by_statement: defaultdict[str, list[Loop]] = defaultdict(list)
    for each in guilty:
        time_us[each.statement] += each.again_us
        by_statement[each.statement].append(each)
    runs, executions = sum(each.runs for each in guilty), sum(each.runs * each.length for each in guilty)
    return found(
        evidence,
        suspect,
        share=evidence.budget.share(sum(time_us.values())),
        status="inferred" if evidence.trace.masked else "counted",
        said=f"{count(executions, 'execution')} in {count(runs, 'run')} of one statement for one row each",
        figures=(
            figure("runs", runs),
            figure("executions", executions),
            figure("executions_of_a_run", executions / runs, "", "C6.statements"),
            figure("statements_of_its_body", max(each.body for each in guilty), "", "C6.body"),
            figure("client_gap_us_median", max(each.gap_us_median for each in guilty), "us", "C7.gap_per_exchange"),
            figure("exchange_us_median", max(each.exchange_us_median for each in guilty), "us"),
        ),
        statements=tuple(
            Accused(
                statement=statement,
                text=evidence.text_of(statement),
                share=evidence.budget.share(time_us[statement]),
                figures=(
                    figure("runs", sum(each.runs for each in loops)),
                    figure("longest_run", max(each.length for each in loops), "", "C6.statements"),
                ),
            )
            for statement, loops in sorted(by_statement.items(), key=lambda pair: (-time_us[pair[0]], pair[0]))[
                :MOST_STATEMENTS
            ]
        ),
        limits="The share is the time of all executions but the first of each run, with the client's gaps before them. "
        f"{limits}",
    )
