"""A machine that drifts, with the spread that real runs show: what two servers on it measure.

Its spread comes from ``spread.json``, which ``upshift.measure.variance.spread`` finds in a run's samples.
"""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
from fake_bench import arm, duet_plan, one_slice, plan
from scipy.signal import lfilter

from upshift.measure.model import Load, Slice
from upshift.measure.schedule import turns
from upshift.measure.variant import Variant

SPREADS = json.loads((Path(__file__).parent / "spread.json").read_text())
TRIALS = 6
MEMORY = 0.8
"""Correlation of the machine's noise from one slice to the next."""
BETWEEN_TRIALS = 5
"""Slices that would fit into the start and warm-up of a trial's servers."""
ARMS = (arm("plain"), arm("pgo"))
LOADS = tuple(Load(workload="reads", connections=number, held_out=False) for number in (1, 2, 4, 8, 16, 32, 64, 128))


def simulate(
    seed: int,
    ratio: float,
    loads: tuple[Load, ...],
    rounds: int = 1,
    machine: str = "calm",
    arms: tuple[Variant, Variant] = ARMS,
    *,
    duet: bool = False,
    slower_seat: float = 1.0,
    own_log_sd: float = 0.0,
) -> list[Slice]:
    """What is measured of two arms, the second of which has ``ratio`` times the throughput: in turns, or in a ``duet``.

    Throughput = true speed x random offset of the server's start x drift of the machine x autocorrelated noise. Slices of the
    same time have drift and noise in common. The second set of a duet's CPUs has ``slower_seat`` times the speed of the first,
    and each slice has noise of its own with ``own_log_sd``.

    Drift: a slope of up to 10 % either way over the experiment and a slow wave of 5 %. Noise: AR(1), as deep as it takes for
    two neighbouring slices to differ as ``spread.json`` says of ``machine``. CPU time a query follows throughput.
    """
    chance = np.random.default_rng(seed)
    measured = (duet_plan if duet else plan)(trials=TRIALS, rounds=rounds, seed=seed)
    taken = [
        (trial, each.load.connections, turn * len(working) // len(arms), working)
        for trial in range(TRIALS)
        for each in turns(measured, trial, arms, loads)
        for turn, working in enumerate(each.turns)
    ]
    order = [
        (number + BETWEEN_TRIALS * trial, trial, connections, turn, arm.name, seat)
        for number, (trial, connections, turn, working) in enumerate(taken)
        for seat, arm in enumerate(working)
    ]
    moments = [moment for moment, *_turn in order]
    at = np.array(moments) / moments[-1]
    drift = chance.uniform(-0.1, 0.1) * at + 0.05 * np.sin(2 * math.pi * (3 * at + chance.uniform()))
    lies_apart = SPREADS[machine]
    depth = lies_apart["pair_log_sd"] / math.sqrt(2 * (1 - MEMORY))
    noise = lfilter([1], [1, -MEMORY], chance.normal(0, depth * math.sqrt(1 - MEMORY**2), moments[-1] + 51))[50:]
    starts = chance.normal(0, lies_apart["start_log_sd"] / math.sqrt(2), (TRIALS, len(arms)))
    template = one_slice(latency_ms_p99=None)
    own = chance.normal(0, own_log_sd, len(order))
    slices = []
    for (_moment, trial, connections, number, name, seat), slow in zip(order, drift + noise[moments] + own, strict=True):
        mine = name == arms[1].name
        log = (math.log(ratio) if mine else 0.0) + starts[trial, int(mine)] + slow + seat * math.log(slower_seat)
        changes = {
            "trial": trial,
            "round": number,
            "arm": name,
            "connections": connections,
            "seat": seat,
            "queries": round(1e6 * math.exp(log)),
        }
        slices.append(template.model_copy(update=changes))
    return slices
