"""The stage that asks why it is faster."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

from upshift import __version__
from upshift.errors import UpshiftError
from upshift.explain.door import Asked, nothing_differs
from upshift.explain.explaining import Counts, Pair, explain
from upshift.explain.model import Explained, Explanation
from upshift.explain.origin import origin_of
from upshift.explain.tools import Tools, find_tools
from upshift.instructions.model import Instructions
from upshift.machine import describe_machine
from upshift.measure.model import Load
from upshift.measure.placement import kept_to
from upshift.measure.server_bench import ServerBench
from upshift.report.explanation import publish
from upshift.stages.card import Carded
from upshift.stages.count import count_instructions
from upshift.stages.data import Filled
from upshift.stages.keys import program_key, workloads_key
from upshift.stages.lab import Lab
from upshift.stages.measure import templates, with_settings
from upshift.stages.names import Stage
from upshift.stages.work import Measuring
from upshift.toolchain.perf import Event, sampling_event
from upshift.values import Value
from upshift.workbench import Workbench
from upshift.workload.model import Workload

_KEPT = 20
"""Calls that are gone and functions with what they took in, in a result that says more than why."""


class Explaining(Value):
    """What an explanation needs beside two servers and their loads."""

    asked: Asked
    version: str
    measuring: Measuring
    event: Event
    tools: Tools
    seconds: float
    counts: bool = False
    """Whether functions are counted, too: instructions and calls, exact."""
    simulate: bool = False
    """Whether caches and branch prediction are simulated as well; with ``counts``."""
    functions: tuple[str, ...] = ()
    """Those to be shown by themselves."""


class Loads(Value):
    """The explanations of all loads."""

    loads: tuple[Explained, ...]


class Why(Value):
    """Why a server is faster under the load of the headline, or what kept that from being found."""

    explanation: Explanation | None
    lacking: str = ""
    """A sentence; empty with an explanation, and when none was asked for."""


def explain_pair(lab: Lab, explaining: Explaining, data: Filled | None, carded: Carded) -> Explanation:
    """Explanations for all workloads of ``explaining``, written into the run's folder; None as data: nothing differs.

    With ``explaining.counts``, functions are counted before they are sampled.
    """
    pair = _configured(lab, explaining.asked.pair, explaining.measuring)
    workloads = explaining.measuring.train_on

    explained = Loads(loads=())
    if data is not None:
        filled = templates(lab, pair, data, workloads)
        counted = None
        if explaining.counts:
            simulate = explaining.simulate
            counted = count_instructions(lab, pair, filled, explaining.measuring, by_function=True, simulate=simulate)

        def action(bench: Workbench) -> Loads:
            loads = _explained(lab, bench, explaining, pair, filled, workloads, counted, with_calls=True)
            return Loads(loads=tuple(_lacking(each, counted) for each in loads))

        inputs = {
            **_inputs(explaining.measuring, pair, workloads, explaining.seconds),
            "data": {name: template.sha256 for name, template in filled.items()},
            "instructions": counted.counts if counted else (),
            "functions": explaining.functions,
        }
        explained = lab.stages.run(Stage.EXPLAIN, Loads, action, inputs=inputs, keep=False)
    return _published(lab, explaining, pair, explained.loads, carded)


def explain_gain(
    lab: Lab,
    version: str,
    pair: Pair,
    filled: Mapping[str, Filled],
    counted: Instructions,
    measuring: Measuring,
    carded: Carded,
) -> Why:
    """Why the second server is faster than the first, or not, under the headline's workload: a few seconds of samples.

    What goes wrong is said in the result: no run ends for it.
    """
    seconds = measuring.options.explain_s
    pair = _configured(lab, pair, measuring)
    workloads = measuring.train_on[:1]

    def action(bench: Workbench) -> Why:
        if not seconds:
            return Why(explanation=None)
        try:
            explaining = Explaining(
                asked=Asked(before=pair[0], after=pair[1]),
                version=version,
                measuring=measuring,
                event=sampling_event(bench.shell),
                tools=find_tools(bench.shell),
                seconds=seconds,
            )
            loads: tuple[Explained, ...] = ()
            if not nothing_differs(pair):
                loads = _explained(lab, bench, explaining, pair, filled, workloads, counted, with_calls=False)
            return Why(explanation=_brief(_published(lab, explaining, pair, loads, carded)))
        except UpshiftError as error:
            return Why(explanation=None, lacking=f"why it is faster was not examined: {error.message.strip()}")

    inputs = {
        **_inputs(measuring, pair, workloads, seconds),
        "data": {name: filled[name].sha256 for name in (each.name for each in pair)},
        "instructions": counted.counts,
    }
    return lab.stages.run(Stage.EXPLAIN, Why, action, inputs=inputs, keep=False, lasts=lambda found: not found.lacking)


def _explained(
    lab: Lab,
    bench: Workbench,
    explaining: Explaining,
    pair: Pair,
    filled: Mapping[str, Filled],
    workloads: tuple[Workload, ...],
    counted: Instructions | None,
    *,
    with_calls: bool,
) -> tuple[Explained, ...]:
    plan = explaining.measuring.plan
    folders = {name: each.path for name, each in filled.items()}
    named = {each.name: each for each in workloads}
    servers = ServerBench(bench.shell, lab.kind_of, plan, named, folders, bench.folder / "data", bench.log)
    with kept_to(plan.client_cpus):
        return tuple(
            explain(
                bench,
                servers,
                pair,
                _load(each, explaining.measuring),
                explaining.event,
                explaining.tools,
                seconds=explaining.seconds,
                output=lab.run.path,
                with_calls=with_calls,
                asked=explaining.functions,
                counts=_counts(counted, pair, each.name) if counted else None,
            ).model_copy(update={"unit": each.unit})
            for each in workloads
        )


def _lacking(explained: Explained, counted: Instructions | None) -> Explained:
    """With what was not counted, and why, among its notes."""
    lacking = counted.not_counted if counted and not explained.executed else ()
    return explained.model_copy(
        update={"notes": (*explained.notes, *(f"functions were not counted: {why}" for why in lacking))}
    )


def _brief(explanation: Explanation) -> Explanation:
    """Without most of its lists of code, which the explanation's own file has, and without the card, which the result has."""
    loads = (
        each.model_copy(update={"inlined": each.inlined[:_KEPT], "families": each.families[:_KEPT], "code": ()})
        for each in explanation.loads
    )
    return explanation.model_copy(update={"loads": tuple(loads), "card": None, "card_lacking": ""})


