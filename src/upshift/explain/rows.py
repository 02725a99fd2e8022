"""Where CPU time goes before and after: samples by source function and by system call, in rows that add up to all of it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from upshift.explain import intervals, kernel
from upshift.explain.intervals import Counts, Noise
from upshift.explain.model import Home, Place, Row, Verdict
from upshift.explain.names import source_name
from upshift.explain.recording import Block
from upshift.explain.script import Stack
from upshift.explain.symbols import Groups
from upshift.measure.statistics import joint_confidence

FEWEST_SAMPLES = 30
"""Of both servers together, for a row of its own: with fewer, not even a halving could be told from chance."""
_OTHER: Mapping[Home, str] = {
    "server": "other functions of the server",
    "library": "other functions of libraries",
    "kernel": "other ways into the kernel",
}


def place(stack: Stack, groups: Groups) -> Place:
    """What a stack's innermost frame counts to."""
    if kernel.in_kernel(stack):
        return Place("kernel", kernel.entry(stack))
    leaf = stack[0]
    if leaf.home:
        return Place("library", f"{leaf.symbol} ({leaf.home})")
    return Place("server", groups.of(source_name(leaf.symbol)))


@dataclass(frozen=True)
class Sampled:
    """One server's samples by place, and what a sample stands for."""

    places: Counter[Place]
    queries: int
    cpu_s: float
    """What the samples stand for."""
    dispersion: float
    us_by_block: tuple[float, ...]
    """CPU microseconds a query; 0 for a block without queries."""

    @property
    def samples(self) -> int:
        return self.places.total()

    @property
    def us_a_sample(self) -> float:
        """CPU microseconds a query that one sample stands for."""
        return self.cpu_s * 1e6 / self.queries / self.samples

    def us(self, home: Home) -> float:
        return self.us_a_sample * sum(count for each, count in self.places.items() if each.home == home)


def sampled(blocks: Sequence[Block], groups: Groups) -> Sampled:
    """Several blocks of one server together."""
    by_block = [_places(block, groups) for block in blocks]
    names = [{"\0".join(each): count for each, count in block.items()} for block in by_block]
    return Sampled(
        places=sum(by_block, Counter()),
        queries=sum(block.queries for block in blocks),
        cpu_s=sum(block.sampled_cpu_s for block in blocks),
        dispersion=intervals.dispersion(names),
        us_by_block=tuple(block.sampled_cpu_s * 1e6 / block.queries if block.queries else 0.0 for block in blocks),
    )


def noise(before: Sampled, after: Sampled) -> Noise:
    """What all rows of two servers have in common."""
    return intervals.noise(max(before.dispersion, after.dispersion), before.us_by_block, after.us_by_block)


def rows(before: Sampled, after: Sampled, shown: Mapping[str, str]) -> tuple[tuple[Row, ...], float]:
    """All rows, the largest difference first, and the confidence of their intervals. ``shown`` has names for people."""
    merged = _merged(before, after)
    exposure = before.us_a_sample / after.us_a_sample
    common = noise(before, after)
    confidence = joint_confidence(intervals.chance(each.counts, exposure, common) for each in merged)
    found = [_row(each, before, after, exposure, common, confidence, shown) for each in merged]
    return tuple(sorted(found, key=lambda row: (row.rest, -abs(row.difference_us), row.name))), confidence


class _Merged(NamedTuple):
    place: Place
    counts: Counts
    functions: int = 1
    rest: bool = False


def _merged(before: Sampled, after: Sampled) -> list[_Merged]:
    """A row a place with enough samples, and one for the rest of each home."""
    found: list[_Merged] = []
    rest: dict[Home, list[Counts]] = {}
    for each in sorted({*before.places, *after.places}):
        counts = Counts(before.places[each], after.places[each])
        if sum(counts) >= FEWEST_SAMPLES:
            found.append(_Merged(each, counts))
        else:
            rest.setdefault(each.home, []).append(counts)
    for home, several in rest.items():
        counts = Counts(sum(each.before for each in several), sum(each.after for each in several))
        found.append(_Merged(Place(home, _OTHER[home]), counts, len(several), rest=True))
    return found


def _row(
    each: _Merged,
    before: Sampled,
    after: Sampled,
    exposure: float,
    common: Noise,
    confidence: float,
    shown: Mapping[str, str],
) -> Row:
    counts, (home, name) = each.counts, each.place
    found = intervals.ratio(counts, exposure, confidence, common)
    before_us, after_us = counts.before * before.us_a_sample, counts.after * after.us_a_sample
    verdict: Verdict = "less" if found.high < 1 else "more" if found.low > 1 else "not told apart"
    return Row(
        name=shown.get(name, name),
        home=home,
        functions=each.functions,
        rest=each.rest,
        before_samples=counts.before,
        after_samples=counts.after,
        before_us=before_us,
        after_us=after_us,
        difference_us=after_us - before_us,
        before_share=counts.before / before.samples,
        after_share=counts.after / after.samples,
        ratio=found.value if counts.before else None,
        ci_low=found.low,
        ci_high=found.high if math.isfinite(found.high) else None,
        verdict=verdict,
        symbol=name if home == "server" and not each.rest else "",
    )


def _places(block: Block, groups: Groups) -> Counter[Place]:
    places: Counter[Place] = Counter()
    for stack, count in block.samples.stacks.items():
        places[place(stack, groups)] += count
    return places
