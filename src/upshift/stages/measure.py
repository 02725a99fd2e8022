"""The stage that asks whether it is faster."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from upshift.build.model import Build
from upshift.door import data_format, lasting_settings, version_of
from upshift.measure.bench import SystemClock
from upshift.measure.experiment import Progress as Measured
from upshift.measure.experiment import run_experiment
from upshift.measure.kernel import sampling
from upshift.measure.model import BASELINE, OPTIMISED, PATCHED, Experiment, Load, Metric
from upshift.measure.schedule import loads_of
from upshift.measure.server_bench import ServerBench
from upshift.measure.variant import Variant
from upshift.server.data import settings_of
from upshift.server.kind import Program
from upshift.source.model import Source
from upshift.stages.data import Filled, change_data, fill_data
from upshift.stages.keys import program_key, surroundings_key, workloads_key
from upshift.stages.lab import Lab
from upshift.stages.names import Stage
from upshift.stages.work import Ground, Measuring
from upshift.workbench import Workbench
from upshift.workload.model import Workload


def arms(lab: Lab, ground: Ground, optimised: Build, baseline: Path | None) -> tuple[Variant, ...]:
    """Plain without patches first: it is what the others are compared with. Where there are patches, the plain server with them
    is an arm of its own. The user's own server runs with its own message files.
    """

    def arm(name: str, source: Source, build: Build) -> Variant:
        return Variant(name=name, program=lab.kind.program(source.path, build.tree, build.server))

    stock = ground.stock
    found = [arm("plain", stock.source, stock.plain), arm(OPTIMISED, ground.source, optimised)]
    if ground.source.patches:
        found.insert(1, arm(PATCHED, ground.source, ground.plain))
    if baseline:
        found.append(Variant(name=BASELINE, program=Program(kind=lab.kind.name, binary=baseline.resolve())))
    return tuple(found)


def baselines_of(measured: tuple[Variant, ...]) -> tuple[str, ...]:
    """What a rebuilt server is compared with beside the plain one: the patched server without the rebuild, and the server that
    the user runs today.
    """
    return tuple(arm.name for arm in measured if arm.name in (PATCHED, BASELINE))


def measure(
    lab: Lab,
    measured: tuple[Variant, ...],
    filled: Mapping[str, Filled],
    measuring: Measuring,
    *,
    name: str = Stage.MEASURE,
    samples: str = "samples.parquet",
    bench_of: Callable[..., ServerBench] = ServerBench,
    without: Collection[str] = (),
    judged: Metric | None = None,
    baselines: Collection[str] = (),
) -> Experiment:
    """All arms on the training workloads at each number of connections, on the held-out ones at the largest. All are compared
    with the first, and with those named in ``baselines``.

    Never taken from another run. A run that measures several times gives each a ``name`` and a file for its ``samples``.
    For arms named in ``without``, which have died in an earlier attempt, and ``judged`` see ``run_experiment``.
    """
    workloads = {workload.name: workload for workload in (*measuring.train_on, *measuring.hold_out)}
    # All that the servers run with: a reader of the result has no other place to learn it from.
    measured = with_settings(lab, measured, measuring)
    loads = asked_of(measuring)
    driven = {
        "workloads": workloads_key(tuple(workloads.values())),
        "data": {name: template.sha256 for name, template in filled.items()},
        "surroundings": [surroundings_key(each) for each in measured],
    }

    def action(bench: Workbench) -> Experiment:
        def on_progress(at: Measured) -> None:
            latency = f", p99 {at.latency_ms_p99:.2f} ms" if at.latency_ms_p99 is not None else ""
            detail = f"{at.arm}: {at.workload} x{at.connections}, {at.qps:,.0f} QPS{latency}"
            bench.progress.update(at.done, at.total, detail)

        folders = {name: template.path for name, template in filled.items()}
        pool_bytes, data_bytes = _least_held(lab, measured, filled)
        servers = bench_of(bench.shell, lab.kind_of, measuring.plan, workloads, folders, bench.folder / "data", bench.log)
        with sampling(measuring.plan, measured) as sample:
            experiment = run_experiment(
                measuring.plan,
                measured,
                (measured[0].name, *baselines),
                loads,
                servers,
                clock=SystemClock(),
                sample=sample,
                samples=lab.run.path / samples,
                on_progress=on_progress,
                on_note=bench.progress.note,
                pool_bytes=pool_bytes,
                data_bytes=data_bytes,
                driven=driven,
                without=without,
                judged=judged,
            )
        return experiment.model_copy(update={"transactions": in_transactions(measuring)})

    inputs = {
        "arms": measured,
        "programs": [program_key(arm.program) for arm in measured],
        "loads": loads,
        "driven": driven,
        "plan": measuring.plan,
        "without": sorted(without),
        **({"judged": judged} if judged else {}),
        **({"baselines": sorted(baselines)} if baselines else {}),
    }
    return lab.stages.run(name, Experiment, action, inputs=inputs, keep=False)


def asked_of(measuring: Measuring) -> tuple[Load, ...]:
    """What each arm is loaded with."""
    train_on, hold_out = ((each.name for each in workloads) for workloads in (measuring.train_on, measuring.hold_out))
    return loads_of(train_on, hold_out, measuring.options.connections)


def in_transactions(measuring: Measuring) -> tuple[str, ...]:
    """The workloads whose figures are a transaction's."""
    return tuple(each.name for each in (*measuring.train_on, *measuring.hold_out) if each.unit == "transaction")


def with_settings(lab: Lab, measured: tuple[Variant, ...], measuring: Measuring) -> tuple[Variant, ...]:
    """The arms with all that they run with."""
    asked = settings_of(measuring.train_on + measuring.hold_out)
    return tuple(
        arm.model_copy(update={"settings": {**lab.kind_of(arm.program).settings(), **asked, **arm.settings}})
        for arm in measured
    )


def _least_held(lab: Lab, measured: tuple[Variant, ...], filled: Mapping[str, Filled]) -> tuple[int | None, int | None]:
    """The buffer pool and the data, in bytes, of the arm whose pool holds the least share of its data; None and None where no
    pool has a limit.
    """
    found: list[tuple[int, int]] = []
    for arm in measured:
        kind = lab.kind_of(arm.program)
        if (pool_bytes := kind.pool_bytes(arm.settings)) is not None:
            found.append((pool_bytes, kind.data_bytes(filled[arm.name].path)))
    return min(found, key=lambda of: of[0] / max(1, of[1]), default=(None, None))


def templates(lab: Lab, measured: tuple[Variant, ...], data: Filled, workloads: tuple[Workload, ...]) -> dict[str, Filled]:
    """The first arm's data for all of its format, see ``data_format``; servers of another format fill their own. An arm's SQL
    changes a copy of them.
    """
    filled: dict[tuple[str, ...], tuple[Program, Filled]] = {}
    found = {}
    for arm in measured:
        kind = lab.kind_of(arm.program)
        settings = lasting_settings(kind, arm)
        needed = data_format(kind, version_of(lab.shell, kind, arm.program.binary), arm)
        if needed not in filled:
            own = fill_data(lab, arm.program, workloads, Stage.BASELINE_DATA, settings=settings) if filled else data
            filled[needed] = arm.program, own
        # By the program that filled them: arms with the same SQL then share what it makes.
        program, base = filled[needed]
        found[arm.name] = change_data(lab, program, base, arm.sql, workloads, settings) if arm.sql else base
    return found