def _counts(counted: Instructions, pair: Pair, workload: str) -> Counts | None:
    """What both servers execute for a query, where both were counted."""
    counts = {each.arm: each for each in counted.counts if each.workload == workload}
    before, after = (counts.get(each.name) for each in pair)
    return (before, after) if before and after else None


def _configured(lab: Lab, pair: Pair, measuring: Measuring) -> Pair:
    before, after = with_settings(lab, pair, measuring)
    return before, after


def _load(workload: Workload, measuring: Measuring) -> Load:
    return Load(workload=workload.name, connections=max(measuring.options.connections), held_out=False)


def _inputs(measuring: Measuring, pair: Pair, workloads: tuple[Workload, ...], seconds: float) -> dict[str, object]:
    return {
        "pair": pair,
        "programs": [program_key(each.program) for each in pair],
        "loads": [_load(each, measuring) for each in workloads],
        "workloads": workloads_key(workloads),
        "seconds": seconds,
    }


def _published(lab: Lab, explaining: Explaining, pair: Pair, loads: tuple[Explained, ...], carded: Carded) -> Explanation:
    before, after = pair
    explanation = Explanation(
        run=lab.run.name,
        started_at=lab.run.manifest.started_at,
        command=shlex.join(lab.run.manifest.command),
        upshift_version=__version__,
        machine=describe_machine(),
        version=explaining.version,
        before=before,
        after=after,
        before_source=origin_of(before.program.binary, lab.cache),
        after_source=origin_of(after.program.binary, lab.cache),
        nothing_differs=nothing_differs(pair),
        seconds=explaining.seconds,
        loads=loads,
        card=carded.card,
        card_lacking=carded.lacking,
    )
    publish(explanation, lab.run.path)
    return explanation
