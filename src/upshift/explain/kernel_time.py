"""Why the kernel takes more or less of a query's time: how often it is entered, and what entering costs, by what it is for.

Time comes from samples, calls from perf's counters in turns of their own; a call's cost is the quotient of both.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, get_args

from upshift.explain import intervals
from upshift.explain.calls import Round, Rounds, rate
from upshift.explain.intervals import Counts, Ratio
from upshift.explain.model import Figure, Group, KernelGroup, KernelTime, Place, Verdict
from upshift.explain.rows import Sampled, noise
from upshift.measure.statistics import MARGIN, geometric_mean, joint_confidence

Limits = Callable[[float], Ratio]
"""A ratio with the limits of a confidence."""

INTERRUPTS = "interrupts"
"""What rounds call those by which CPUs of the load were woken or called."""

_LEAST_TAIL, _MOST_TAIL = 1e-9, 0.4999
_HALVINGS = 60


class _Draft(NamedTuple):
    before: float
    after: float
    limits: Limits


def kernel_time(
    found: tuple[Sampled, Sampled],
    rounds: tuple[Rounds, Rounds],
    groups: Mapping[str, Group],
    *,
    waking: tuple[int, int] = (0, 0),
    interrupts: tuple[Rounds, Rounds] = ((), ()),
) -> KernelTime | None:
    """By group, largest first; None where nothing was sampled in the kernel. ``groups`` are those of all ways into it.

    ``waking`` are both servers' samples in which a thread wakes another; ``interrupts`` count under ``INTERRUPTS``, a round
    for each block that was sampled.

    All intervals have one confidence, by Benjamini and Hochberg's procedure. A ratio within a hundredth of 1 is no verdict: the
    edges of what is counted are not sharper.
    """
    drafts = {group: _drafts(found, rounds, [name for name in groups if groups[name] == group]) for group in get_args(Group)}
    drafts = {group: each for group, each in drafts.items() if each}
    if not drafts:
        return None
    beside = {}
    if any(waking):
        beside["waking"] = _spent(found, Counts(*waking))
    if any(each.counts[INTERRUPTS] for own in interrupts for each in own):
        beside["interrupts"] = _calls(interrupts, [INTERRUPTS])
    confidence = joint_confidence(_chance(each.limits) for own in (*drafts.values(), beside) for each in own.values())
    made = []
    for group, own in drafts.items():
        names = [name for name in groups if groups[name] == group]
        figures = {name: _figure(each, confidence) for name, each in own.items()}
        ways = sorted(names, key=lambda name: (-sum(_samples(each, [name]) for each in found), name))
        counted = tuple(name for name in ways if _counted(name, found, rounds))
        made.append(KernelGroup(name=group, ways=tuple(ways), counted=counted, **figures))
    return KernelTime(
        confidence=confidence,
        groups=tuple(sorted(made, key=lambda each: -each.us.before)),
        **{name: _figure(each, confidence) for name, each in beside.items()},
    )


def _drafts(found: tuple[Sampled, Sampled], rounds: tuple[Rounds, Rounds], names: list[str]) -> dict[str, _Draft]:
    """Its time, and where calls were counted, these and what each takes."""
    if not any(_samples(each, names) for each in found):
        return {}
    drafts = {"us": _time(found, names)}
    counted = [name for name in names if _counted(name, found, rounds)]
    if counted and all(_samples(each, counted) for each in found):
        drafts["calls"] = _calls(rounds, counted)
        drafts["us_a_call"] = _cost(_time(found, counted), drafts["calls"])
    return drafts


def _time(found: tuple[Sampled, Sampled], names: Iterable[str]) -> _Draft:
    names = tuple(names)
    return _spent(found, Counts(*(_samples(each, names) for each in found)))


def _spent(found: tuple[Sampled, Sampled], counts: Counts) -> _Draft:
    """What so many samples of both servers stand for."""
    before, after = found
    exposure, common = before.us_a_sample / after.us_a_sample, noise(before, after)
    return _Draft(
        counts.before * before.us_a_sample,
        counts.after * after.us_a_sample,
        lambda confidence: intervals.ratio(counts, exposure, confidence, common),
    )


def _calls(rounds: tuple[Rounds, Rounds], names: Iterable[str]) -> _Draft:
    """Student's interval over pairs of neighbouring rounds; of counts alone where a round had none."""
    names = tuple(names)
    before, after = ([_a_query(each, names) for each in own] for own in rounds)
    totals = [sum(rate(own, name) for name in names) for own in rounds]
    logs = intervals.log_ratios(before, after)

    def student(confidence: float) -> Ratio:
        spread = geometric_mean(logs, confidence)
        value = totals[1] / totals[0]
        # The ratio of all rounds together, with the relative width that the pairs have around their mean.
        return Ratio(value, value * spread.low / spread.value, value * spread.high / spread.value)

    def counted(confidence: float) -> Ratio:
        counts = Counts(*(sum(each.counts.get(name, 0) for each in own for name in names) for own in rounds))
        queries = [sum(each.queries for each in own) for own in rounds]
        return intervals.ratio(counts, queries[1] / queries[0], confidence)

    return _Draft(totals[0], totals[1], student if len(logs) == len(before) > 1 else counted)


