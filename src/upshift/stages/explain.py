"""The stage that asks why it is faster."""

from __future__ import annotations

from upshift import __version__
from upshift.explain.door import Asked, nothing_differs
from upshift.explain.explaining import explain
from upshift.explain.model import Explained, Explanation
from upshift.explain.recording import Event
from upshift.explain.tools import Tools
from upshift.machine import describe_machine
from upshift.measure.model import Load
from upshift.measure.placement import kept_to
from upshift.measure.server_bench import ServerBench
from upshift.report.explanation import publish
from upshift.server.data import settings_of
from upshift.stages.data import Filled
from upshift.stages.keys import program_key, workloads_key
from upshift.stages.lab import Lab
from upshift.stages.measure import templates
from upshift.stages.names import Stage
from upshift.stages.work import Measuring
from upshift.values import Value
from upshift.workbench import Workbench


class Explaining(Value):
    """What an explanation needs beside two servers and their loads."""

    asked: Asked
    version: str
    measuring: Measuring
    event: Event
    tools: Tools
    seconds: float


class Loads(Value):
    """The explanations of all loads."""

    loads: tuple[Explained, ...]


def explain_pair(lab: Lab, explaining: Explaining, data: Filled | None) -> Explanation:
    """Explanations for all workloads of ``explaining``, written into the run's folder; None as data: nothing differs."""
    workloads = {each.name: each for each in explaining.measuring.train_on}
    settings = {**lab.kind.settings(), **settings_of(tuple(workloads.values()))}
    pair = tuple(each.model_copy(update={"settings": {**settings, **each.settings}}) for each in explaining.asked.pair)
    before, after = pair
    loads = [
        Load(workload=name, connections=max(explaining.measuring.options.connections), held_out=False) for name in workloads
    ]

    def action(bench: Workbench) -> Loads:
        assert data is not None
        folders = {name: each.path for name, each in templates(lab, pair, data, tuple(workloads.values())).items()}
        plan = explaining.measuring.plan
        servers = ServerBench(bench.shell, lab.kind, plan, workloads, folders, bench.folder / "data", bench.log)
        with kept_to(plan.client_cpus):
            found = [
                explain(
                    bench,
                    servers,
                    (before, after),
                    load,
                    explaining.event,
                    explaining.tools,
                    seconds=explaining.seconds,
                    output=lab.run.path,
                )
                for load in loads
            ]
        return Loads(loads=tuple(found))

    explained = Loads(loads=())
    if data is not None:
        inputs = {
            "pair": pair,
            "programs": [program_key(each.program) for each in pair],
            "loads": loads,
            "workloads": workloads_key(tuple(workloads.values())),
            "data": data.sha256,
            "seconds": explaining.seconds,
            "event": explaining.event,
        }
        explained = lab.stages.run(Stage.EXPLAIN, Loads, action, inputs=inputs, keep=False)
    explanation = Explanation(
        run=lab.run.name,
        started_at=lab.run.manifest.started_at,
        command=" ".join(lab.run.manifest.command),
        upshift_version=__version__,
        machine=describe_machine(),
        version=explaining.version,
        before=before,
        after=after,
        nothing_differs=nothing_differs((before, after)),
        seconds=explaining.seconds,
        loads=explained.loads,
    )
    publish(explanation, lab.run.path)
    return explanation
