"""Times of one statement on two servers that execute it in turns, and the ratio with its interval.

A round has the turns A, B, B and A: a machine that drifts evenly meets both alike, and each of them comes once after itself and
once after the other. A turn is the least of a few executions: what else runs on the machine makes one longer, and a short one
by more than engines differ. The round is the unit: one logarithm of B's time over A's. Student's interval over the rounds, and
the confidence that all statements of a comparison share, are those of ``measure.statistics``.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping
from typing import NamedTuple

from upshift.measure.statistics import Interval, common_confidence, estimate, interval
from upshift.stack.plans.asked import Clock, Timing
from upshift.stack.plans.statements import NotExplained

ABBA = (0, 1, 1, 0)
"""The order of a round: 0 is A."""
TURN_EXECUTIONS, TURN_MS = 5, 20.0
"""A turn executes so often, or until its executions took so long together."""


class Turns(NamedTuple):
    """The times of both in milliseconds, in the order in which they were taken: one a turn, two a round."""

    clock: Clock
    a_ms: tuple[float, ...]
    b_ms: tuple[float, ...]

    @property
    def logs(self) -> list[float]:
        """ln(B / A), one a round: the mean of its two pairs."""
        pairs = [math.log(b / a) for a, b in zip(self.a_ms, self.b_ms, strict=True)]
        return [(first + second) / 2 for first, second in zip(pairs[::2], pairs[1::2], strict=True)]


def take_turns(clock: Clock, a: Callable[[], float], b: Callable[[], float], rounds: int) -> Turns:
    """Execute on both in ``rounds`` of turns; each call gives the milliseconds of one execution.

    Raises NotExplained where an execution fails, or takes no time that the clock shows.
    """
    times: tuple[list[float], list[float]] = ([], [])
    for _round in range(rounds):
        for server in ABBA:
            times[server].append(_turn((a, b)[server]))
    if min(map(min, times)) <= 0:
        raise NotExplained("it takes less time than the server's clock shows", "E1 does not judge the engine by it")
    return Turns(clock, tuple(times[0]), tuple(times[1]))


def _turn(execute: Callable[[], float]) -> float:
    """The least of the turn's executions."""
    taken = [execute()]
    while len(taken) < TURN_EXECUTIONS and sum(taken) < TURN_MS:
        taken.append(execute())
    return min(taken)


def timings(turns: Mapping[str, Turns]) -> dict[str, Timing]:
    """The ratios of all statements, with intervals of one confidence: of those that exclude 1, few do so by chance."""
    means = {name: estimate(each.logs) for name, each in turns.items()}
    confidence = common_confidence(means.values())
    return {name: _timing(each, interval(means[name], confidence), confidence) for name, each in turns.items()}


def _timing(turns: Turns, ratio: Interval, confidence: float) -> Timing:
    return Timing(
        clock=turns.clock,
        rounds=len(turns.a_ms) // 2,
        a_ms=statistics.median(turns.a_ms),
        b_ms=statistics.median(turns.b_ms),
        ratio=ratio.value,
        ci_low=ratio.low,
        ci_high=ratio.high,
        confidence=confidence,
    )
