"""The pilot: it chooses how much load comes before a slice, from turns that do not count.

Right after another arm's turn the caches hold that arm's data, and the faster arm loses most by that. In the pilot's turns,
which are longer than a slice's, counters are read at each lead-in of a ladder. At each, the throughput in the slice that
would begin there is compared with that in the rest of the turn: a ratio of two arms that differs between the two is
carry-over. The shortest lead-in behind which none is seen is taken for all arms.

The choice is made before the first trial that counts, from none of its samples, and is the same for all arms: it moves no
ratio by chance.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, pairwise

from upshift.measure.bench import Bench, Clock, RunningArm
from upshift.measure.model import LeadIn, Load, Plan
from upshift.measure.schedule import Turns, seated, warmup_loads
from upshift.measure.statistics import UNBOUNDED_HIGH, estimate, half_width
from upshift.measure.turn import Asked, Kept, Sample, load_s, take_turns
from upshift.measure.variant import Variant
from upshift.values import Value

LADDER_S = (0.1, 0.2, 0.3, 0.5, 0.8)
"""The lead-ins to choose from."""
PILOT = 1_000_000
"""The number of the pilot's trial: no trial that counts has it."""
PILOT_TURNS = 12
"""Of each arm, beside the first one, in which its driver connects."""
_SEED = 1
_LEAST_TURNS = 4
"""With fewer, nothing is known of the noise."""
_BUDGET_SHARE = 0.2
"""Of the budget for measuring, what the pilot may take."""
_EDGES_S = (*LADDER_S, 1.2, 2.0)
"""Seconds of a turn at which counters are read."""
_WAITS_S = (_EDGES_S[0], *(after - before for before, after in pairwise(_EDGES_S)))
_SLICE_S = 0.3
"""The most that is needed for the slice behind a lead-in, up to the next edge: about what a slice of 0.4 s shows."""
_CONFIDENCE = 0.80
"""Of a difference. A lead-in that is too long costs time, one that is too short costs the truth: so less than elsewhere."""
_SMALL = 0.005
"""A difference below this share is none."""
NOT_ENOUGH_TIME = "no pilot: the budget leaves too little time for one, and the lead-in is the usual one"
NOISY = 0.03
"""With more noise than this, as a share, that no difference is seen is no reason for a shorter lead-in than the fixed one."""


class PilotTurn(Value):
    """An arm's counters in one turn."""

    workload: str
    arm: str
    round: int
    at_s: tuple[float, ...]
    """Since the first reading, which is at the shortest lead-in."""
    queries: tuple[int, ...]


class Pilot(Value):
    """What the pilot measured and chose."""

    took_s: float
    turns: tuple[PilotTurn, ...]
    lead_ins: tuple[LeadIn, ...]


def in_words(each: LeadIn) -> str:
    """What was chosen and why, without a full stop."""
    chosen = f"a lead-in of {each.lead_s:g} s for {each.workload}"
    if each.why == "longest":
        return f"{chosen}, the longest: the servers' ratio still moves by {abs(each.moved):.1%} behind it"
    if each.why == "noise" and each.noise >= UNBOUNDED_HIGH:
        return f"{chosen}: in the pilot's turns too few queries ended to tell whether a shorter one would do"
    if each.why == "noise":
        return f"{chosen}: with noise of {each.noise:.1%}, the pilot cannot tell whether a shorter one would do"
    return f"{chosen}: behind it the servers' ratio stays as it is, within {each.noise:.1%}"


def turns_within(plan: Plan, arms: int, loads: Sequence[Load]) -> int:
    """How many turns of each arm the plan's budget leaves for the pilot, at most as many as planned; 0: no pilot."""
    if arms < 2 or plan.budget_s is None:
        return plan.pilot_turns if arms > 1 else 0
    fit = [
        count
        for count in range(_LEAST_TURNS, plan.pilot_turns + 1)
        if math.fsum(pilot_load_s(plan, count, arms, each.connections) for each in warmup_loads(loads))
        <= _BUDGET_SHARE * plan.budget_s
    ]
    return max(fit, default=0)


