"""What a study can be expected to see: half-widths of intervals.

``upshift.measure.noise`` says what the two parts of the noise are.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

import numpy as np
from scipy.special import stdtrit

from upshift.study.contrasts import contrasts_of
from upshift.study.designs import Design
from upshift.study.intervals import LEVEL, servers_of

Groups = Sequence[Collection[str]]
"""Names of rows that run side by side, each group with a start of all off of its own; none: all do."""


def half_width(
    design: Design,
    trials: int,
    *,
    start_log_sd: float,
    pair_log_sd: float,
    blocks: float,
    replicates: int | None = None,
    groups: Groups = (),
) -> float:
    """Half of the width to expect of the widest factor's interval, as a logarithm; ``blocks`` are those of a server in a trial.

    ``replicates``, where trials share trainings or layouts, says how many of these there are; their own luck is not in it.
    """
    replicates = replicates or trials
    if replicates < 2:
        return math.inf
    return _quantile(design, replicates) * _error(design, trials, start_log_sd, pair_log_sd, blocks, groups)


def _error(design: Design, trials: int, start_log_sd: float, pair_log_sd: float, blocks: float, groups: Groups) -> float:
    one_server = (start_log_sd**2 + pair_log_sd**2 / blocks) / 2
    return math.sqrt(_servers(design, groups) * one_server / trials)


def _servers(design: Design, groups: Groups) -> float:
    """How many servers' noise is in what the worst known factor is judged by: two of a difference between rows side by side."""
    names = [design.name(row) for row in design.rows]
    of = {name: number for number, group in enumerate(groups) for name in group}
    servers = servers_of(names, names[0], of or dict.fromkeys(names, 0))
    contrasts = contrasts_of(design, design.rows)
    judged = contrasts.alone if design.kind == "one-at-a-time" else {**contrasts.alone, **contrasts.share}
    # A grid may tell no factor apart.
    return max((float(np.sum((each @ servers) ** 2)) for each in judged.values()), default=2.0)


def _quantile(design: Design, trials: int) -> float:
    tested = sum(len(factor.levels) - 1 for factor in design.factors)
    return float(stdtrit(_freedom(design, trials), 1 - LEVEL / tested / 2))


def _freedom(design: Design, trials: int) -> int:
    return (trials - 1) * (len(design.rows) - 1)
