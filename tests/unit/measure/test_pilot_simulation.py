"""Whether the pilot's lead-in covers what a turn leaves in the next one, on a machine that is made up.

Throughput in a turn is ``1 - depth * exp(-t / decay_s)`` of a server's own, under autocorrelated noise.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.signal import lfilter

from upshift.measure.allocation import SHORT_SLICE_S
from upshift.measure.model import LeadIn
from upshift.measure.pilot import _EDGES_S as EDGES_S  # the moments at which a turn is read
from upshift.measure.pilot import LADDER_S, PILOT_TURNS, PilotTurn, choose
from upshift.options import LEAD_S, SLICE_S

PILOTS = 200
STEP_S = 0.05
MEMORY = 0.5
"""Correlation of the noise from one step to the next."""
QPS = 20_000
CALM, NOISY = 0.02, 0.10
"""Standard deviation of a slice's throughput within a turn."""


def noise(chance: np.random.Generator, steps: int, deep: float) -> np.ndarray:
    found: np.ndarray = lfilter([1], [1, -MEMORY], chance.normal(0, 1, steps + 40))[40:] * math.sqrt(1 - MEMORY**2)
    of = round(SLICE_S / STEP_S)
    return found * deep / math.sqrt(sum((of - abs(lag)) * MEMORY ** abs(lag) for lag in range(1 - of, of)) / of**2)


def one_turn(chance: np.random.Generator, arm: str, number: int, depth: float, decay_s: float, deep: float) -> PilotTurn:
    steps = round(EDGES_S[-1] / STEP_S)
    at_s = (np.arange(steps) + 0.5) * STEP_S
    qps = QPS * np.exp(noise(chance, steps, deep)) * (1 - depth * np.exp(-at_s / decay_s))
    done = np.concatenate([[0.0], np.cumsum(qps * STEP_S)])
    read = [done[round(edge_s / STEP_S)] for edge_s in EDGES_S]
    return PilotTurn(
        workload="reads",
        arm=arm,
        round=number,
        at_s=tuple(edge_s - EDGES_S[0] for edge_s in EDGES_S),
        queries=tuple(round(each - read[0]) for each in read),
    )


def pilots(depth: float, decay_s: float, deep: float, slice_s: float = SLICE_S) -> list[LeadIn]:
    """What pilots choose for a server that a turn before it slows down, beside one that it does not."""
    found: list[LeadIn] = []
    for seed in range(PILOTS):
        chance = np.random.default_rng(seed)
        turns = [
            one_turn(chance, arm, number, depth * (arm == "pgo"), decay_s, deep)
            for number in range(PILOT_TURNS)
            for arm in ("plain", "pgo")
        ]
        found += choose(turns, "plain", LEAD_S, slice_s)
    return found


def left(depth: float, decay_s: float, lead_s: float, slice_s: float = SLICE_S) -> float:
    """What is left of it in a slice behind a lead-in, as a share of the ratio."""
    return depth * decay_s / slice_s * (math.exp(-lead_s / decay_s) - math.exp(-(lead_s + slice_s) / decay_s))


def test_without_carry_over_the_shortest_lead_in_is_chosen_in_most_cases() -> None:
    found = pilots(0.0, 1.0, CALM)
    assert sum(each.lead_s == LADDER_S[0] for each in found) / PILOTS >= 0.70
    assert all(each.why == "no difference" for each in found if each.lead_s == LADDER_S[0])


# Three time constants make "over": what is left then is 5 % of it.
@pytest.mark.parametrize("over_s", [0.05, 0.1, 0.3, 0.6, 1.0])
@pytest.mark.parametrize("depth", [0.1, 0.3])
@pytest.mark.parametrize(("slice_s", "bound"), [(SLICE_S, 0.02), (SHORT_SLICE_S, 0.025)])
def test_what_the_chosen_lead_in_leaves_of_carry_over_is_small(
    slice_s: float, bound: float, depth: float, over_s: float
) -> None:
    found = pilots(depth, over_s / 3, CALM, slice_s)
    assert np.mean([left(depth, over_s / 3, each.lead_s, slice_s) for each in found]) < bound


def test_the_shortest_one_would_leave_much() -> None:
    """The bound above is no gift: it is a fourth of this."""
    assert left(0.3, 1.0 / 3, LADDER_S[0]) > 0.08


@pytest.mark.parametrize("depth", [0.1, 0.3])
def test_carry_over_longer_than_the_ladder_takes_the_longest_lead_in(depth: float) -> None:
    found = pilots(depth, 1.0, CALM)
    assert sum(each.lead_s == LADDER_S[-1] for each in found) / PILOTS >= 0.85
    if depth > 0.2:
        assert sum(each.why == "longest" and each.moved < -0.03 for each in found) / PILOTS >= 0.95


@pytest.mark.parametrize(("depth", "decay_s"), [(0.0, 1.0), (0.3, 0.1), (0.3, 1.0)])
def test_noise_shortens_no_lead_in(depth: float, decay_s: float) -> None:
    found = pilots(depth, decay_s, NOISY)
    assert sum(each.lead_s < LEAD_S for each in found) / PILOTS <= 0.02
    assert sum(each.why == "noise" for each in found) > 0
