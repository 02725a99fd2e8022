"""Figures at the usual speed of the servers' CPUs, as a probe found it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from fake_bench import READS, WRITES, World, arm, one_slice, plan

from upshift.measure.experiment import run_experiment
from upshift.measure.kernel import Usage
from upshift.measure.model import Comparison, Load, Slice
from upshift.measure.samples import read_samples
from upshift.measure.speed import at_usual_speed, slowed_share
from upshift.measure.statistics import comparisons, trial_values

QUERIES = 10_000
TRIALS, ROUNDS = 12, 10
SLOPE = 0.7


def slices(us: Mapping[str, np.ndarray], probe_us: Mapping[str, np.ndarray], load: Load = READS) -> list[Slice]:
    """Turns with these CPU times a query, and of the probe's work, by arm: a row a trial, a column a round. The CPU is busy."""
    return [
        one_slice(
            trial=trial,
            arm=arm,
            round=round,
            queries=QUERIES,
            wall_s=float(each) * QUERIES / 1e6,
            total_cpu_s=float(each) * QUERIES / 1e6,
            probe_us=float(probe_us[arm][trial, round]),
            **load.model_dump(),
        )
        for arm, trials in us.items()
        for trial, turns in enumerate(trials)
        for round, each in enumerate(turns)
    ]


def slowed(times: np.ndarray, us: float = 20.0, slope: float = SLOPE) -> tuple[np.ndarray, np.ndarray]:
    """CPU times a query and of the probe's unit, where the latter takes so many times its usual 50 us."""
    return us * times**slope, 50 * times


def cpu_us(made: list[Slice], arm: str, load: Load = READS) -> dict[int, float]:
    return trial_values(made)[arm, load]["total_cpu_us_per_query"]


def test_without_a_probe_slices_stay_as_they_are() -> None:
    made = slices({"old": np.full((2, 4), 20.0)}, {"old": np.zeros((2, 4))})
    assert at_usual_speed(made) == made and slowed_share(made) is None


def test_what_follows_the_probe_is_carried_to_its_usual_time() -> None:
    times = np.array([[1.0, 2, 1, 1.5], [1, 1, 1.2, 1]])
    us, probe_us = slowed(times)
    made = slices({"old": us}, {"old": probe_us})
    assert cpu_us(made, "old") == pytest.approx({0: 20.0, 1: 20.0})
    assert trial_values(made)["old", READS]["qps"] == pytest.approx({0: 50_000, 1: 50_000})
    assert slowed_share(made) == pytest.approx(3 / 8)
    (first, second, *_others) = at_usual_speed(made)
    assert (first.queries, first.probe_us) == (QUERIES, 0.0) and first.total_cpu_s == pytest.approx(second.total_cpu_s)
    assert second.half_wall_s == pytest.approx(second.wall_s / 2)
    assert at_usual_speed([first, second]) == [first, second]


def test_each_load_has_its_own_slope_and_usual_time() -> None:
    made = [
        one
        for load, slope in ((READS, 0.5), (WRITES, 1.2))
        for us, probe_us in [slowed(np.array([[1.0, 2, 1, 1.5]] * 2), slope=slope)]
        for one in slices({"old": us}, {"old": probe_us}, load)
    ]
    for load in (READS, WRITES):
        assert cpu_us(made, "old", load) == pytest.approx({0: 20.0, 1: 20.0})


def test_one_server_that_met_more_bursts_is_no_slower() -> None:
    calm, busy = np.array([[1.0, 1, 1, 1.1]] * 3), np.array([[2.0, 1, 1.7, 1]] * 3)
    (old, old_probe), (new, new_probe) = slowed(calm), slowed(busy, us=10.0)
    made = slices({"old": old, "new": new}, {"old": old_probe, "new": new_probe})
    compared = next(each for each in comparisons(made, "old") if each.metric == "total_cpu_us_per_query")
    assert compared.ratio == pytest.approx(0.5)


@pytest.mark.parametrize("rounds", [1, 2])
def test_what_rises_as_the_probe_falls_does_not_follow_it(rounds: int) -> None:
    """Nor does what has a single turn in each trial."""
    us, probe_us = np.array([[20.0, 30.0], [21.0, 31.0]]), np.array([[60.0, 50.0], [61.0, 50.0]])
    made = slices({"old": us[:, :rounds]}, {"old": probe_us[:, :rounds]})
    assert [one.total_cpu_s for one in at_usual_speed(made)] == [one.total_cpu_s for one in made]


def test_a_slice_without_queries_is_carried_with_the_others() -> None:
    us, probe_us = slowed(np.array([[1.0, 2, 1, 1.5]]))
    made = slices({"old": us}, {"old": probe_us})
    idle = made[0].model_copy(update={"round": 4, "queries": 0, "half_queries": 0, "probe_us": 100.0})
    *others, last = at_usual_speed([*made, idle])
    assert last.queries == 0 and last.total_cpu_s == pytest.approx(idle.total_cpu_s / 2**SLOPE)
    assert [one.total_cpu_s for one in others] == pytest.approx([others[0].total_cpu_s] * 4)


