"""How much: CPU time a query of both servers, its parts, and their ratios."""

from __future__ import annotations

import math
from collections.abc import Sequence

from upshift.explain import kernel
from upshift.explain.intervals import log_ratios
from upshift.explain.model import Change, ChangeMetric, Side, Slots
from upshift.explain.recording import Block
from upshift.explain.rows import Sampled
from upshift.instructions.model import Count
from upshift.measure.statistics import geometric_mean
from upshift.toolchain.perf import Event

CONFIDENCE = 0.95


def side(
    name: str,
    blocks: Sequence[Block],
    found: Sampled,
    event: Event,
    count: Count | None,
    slots: Slots | None = None,
) -> Side:
    """One server's own figures over all of its blocks; ``count`` is what it executes for a query, where somebody counted it."""
    total_us = sum(block.cpu_s for block in blocks) * 1e6 / found.queries
    system_us = found.us("kernel")
    return Side(
        server=name,
        queries=found.queries,
        cpu_us_per_query=total_us,
        user_us_per_query=found.cpu_s * 1e6 / found.queries - system_us,
        system_us_per_query=system_us if event == "cpu-clock" else None,
        switches_per_query=sum(block.switches for block in blocks) / found.queries,
        voluntary_switches_per_query=sum(block.voluntary_switches for block in blocks) / found.queries,
        # A kernel without schedstats says that nobody ever waits.
        run_delay_us_per_query=sum(block.run_delay_s for block in blocks) * 1e6 / found.queries or None,
        samples=found.samples,
        lost=sum(block.samples.lost for block in blocks),
        instructions_per_query=count.instructions_per_query if count else None,
        taken_branches_per_query=count.taken_branches_per_query if count else None,
        misses=count.misses if count else None,
        slots=slots,
    )


def changes(recorded: tuple[Sequence[Block], Sequence[Block]], before: Side, after: Side) -> tuple[Change, ...]:
    """Each figure of both servers that was something before, with Student's interval over pairs of neighbouring blocks."""
    known = before.system_us_per_query is not None
    metrics: tuple[ChangeMetric, ...] = ("cpu", "user", "system") if known else ("cpu",)
    found = [
        _change(metric, _of(before, metric), _of(after, metric), _logs(recorded, metric))
        for metric in metrics
        if _of(before, metric) > 0
    ]
    # User time is known also where perf may not sample the kernel, without an interval.
    if before.instructions_per_query and after.instructions_per_query:
        changed = any(_leaves_1_out(each) for each in found if each.metric == "user")
        found += _factors(before, after, before.instructions_per_query, after.instructions_per_query, changed=changed)
    return tuple(found)


def _leaves_1_out(each: Change) -> bool:
    return each.ci_low is not None and each.ci_high is not None and not each.ci_low <= 1 <= each.ci_high


def _factors(before: Side, after: Side, executed: float, executed_after: float, *, changed: bool) -> list[Change]:
    """User CPU time is instructions times time per instruction: in logarithms their changes add up.

    They have shares of its change if it ``changed`` by more than chance: of next to nothing, each would be any number.
    """
    times = (before.user_us_per_query / executed, after.user_us_per_query / executed_after)
    whole = math.log(after.user_us_per_query / before.user_us_per_query) if changed else 0.0
    shares = [math.log(ratio) / whole if whole else None for ratio in (executed_after / executed, times[1] / times[0])]
    return [
        _change("instructions", executed, executed_after, [], shares[0]),
        _change("time per instruction", *times, [], shares[1]),
    ]


def _change(metric: ChangeMetric, before: float, after: float, logs: Sequence[float], log_share: float | None = None) -> Change:
    value = after / before
    spread = geometric_mean(logs, CONFIDENCE) if len(logs) > 1 else None
    return Change(
        metric=metric,
        before=before,
        after=after,
        ratio=value,
        # The ratio of all blocks together, with the relative width that the pairs have around their mean.
        ci_low=value * spread.low / spread.value if spread else None,
        ci_high=value * spread.high / spread.value if spread else None,
        log_share=log_share,
    )


def _logs(recorded: tuple[Sequence[Block], Sequence[Block]], metric: ChangeMetric) -> list[float]:
    before, after = ([_block_us(block, metric) for block in blocks] for blocks in recorded)
    return log_ratios(before, after)


def _block_us(block: Block, metric: ChangeMetric) -> float:
    if not block.queries or not block.samples.total:
        return 0.0
    stacks = block.samples.stacks
    system = sum(count for stack, count in stacks.items() if kernel.in_kernel(stack)) / stacks.total()
    part = {"system": system, "user": 1 - system}.get(metric, 1.0)
    return block.cpu_s * 1e6 / block.queries * part


def _of(one: Side, metric: ChangeMetric) -> float:
    figures = {"cpu": one.cpu_us_per_query, "user": one.user_us_per_query, "system": one.system_us_per_query}
    return figures[metric] or 0.0