def _cost(time: _Draft, calls: _Draft) -> _Draft:
    """Limits by the method of variance estimates recovery (Zou and Donner, "Construction of confidence limits about effect
    measures", 2008): distances of the two parts' limits, in logarithms, add up as the sides of a right angle do.
    """

    def limits(confidence: float) -> Ratio:
        us, often = time.limits(confidence), calls.limits(confidence)
        value = us.value / often.value
        down = math.hypot(_distance(us.low, us.value), _distance(often.value, often.high))
        up = math.hypot(_distance(us.value, us.high), _distance(often.low, often.value))
        return Ratio(value, value * math.exp(-down), value * math.exp(up) if up < 700 else math.inf)

    return _Draft(time.before / calls.before, time.after / calls.after, limits)


def _distance(low: float, high: float) -> float:
    return math.log(high / low) if low > 0 and math.isfinite(high) else math.inf


def _chance(limits: Limits) -> float:
    """The two-sided p-value that nothing differs: at less confidence the limits leave 1 out."""
    low, high = math.log(_LEAST_TAIL), math.log(_MOST_TAIL)
    if not _leaves_one_out(limits(1 - 2 * math.exp(high))):
        return 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if _leaves_one_out(limits(1 - 2 * math.exp(middle))) else (middle, high)
    return 2 * math.exp(high)


def _leaves_one_out(found: Ratio) -> bool:
    return found.high < 1 or found.low > 1


def _figure(draft: _Draft, confidence: float) -> Figure:
    found = draft.limits(confidence)
    verdict: Verdict = "not told apart"
    if found.high < 1 and found.value < 1 / (1 + MARGIN):
        verdict = "less"
    elif found.low > 1 and found.value > 1 + MARGIN:
        verdict = "more"
    return Figure(
        before=draft.before,
        after=draft.after,
        ratio=found.value if draft.before else None,
        ci_low=found.low,
        ci_high=found.high if math.isfinite(found.high) else None,
        verdict=verdict,
    )


def _samples(found: Sampled, names: Iterable[str]) -> int:
    return sum(found.places[Place("kernel", name)] for name in names)


def _counted(name: str, found: tuple[Sampled, Sampled], rounds: tuple[Rounds, Rounds]) -> bool:
    """Whether counts tell how often it is made.

    Sampled for many seconds and counted for few: what is rare may not have been made while it was counted.
    """
    return all(
        own and all(name in each.counts for each in own) and (rate(own, name) or not _samples(sampled, [name]))
        for sampled, own in zip(found, rounds, strict=True)
    )


def _a_query(each: Round, names: Iterable[str]) -> float:
    return sum(each.counts.get(name, 0) for name in names) / each.queries
