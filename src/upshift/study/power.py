"""What a study can be expected to see: half-widths of intervals, and the trials that an effect needs.

``upshift.measure.noise`` says what the two parts of the noise are.
"""

from __future__ import annotations

import math
from bisect import bisect_left

from scipy.special import stdtrit

from upshift.study.designs import Design
from upshift.study.intervals import LEVEL

MOST_TRIALS = 1000


def half_width(
    design: Design, trials: int, *, start_log_sd: float, pair_log_sd: float, blocks: float, replicates: int | None = None
) -> float:
    """Half of the width of a factor's interval to expect, as a logarithm; ``blocks`` are those of a server in a trial.

    ``replicates``, where trials share trainings or layouts, says how many of these there are; their own luck is not in it.
    """
    replicates = replicates or trials
    if replicates < 2:
        return math.inf
    return _quantile(design, replicates) * _error(design, trials, start_log_sd, pair_log_sd, blocks)


def trials_for(effect: float, design: Design, *, start_log_sd: float, pair_log_sd: float, blocks: float) -> int:
    """The fewest trials that find a factor's effect, such as 0.02, in nineteen studies of twenty; at most ``MOST_TRIALS``."""

    def finds(trials: int) -> bool:
        error = _error(design, trials, start_log_sd, pair_log_sd, blocks)
        enough = float(stdtrit(_freedom(design, trials), 0.95))
        return math.log1p(effect) >= (_quantile(design, trials) + enough) * error

    return bisect_left(range(MOST_TRIALS), True, lo=2, key=finds)


def _error(design: Design, trials: int, start_log_sd: float, pair_log_sd: float, blocks: float) -> float:
    one_server = (start_log_sd**2 + pair_log_sd**2 / blocks) / 2
    rows = len(design.rows)
    if design.kind in ("one-at-a-time", "steps", "grid"):
        return math.sqrt(2 * one_server / trials)
    levels = max(len(factor.levels) for factor in design.factors)
    return math.sqrt(2 * levels * one_server / rows / trials)


def _quantile(design: Design, trials: int) -> float:
    tested = sum(len(factor.levels) - 1 for factor in design.factors)
    return float(stdtrit(_freedom(design, trials), 1 - LEVEL / tested / 2))


def _freedom(design: Design, trials: int) -> int:
    return (trials - 1) * (len(design.rows) - 1)
