"""A machine that drifts, with the spread that real runs show: what two servers on it measure.

Its spread comes from ``spread.json``, which ``upshift.study.variance.spread`` finds in a run's samples.
"""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
from fake_bench import arm, one_slice, plan
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
) -> list[Slice]:
    """What is measured of two arms, the second of which has ``ratio`` times the throughput.

    Throughput = true speed x random offset of the server's start x drift of the machine x autocorrelated noise.

    Drift: a slope of up to 10 % either way over the experiment and a slow wave of 5 %. Noise: AR(1), as deep as it takes for
    two neighbouring slices to differ as ``spread.json`` says of ``machine``. CPU time a query follows throughput.
    """
    chance = np.random.default_rng(seed)
    measured = plan(trials=TRIALS, rounds=rounds, seed=seed)
    order = [
        (trial, each.load.connections, turn // len(arms), arm.name)
        for trial in range(TRIALS)
        for each in turns(measured, trial, arms, loads)
        for turn, arm in enumerate(each.arms)
    ]
    moments = [number + BETWEEN_TRIALS * trial for number, (trial, *_turn) in enumerate(order)]
    at = np.array(moments) / moments[-1]
    drift = chance.uniform(-0.1, 0.1) * at + 0.05 * np.sin(2 * math.pi * (3 * at + chance.uniform()))
    lies_apart = SPREADS[machine]
    depth = lies_apart["pair_log_sd"] / math.sqrt(2 * (1 - MEMORY))
    noise = lfilter([1], [1, -MEMORY], chance.normal(0, depth * math.sqrt(1 - MEMORY**2), moments[-1] + 51))[50:]
    starts = chance.normal(0, lies_apart["start_log_sd"] / math.sqrt(2), (TRIALS, len(arms)))
    template = one_slice(latency_ms_p99=None)
    slices = []
    for (trial, connections, number, name), slow in zip(order, drift + noise[moments], strict=True):
        mine = name == arms[1].name
        log = (math.log(ratio) if mine else 0.0) + starts[trial, int(mine)] + slow
        changes = {
            "trial": trial,
            "round": number,
            "arm": name,
            "connections": connections,
            "queries": round(1e6 * math.exp(log)),
        }
        slices.append(template.model_copy(update=changes))
    return slices
