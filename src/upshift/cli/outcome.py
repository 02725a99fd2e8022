"""The end of a run on the terminal, and its exit code."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from rich.console import Console

from upshift import console
from upshift.cli.amounts import MARGIN, MOST_MARGIN
from upshift.errors import UpshiftError
from upshift.measure.model import OPTIMISED, Experiment, Load
from upshift.measure.statistics import trials_to_place
from upshift.report import terminal, words
from upshift.report.findings import load_of
from upshift.report.result import Result
from upshift.run.directory import RunDirectory
from upshift.values import M

SLOWER, INCONCLUSIVE = 3, 4


def show_outcome(result: Result, run: RunDirectory, *, as_json: bool) -> None:
    show_end(result, terminal.show, run, as_json=as_json)


def show_end(result: M, show: Callable[[M, Console], None], run: RunDirectory, *, as_json: bool) -> None:
    """A result as JSON, or as ``show`` prints it; and where the run's report is."""
    if as_json:
        console.result_json(result.model_dump_json(indent=2))
    else:
        show(result, console.out)
        console.say(f"report: {run.path / 'report.html'}")
    console.say(f"again: upshift report {run.argument}")


def exit_code(result: Result, fail_below: float | None, margin: float = MARGIN) -> int:
    """What ``--fail-below`` makes of the optimised server's throughput on training workloads, by the report's intervals.

    0 when there is an interval of all trials for each load, and every one lies above ``fail_below`` less ``margin``, a share of
    it; 3 when one that does not lies wholly below ``fail_below``; else 4. Raises UpshiftError when there is nothing to judge.
    """
    if fail_below is None:
        return 0
    judged = [
        each
        for each in result.experiment.comparisons
        if each.metric == "qps" and not each.held_out and each.arm == OPTIMISED and each.baseline == result.experiment.baseline
    ]
    if not judged:
        raise UpshiftError(
            "--fail-below has nothing to judge: no training workload gave figures for two servers", "the report's flags say why"
        )
    reached = result.experiment.reached
    first_stage = reached.first_stage if reached else None
    short = [each for each in judged if each.ci_low < fail_below * (1 - margin)]
    below = [each for each in short if each.ci_high < fail_below]
    for each in short:
        about = f"{each.workload} at {words.count(each.connections, 'connection')}"
        if each in below:
            console.say(f"{about} is below {fail_below:g} at {words.percent(each.confidence)} ({words.interval(each)})")
        else:
            least = math.ceil((1 - each.ci_low / fail_below) * 1000) / 1000
            helps = [f"--margin {least:g} accepts it"] if least <= MOST_MARGIN else []
            helps.append(words.settled_by(trials_to_place(each, fail_below * (1 - margin), fail_below, first_stage)))
            console.say(f"{about} may be below {fail_below:g} ({words.measured(each)}): {', '.join(helps)}")
    lacking = _lacking(result.experiment, {load_of(each): None if each in below else each.trials for each in judged})
    for about, why in lacking:
        console.say(f"{about} may be below {fail_below:g}: {why}")
    if below:
        return SLOWER
    return INCONCLUSIVE if short or lacking else 0


def _lacking(experiment: Experiment, judged: Mapping[Load, int | None]) -> list[tuple[str, str]]:
    """Training loads of which nothing is known, or only of trials in which both servers ended a query; and why.

    ``judged`` are the trials of each load that has some; None: whatever the others are, it is below.
    """
    measured = experiment.reached.trials if experiment.reached else experiment.plan.trials
    why = {load: "it gave no figures for both servers" for load in experiment.loads if not load.held_out and load not in judged}
    for load, trials in judged.items():
        if trials is not None and trials < measured:
            why[load] = f"in {measured - trials} of {words.count(measured, 'trial')} one of the servers ended no query"
    return [(f"{load.workload} at {words.count(load.connections, 'connection')}", each) for load, each in why.items()]
