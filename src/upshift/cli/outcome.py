"""The end of a run on the terminal, and its exit code."""

from __future__ import annotations

from upshift import console
from upshift.report import terminal
from upshift.report.result import Result
from upshift.run.directory import RunDirectory

SLOWER, INCONCLUSIVE = 3, 4


def show_outcome(result: Result, run: RunDirectory, *, as_json: bool) -> None:
    if as_json:
        console.result_json(result.model_dump_json(indent=2))
    else:
        terminal.show(result, console.out)
        console.say(f"report: {run.path / 'report.html'}")
    console.say(f"again: upshift report {run.name}")


def exit_code(result: Result, fail_on: float | None) -> int:
    """3 when a training workload's QPS ratio lies surely below ``fail_on``; 4 when it can't be told; else 0."""
    if fail_on is None:
        return 0
    qps = [each for each in result.experiment.comparisons if each.metric == "qps" and not each.held_out]
    qps = [each for each in qps if each.arm == "optimised"]
    if any(each.ci_high < fail_on for each in qps):
        return SLOWER
    if any(each.ci_low < fail_on for each in qps):
        return INCONCLUSIVE
    return 0