def test_a_trial_in_which_the_probe_missed_a_slice_is_compared_as_measured() -> None:
    """A server that is carried beside one that is not would look faster by what the machine's bursts take."""
    times = np.array([[1.0, 2, 1, 1.5]] * 3)
    us, probe_us = slowed(times)
    lost = probe_us.copy()
    lost[0, 2] = 0
    made = slices({"old": us, "new": us}, {"old": probe_us, "new": lost})
    assert cpu_us(made, "old") == pytest.approx({0: us[0].mean(), 1: 20.0, 2: 20.0})
    assert cpu_us(made, "new") == pytest.approx(cpu_us(made, "old"))
    assert at_usual_speed(at_usual_speed(made)) == at_usual_speed(made)


@dataclass
class Probed(World):
    """A machine that a neighbour slows to half its speed now and then, with a probe that needs 50 us else."""

    probe_cpu_s: float = 0.0

    @staticmethod
    def slowed(time_s: float) -> float:
        return 0.5 if int(time_s / 3.7) % 4 == 0 else 1.0

    def sleep(self, seconds: float) -> None:
        self.probe_cpu_s += seconds / 0.005 * 50e-6 / self.slowed(self.time_s)
        super().sleep(seconds)

    def usage(self, pid: int) -> Usage:
        return replace(super().usage(pid), probe_units=round(self.time_s / 0.005), probe_cpu_s=self.probe_cpu_s)


def test_an_experiment_has_the_figures_of_the_usual_speed(tmp_path: Path) -> None:
    bench = Probed({"plain": 1000.0, "pgo": 1300.0}, speed=lambda time_s, _arm: Probed.slowed(time_s))
    found = run_experiment(
        plan().model_copy(update={"rounds": 8, "speed_probe": True}),
        [arm("plain"), arm("pgo")],
        ["plain"],
        [READS],
        bench,
        clock=bench,
        sample=bench.usage,
        samples=tmp_path / "samples.parquet",
        on_progress=lambda _at: None,
    )
    assert found.slowed_share is not None and 0.1 < found.slowed_share < 0.6
    level = {each.arm: each.value for each in found.levels if each.metric == "qps"}
    assert level == pytest.approx({"plain": 1000.0, "pgo": 1300.0}, rel=0.03)
    assert {round(each.probe_us) for each in read_samples(tmp_path / "samples.parquet")} >= {50, 100}


def machine(chance: np.random.Generator, often: float) -> tuple[np.ndarray, np.ndarray]:
    """How much slower a server's turns are, and the probe's work in them. A burst of a neighbour slows both, never equally;
    so does one that lasts for a trial. A start has its own luck.
    """
    shape = (TRIALS, ROUNDS)
    burst = (chance.random(shape) < often) * chance.uniform(0.1, 0.7, shape)
    burst += (chance.random((TRIALS, 1)) < often) * chance.uniform(0, 0.3, shape)
    follows = chance.normal(SLOPE, 0.15, shape)
    start = chance.normal(0, 0.015, (TRIALS, 1))
    return np.exp(follows * burst + start + chance.normal(0, 0.03, shape)), np.exp(burst + chance.normal(0, 0.02, shape))


def experiment(chance: np.random.Generator, ratio: float, often: float) -> list[Slice]:
    (old, old_probe), (new, new_probe) = machine(chance, often), machine(chance, often)
    return slices({"old": 20 * old, "new": 20 * ratio * new}, {"old": 50 * old_probe, "new": 50 * new_probe})


def of_cpu(made: list[Slice]) -> Comparison:
    return next(each for each in comparisons(made, "old") if each.metric == "total_cpu_us_per_query")


@pytest.mark.parametrize(("often", "narrower"), [(0.0, 1.05), (0.2, 2 / 3), (0.5, 2 / 3)])
def test_intervals_cover_the_ratio_and_are_narrower_in_bursts(often: float, narrower: float) -> None:
    """The true ratio is one that is always called, so that intervals are those of 95 %."""
    chance = np.random.default_rng(4)
    held = 0
    widths: dict[bool, list[float]] = {True: [], False: []}
    experiments = 200
    for _ in range(experiments):
        made = experiment(chance, 0.7, often)
        without = [each.model_copy(update={"probe_us": 0.0}) for each in made]
        found = {probed: of_cpu(of) for probed, of in ((True, made), (False, without))}
        held += found[True].ci_low < 0.7 < found[True].ci_high
        for probed, one in found.items():
            widths[probed].append(float(np.log(one.ci_high / one.ci_low)))
    assert 0.91 <= held / experiments <= 0.99
    assert np.median(widths[True]) < narrower * np.median(widths[False])


def test_a_probe_that_one_server_slows_moves_the_ratio_by_no_more_than_that() -> None:
    """A server that leaves less of the caches to the probe: 1 % of its time is 0.7 % of the ratio, which the docs say."""
    chance = np.random.default_rng(5)
    us, probe_us = slowed(np.exp(chance.uniform(0, 0.5, (TRIALS, ROUNDS))))
    made = slices({"old": us, "new": us}, {"old": probe_us, "new": probe_us * 1.01})
    assert of_cpu(made).ratio == pytest.approx(1.01**-SLOPE, rel=1e-3)
