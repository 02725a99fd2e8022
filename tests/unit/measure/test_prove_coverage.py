"""Whether the interval of `upshift stack prove` covers what the change brings, on machines that drift as real ones do."""

from __future__ import annotations

from collections import Counter

import pytest
from fake_bench import arm
from prove_examples import EQUAL, finding, scanning
from simulated_trials import LOADS, SPREADS, simulate

from upshift.measure.allocation import ROUNDS
from upshift.measure.model import Slice
from upshift.measure.statistics import comparisons
from upshift.stack.change import AS_SENT, CHANGED
from upshift.stack.proof import Change, Proof, proof_of
from upshift.stack.prove import of_suspect
from upshift.stack.suspects.model import Finding

ARMS = (arm(AS_SENT), arm(CHANGED))
EXPERIMENTS = 1000


def loaded(one: Slice) -> Slice:
    """With latencies: so many connections wait for each other."""
    each_ms = 8e6 / one.queries
    return one.model_copy(update={"latency_ms_p50": each_ms, "latency_ms_p95": 2 * each_ms, "latency_ms_p99": 3 * each_ms})


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Finding:
    return finding(scanning(tmp_path_factory.mktemp("export")), "P2")


def proven(found: Finding, seed: int, gain: float, machine: str) -> Proof:
    """What `prove` makes of an experiment with its own number of trials, where the change really brings ``gain``."""
    slices = [loaded(each) for each in simulate(seed, gain, LOADS[2:3], ROUNDS, machine, ARMS)]
    return proof_of(found, of_suspect(comparisons(slices, AS_SENT)), None, Change(), EQUAL)


@pytest.mark.parametrize("machine", SPREADS)
@pytest.mark.parametrize("gain", [0.8, 1.0, 1.05, 1.5, 4.0])
def test_the_interval_covers_the_true_gain_in_19_of_20(found: Finding, gain: float, machine: str) -> None:
    proofs = [proven(found, seed, gain, machine) for seed in range(EXPERIMENTS)]
    held = sum(one.ci_low <= gain <= one.ci_high for each in proofs for one in each.measured)
    words = Counter(each.verdict for each in proofs)
    assert held >= 0.95 * EXPERIMENTS
    # What brings nothing is called proven no more often than one interval in twenty misses.
    assert gain > 1 or words["proven"] <= 0.05 * EXPERIMENTS
    assert gain < 4 or words["proven"] == EXPERIMENTS
