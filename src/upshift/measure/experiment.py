"""An experiment: arms x trials x slices, interleaved, written down slice by slice, and resumable by trial."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from upshift.errors import LoadFailed, UsageError
from upshift.measure import kernel
from upshift.measure.bench import Bench, Clock, RunningArm
from upshift.measure.model import Experiment, Load, Plan, Slice
from upshift.measure.placement import kept_to
from upshift.measure.quality import STEAL, find_flags, steal_share
from upshift.measure.samples import Samples, experiment_hash
from upshift.measure.schedule import start_order, turns, warmup_loads
from upshift.measure.slice import Sample, measure_load
from upshift.measure.statistics import LEVEL, comparisons, levels
from upshift.measure.until import reached, trials_asked
from upshift.measure.variant import Variant

SETTLE_S = 20.0
"""The longest wait before a load for the background work of all servers of the trial."""
MOST_REPEATS = 2
"""So often a load is measured again in a trial when the hypervisor took more than ``STEAL``."""
_LOOK_AGAIN_S = 0.2
_LEAST_QUERIES = 10
_LEAST_FIRST_STAGE = 2


@dataclass(frozen=True)
class Progress:
    """Where an experiment is, after each slice."""

    done: int
    """Slices, with those of an earlier, interrupted attempt."""
    total: int
    trial: int
    arm: str
    workload: str
    connections: int
    qps: float
    latency_ms_p99: float | None


def run_experiment(
    plan: Plan,
    arms: Sequence[Variant],
    baselines: Sequence[str],
    loads: Sequence[Load],
    bench: Bench,
    *,
    clock: Clock,
    samples: Path,
    on_progress: Callable[[Progress], None],
    on_note: Callable[[str], None] = lambda _note: None,
    pool_bytes: int | None = None,
    data_bytes: int | None = None,
    driven: Any = None,
    sample: Sample = kernel.usage,
) -> Experiment:
    """Measure ``arms`` under ``loads`` and compare each with those named in ``baselines``, the first before all.

    In a trial all arms are started and warmed up together. Then each load is kept on all of them at once, and they take
    turns: all arms but one are stopped. Every slice is appended to ``samples.partial.jsonl`` once its load is done; at the
    end ``samples`` is a Parquet file. Called again with the same plan after an interruption, it measures only the trials
    that were not completed.

    With ``plan.until`` as many more trials follow as Stein's second stage takes; ``on_note`` is told how many.
    A load is measured again, up to twice, when the hypervisor took too much; the last attempt counts.

    ``driven`` says what the loads run and on which data: with another, samples of an earlier attempt are put aside.
    ``pool_bytes`` and ``data_bytes`` are for the flags, see ``find_flags``; ``sample`` reads CPU time and
    swap. Raises UsageError for an impossible plan, LoadFailed and ServerFailed as the bench does.
    """
    _check(plan, arms, baselines, loads)
    store = Samples(samples, experiment_hash(plan, arms, loads, driven))
    per_trial = plan.rounds * len(arms) * len(loads)
    planned = plan.trials
    slices = list(store.open(per_trial))
    measured = {each.trial for each in slices}
    # The clock of an interrupted attempt is gone: its samples keep their times, and the new ones follow them.
    origin_s = clock.now_s() - max((each.started_s + each.wall_s for each in slices), default=0.0)

    def add(one: Slice) -> None:
        store.add(one)
        slices.append(one)
        on_progress(
            Progress(
                done=len(slices),
                total=per_trial * len(measured | set(range(planned))),
                trial=one.trial,
                arm=one.arm,
                workload=one.workload,
                connections=one.connections,
                qps=one.queries / one.wall_s,
                latency_ms_p99=one.latency_ms_p99,
            )
        )

    def run(trials: range) -> None:
        with kept_to(plan.client_cpus):
            for trial in trials:
                if trial not in measured:
                    _run_trial(trial, plan, arms, loads, bench, clock=clock, origin_s=origin_s, sample=sample, add=add)

    run(range(plan.trials))
    trials, expected = trials_asked(slices, plan, baselines[0])
    if plan.until is not None:
        on_note(f"{trials} trials: after {plan.trials}, an interval of {expected:.1%} either way is to be expected of them")
    planned = trials
    run(range(plan.trials, trials))
    store.finish()
    compared = comparisons(slices, *baselines, first_stage=plan.trials)
    confidence = compared[0].confidence if compared else 1 - LEVEL
    return Experiment(
        plan=plan,
        arms=tuple(arms),
        baseline=baselines[0],
        loads=tuple(loads),
        levels=levels(slices, confidence),
        comparisons=compared,
        confidence=confidence,
        steal_share=steal_share(slices, plan),
        reached=reached(compared, plan, baselines[0], trials, expected),
        repeated=sum(each.attempt for each in slices) // (plan.rounds * len(arms)),
        flags=find_flags(slices, plan, pool_bytes=pool_bytes, data_bytes=data_bytes),
    )


def _run_trial(
    trial: int,
    plan: Plan,
    arms: Sequence[Variant],
    loads: Sequence[Load],
    bench: Bench,
    *,
    clock: Clock,
    origin_s: float,
    sample: Sample,
    add: Callable[[Slice], None],
) -> None:
    with ExitStack() as stack:
        running: dict[str, RunningArm] = {}
        for arm in start_order(plan, trial, arms):
            running[arm.name] = stack.enter_context(bench.arm(arm, trial))
        _warm_up(running, bench, loads, seconds=plan.warmup_s, seed=trial + 1)
        for each in turns(plan, trial, arms, loads):
            for attempt in range(1 + MOST_REPEATS):
                settled = settle(tuple(running.values()), clock)
                slices = measure_load(
                    bench, running, each, plan, trial=trial, origin_s=origin_s, settled=settled, clock=clock, sample=sample
                )
                if attempt == MOST_REPEATS or steal_share(slices, plan) <= STEAL:
                    for one in slices:
                        add(one.model_copy(update={"attempt": attempt}))
                    break


def settle(servers: Sequence[RunningArm], clock: Clock) -> bool:
    """Wait until no server works in the background: what one load left to flush and purge belongs to no other load.

    False when one still does after ``SETTLE_S``.
    """
    deadline_s = clock.now_s() + SETTLE_S
    while not all(server.quiet() for server in servers):
        if clock.now_s() >= deadline_s:
            return False
        clock.sleep(_LOOK_AGAIN_S)
    return True


def _warm_up(running: Mapping[str, RunningArm], bench: Bench, loads: Sequence[Load], *, seconds: float, seed: int) -> None:
    """Each workload for its share of the time, on all servers at once; a load that does nothing is found here, not after an
    hour.
    """
    chosen = warmup_loads(loads) if seconds > 0 else ()
    for load in chosen:
        before = {name: server.queries() for name, server in running.items()}
        for handle in [bench.begin(server, load, seconds / len(chosen), seed) for server in running.values()]:
            handle.finish()
        for name, server in running.items():
            if server.queries() - before[name] < _LEAST_QUERIES:
                raise LoadFailed(
                    f"workload '{load.workload}' left the server idle (arm '{name}')",
                    "the load command must use {socket}; try it by hand against a server that you started",
                )


def _check(plan: Plan, arms: Sequence[Variant], baselines: Sequence[str], loads: Sequence[Load]) -> None:
    names = [arm.name for arm in arms]
    if len(set(names)) < len(names):
        raise UsageError(f"two arms have the same name: {', '.join(names)}", "name each arm differently")
    for baseline in set(baselines) - set(names):
        raise UsageError(f"the baseline '{baseline}' is not one of the arms", f"arms are {', '.join(names)}")
    if len(set(loads)) < max(1, len(loads)):
        raise UsageError("an experiment needs at least one load, and each only once", "name a workload")
    if min(plan.trials, plan.rounds) < 1 or plan.slice_s <= 0 or plan.lead_s < 0:
        raise UsageError("an experiment needs a trial, a round and some time at least", "see the plan's trials")
    if plan.until is not None and plan.trials < _LEAST_FIRST_STAGE:
        raise UsageError("--until needs two trials, to learn how far they lie apart", "raise --trials")
