"""An experiment: arms x trials x slices, interleaved, written down slice by slice, and resumable by trial."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from upshift.errors import UsageError
from upshift.measure.bench import Bench, Clock
from upshift.measure.duet import refuse_odd_rounds, refuse_other_numbers
from upshift.measure.model import Experiment, Load, Metric, Plan, Slice
from upshift.measure.pilot import NOT_ENOUGH_TIME, PILOT, Pilot, choose, in_words, pilot_turns, turns_within
from upshift.measure.placement import kept_to
from upshift.measure.quality import STEAL, find_flags, steal_share
from upshift.measure.samples import Samples, experiment_hash
from upshift.measure.schedule import turns
from upshift.measure.slice import measure_load
from upshift.measure.speed import slowed_share
from upshift.measure.statistics import LEVEL, UNBOUNDED_HIGH, comparisons, levels
from upshift.measure.trial import settle, started
from upshift.measure.turn import Asked, Sample
from upshift.measure.until import reached, refuse_short_first_stage, trials_asked
from upshift.measure.variant import Variant

MOST_REPEATS = 2
"""So often a load is measured again in a trial when the hypervisor took more than ``STEAL``."""


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
    sample: Sample,
    samples: Path,
    on_progress: Callable[[Progress], None],
    on_note: Callable[[str], None] = lambda _note: None,
    pool_bytes: int | None = None,
    data_bytes: int | None = None,
    driven: Any = None,
    without: Collection[str] = (),
    judged: Metric | None = None,
) -> Experiment:
    """Measure ``arms`` under ``loads`` and compare each with those named in ``baselines``, the first before all.

    In a trial all arms are started and warmed up together. Then each load is kept on all of them at once, and they take
    turns: all arms but one are stopped. With ``plan.duet`` there are two arms, and each turn is both's. Every slice is appended
    to ``samples.partial.jsonl`` once its load is done; at the end ``samples`` is a Parquet file. Called again with the same
    plan after an interruption, it measures only the trials that were not completed.

    With ``plan.pilot_turns`` a pilot chooses the lead-in of each workload first, in a trial that does not count. With
    ``plan.until`` as many more trials follow as Stein's second stage takes; ``on_note`` is told what both found.
    A load is measured again, up to twice, when the hypervisor took too much; the last attempt counts, and the slices of those
    before it are kept as ``rejected``.

    ``driven`` says what the loads run and on which data: with another, samples of an earlier attempt are put aside.
    ``without`` names arms that died in an earlier attempt and are not started again: trials that were complete for the others
    count, and the result speaks of the others alone. ``judged`` is compared though others only describe by it.
    ``pool_bytes`` and ``data_bytes`` are for the flags, see ``find_flags``; ``sample`` reads the kernel's
    counts, such as ``kernel.sampling`` makes. Raises UsageError for an impossible plan, LoadFailed and ServerFailed
    as the bench does.
    """
    _check(plan, arms, baselines, loads)
    store = Samples(samples, experiment_hash(plan, arms, loads, driven))
    arms = [arm for arm in arms if arm.name not in without]
    per_trial = plan.rounds * len(arms) * len(loads)
    planned = plan.trials
    slices = list(store.open([arm.name for arm in arms], plan.rounds * len(loads)))
    measured = {each.trial for each in slices}
    asked: Asked = {}

    with kept_to(plan.client_cpus):
        pilot = store.pilot() or _pilot(plan, arms, baselines[0], loads, bench, store, asked=asked, clock=clock, sample=sample)
    lead_s = {each.workload: each.lead_s for each in pilot.lead_ins}
    if plan.pilot_turns:
        on_note("; ".join(map(in_words, pilot.lead_ins)) if lead_s else NOT_ENOUGH_TIME)
    # The clock of an interrupted attempt is gone: its samples keep their times, and the new ones follow them.
    origin_s = clock.now_s() - max((each.started_s + each.wall_s for each in slices), default=0.0)

    def add(one: Slice) -> None:
        store.add(one)
        if one.rejected:
            return
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
                    _run_trial(
                        trial,
                        plan,
                        arms,
                        loads,
                        bench,
                        lead_s=lead_s,
                        asked=asked,
                        clock=clock,
                        origin_s=origin_s,
                        sample=sample,
                        add=add,
                    )

    run(range(plan.trials))
    trials, expected = trials_asked(slices, plan, baselines[0], pilot.took_s)
    if plan.until is not None:
        width = f"an interval of {expected:.1%} either way is" if expected < UNBOUNDED_HIGH else "no interval is"
        on_note(f"{trials} trials: after {plan.trials}, {width} to be expected of them")
    elif plan.budget_s is not None:
        on_note(f"{trials} trials fit into the time")
    planned = trials
    run(range(plan.trials, trials))
    store.finish()
    compared = comparisons(slices, *baselines, first_stage=plan.first_stage, judged=judged)
    confidence = compared[0].confidence if compared else 1 - LEVEL
    return Experiment(
        plan=plan if plan.until is not None else plan.model_copy(update={"trials": trials}),
        arms=tuple(arms),
        baseline=baselines[0],
        loads=tuple(loads),
        levels=levels(slices, confidence, first_stage=plan.first_stage),
        comparisons=compared,
        confidence=confidence,
        steal_share=steal_share(slices, plan),
        reached=reached(compared, plan, baselines[0], trials, expected, product([arm.name for arm in arms], loads)),
        lead_ins=pilot.lead_ins,
        slowed_share=slowed_share(slices),
        repeated=sum(each.attempt > 0 for each in slices) // (plan.rounds * len(arms)),
        flags=find_flags(slices, plan, arms, pool_bytes=pool_bytes, data_bytes=data_bytes),
    )


def _pilot(
    plan: Plan,
    arms: Sequence[Variant],
    baseline: str,
    loads: Sequence[Load],
    bench: Bench,
    store: Samples,
    *,
    asked: Asked,
    clock: Clock,
    sample: Sample,
) -> Pilot:
    """What the pilot chose, kept for a resumed experiment; nothing where there is none."""
    count = turns_within(plan, len(arms), loads)
    if not count:
        return Pilot(took_s=0.0, turns=(), lead_ins=())
    began_s = clock.now_s()
    with started(PILOT, plan, arms, loads, bench) as running:
        found = pilot_turns(
            plan,
            bench,
            running,
            arms,
            loads,
            count,
            before=lambda: settle(tuple(running.values()), clock),
            asked=asked,
            clock=clock,
            sample=sample,
        )
    pilot = Pilot(took_s=clock.now_s() - began_s, turns=found, lead_ins=choose(found, baseline, plan.lead_s, plan.slice_s))
    store.keep_pilot(pilot)
    return pilot


def _run_trial(
    trial: int,
    plan: Plan,
    arms: Sequence[Variant],
    loads: Sequence[Load],
    bench: Bench,
    *,
    lead_s: Mapping[str, float],
    asked: Asked,
    clock: Clock,
    origin_s: float,
    sample: Sample,
    add: Callable[[Slice], None],
) -> None:
    with started(trial, plan, arms, loads, bench) as running:
        for each in turns(plan, trial, arms, loads):
            planned = plan.model_copy(update={"lead_s": lead_s.get(each.load.workload, plan.lead_s)})
            for attempt in range(1 + MOST_REPEATS):
                settled = settle(tuple(running.values()), clock)
                slices = measure_load(
                    bench,
                    running,
                    each,
                    planned,
                    trial=trial,
                    origin_s=origin_s,
                    settled=settled,
                    asked=asked,
                    clock=clock,
                    sample=sample,
                )
                # Before they are kept: a trial whose slices are all there counts when the experiment is resumed.
                for server in running.values():
                    bench.check(server)
                again = attempt < MOST_REPEATS and steal_share(slices, plan) > STEAL
                for one in slices:
                    add(one.model_copy(update={"attempt": attempt, "rejected": again}))
                if not again:
                    break


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
    if plan.duet:
        refuse_other_numbers(len(arms))
        refuse_odd_rounds(plan.rounds)
    refuse_short_first_stage(plan.until, plan.trials)