def pilot_load_s(plan: Plan, count: int, arms: int, connections: int) -> float:
    """Seconds for the turns of a workload."""
    at_once = len(plan.duet) or 1
    return load_s(_WAITS_S, (count + 1) * arms // at_once, arms // at_once, connections, at_once=at_once)


def pilot_turns(
    plan: Plan,
    bench: Bench,
    running: Mapping[str, RunningArm],
    arms: Sequence[Variant],
    loads: Sequence[Load],
    count: int,
    *,
    before: Callable[[], object],
    asked: Asked,
    clock: Clock,
    sample: Sample,
) -> tuple[PilotTurn, ...]:
    """Each workload at its most connections, ``count`` turns of each arm, and one more in which its driver connects.

    ``before`` waits for the servers' background work. Raises LoadFailed or ServerFailed.
    """
    found: list[PilotTurn] = []
    for load in warmup_loads(loads):
        each = Turns(load=load, load_seed=_SEED, turns=tuple(chain.from_iterable(_rounds(plan, arms, count + 1))))
        before()
        kept = take_turns(bench, running, each, _WAITS_S, asked=asked, clock=clock, sample=sample)
        for arm, one in kept.items():
            found += _turns_of(load.workload, arm, one)
    return tuple(found)


def _rounds(plan: Plan, arms: Sequence[Variant], count: int) -> Iterator[tuple[tuple[Variant, ...], ...]]:
    """Each turn follows one of another arm, or of the same arm on other CPUs: after its own it would find warm caches."""
    for number in range(count):
        yield seated(plan, arms[::-1] if plan.duet and number % 2 else arms)


def _turns_of(workload: str, arm: str, one: Kept) -> Iterable[PilotTurn]:
    for number, moments in enumerate(one.taken[1:]):
        first = moments[0]
        yield PilotTurn(
            workload=workload,
            arm=arm,
            round=number,
            at_s=tuple(each.at_s - first.at_s for each in moments),
            queries=tuple(each.queries - first.queries for each in moments),
        )


def choose(found: Sequence[PilotTurn], baseline: str, fixed_s: float, slice_s: float) -> tuple[LeadIn, ...]:
    """The lead-in of each workload: the shortest behind which no arm's ratio to ``baseline`` moves beyond noise.

    ``fixed_s`` is taken without a pilot: where there is too much noise to tell, none shorter is chosen. Slices of ``slice_s``
    will follow the lead-in: what is left behind it moves a short one more than a long one.
    """
    return tuple(
        _chosen(workload, [each for each in found if each.workload == workload], baseline, fixed_s, slice_s)
        for workload in dict.fromkeys(each.workload for each in found)
    )


def _chosen(workload: str, found: Sequence[PilotTurn], baseline: str, fixed_s: float, slice_s: float) -> LeadIn:
    moved = noise = 0.0
    for rung, lead_s in enumerate(LADDER_S):
        differs, moved, noise = _moved(found, baseline, rung, slice_s)
        if differs or (lead_s < fixed_s and noise > NOISY):
            continue
        return LeadIn(
            workload=workload, lead_s=lead_s, why="noise" if noise > NOISY else "no difference", moved=moved, noise=noise
        )
    return LeadIn(workload=workload, lead_s=LADDER_S[-1], why="longest", moved=moved, noise=noise)


def _moved(found: Sequence[PilotTurn], baseline: str, rung: int, slice_s: float) -> tuple[bool, float, float]:
    """Whether the ratio of any arm to the baseline moves beyond noise behind this rung; by how much, of the arm that it moves
    most for; and the largest half-width. Shares both.
    """
    logs: dict[str, dict[int, float]] = {}
    for each in found:
        if (log := _early_to_late(each, rung, slice_s)) is not None:
            logs.setdefault(each.arm, {})[each.round] = log
    base = logs.pop(baseline, {})
    # Bonferroni: of several arms, any may be the one.
    confidence = 1 - (1 - _CONFIDENCE) / max(1, len(logs))
    differs, most, noise = False, 0.0, 0.0 if logs else UNBOUNDED_HIGH
    for by_round in logs.values():
        mean = estimate([by_round[number] - base[number] for number in sorted(by_round.keys() & base.keys())])
        half = half_width(mean, confidence) if math.isfinite(mean.error) else math.log(UNBOUNDED_HIGH)
        differs |= abs(mean.mean) > max(half, math.log1p(_SMALL))
        most = max(most, mean.mean, key=abs)
        noise = max(noise, math.expm1(half) if math.isfinite(mean.error) else UNBOUNDED_HIGH)
    return differs, math.expm1(most), noise


def _early_to_late(each: PilotTurn, rung: int, slice_s: float) -> float | None:
    """ln of the throughput in the slice behind the rung over that in the rest of the turn; None without queries."""
    least_s = min(_SLICE_S, slice_s) - 1e-9
    end = next(number for number, edge_s in enumerate(_EDGES_S) if edge_s - _EDGES_S[rung] >= least_s)
    early, late = _rate(each, rung, end), _rate(each, end, len(_EDGES_S) - 1)
    return math.log(early / late) if early > 0 and late > 0 else None


def _rate(each: PilotTurn, begin: int, end: int) -> float:
    return (each.queries[end] - each.queries[begin]) / (each.at_s[end] - each.at_s[begin])
