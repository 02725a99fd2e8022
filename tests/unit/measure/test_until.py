"""Stein's second stage: how many trials an interval of the asked width takes, and whether it then holds."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from fake_bench import READS, WRITES, World, arm, one_slice, plan

from upshift.errors import UsageError
from upshift.measure.experiment import run_experiment
from upshift.measure.model import Experiment, Load, Plan, Slice
from upshift.measure.samples import read_samples
from upshift.measure.statistics import comparisons, estimate, half_width, interval, levels
from upshift.measure.until import reached, trials_asked


def trials(logs: list[float], connections: int = 8) -> list[Slice]:
    """A pair of slices a trial, 10 s apart, with these log-ratios."""
    return [
        one_slice(
            trial=trial,
            arm=name,
            connections=connections,
            queries=round(1_000_000 * math.exp(log)),
            started_s=10.0 * trial + 8.0,
        )
        for trial, each in enumerate(logs)
        for name, log in (("plain", 0.0), ("pgo", each))
    ]


FIRST = [0.10, 0.14, 0.06, 0.10]


def test_the_first_stages_spread_says_how_many_trials_there_must_be() -> None:
    asked = plan(trials=4, until=0.01)
    number, expected = trials_asked(trials(FIRST), asked, "plain")
    assert half_width(estimate(FIRST), 0.95) * math.sqrt(4 / number) == pytest.approx(math.log1p(expected), rel=1e-4)
    assert 0.0095 < expected <= 0.01
    assert half_width(estimate(FIRST), 0.95) * math.sqrt(4 / (number - 1)) > math.log1p(0.01)


def test_an_interval_without_bounds_is_the_widest() -> None:
    """Of a workload that the servers ran in one trial alone."""
    asked, known = plan(trials=4, until=0.01), trials(FIRST)
    once = [each.model_copy(update={"workload": "more"}) for each in trials([0.1])]

    def widest(slices: list[Slice]) -> float:
        found = reached(comparisons(slices, "plain", first_stage=4), asked, "plain", 4, 0.01)
        assert found
        return found.reached

    assert 0.01 < widest(known) < 0.1
    assert widest([*known, *once]) == widest([]) == 1e9


def test_a_load_without_a_comparison_has_no_bounds() -> None:
    """Its queries end in no slice of one of the servers. Of other connections, and held out, it does not count."""
    known, asked = trials(FIRST), plan(trials=4, until=0.01)
    compared = comparisons(known, "plain", first_stage=4)
    load = Load(workload=known[0].workload, connections=8, held_out=False)

    def widest(**changes: object) -> float:
        loads = (load, load.model_copy(update=changes))
        found = reached(compared, asked, "plain", 4, 0.01, [(name, each) for each in loads for name in ("plain", "pgo")])
        assert found
        return found.reached

    slow = {"workload": "slow"}
    assert 0.01 < widest() == widest(**slow, held_out=True) == widest(**slow, connections=1) < 0.1
    assert widest(**slow) == 1e9


def test_a_first_stage_that_is_narrow_enough_is_all() -> None:
    assert trials_asked(trials([0.1, 0.1001, 0.0999, 0.1]), plan(trials=4, until=0.01), "plain")[0] == 4


def test_only_the_headlines_connections_count() -> None:
    wild = trials([0.5, -0.5, 0.5, -0.5], connections=1)
    assert trials_asked([*trials(FIRST), *wild], plan(trials=4, until=0.01), "plain")[0] < 200


def test_a_budget_limits_the_trials_and_the_width_follows() -> None:
    asked = plan(trials=4, until=0.01, budget_s=105)
    number, expected = trials_asked(trials(FIRST), asked, "plain")
    assert number == 10
    assert expected > 0.02
    assert trials_asked(trials(FIRST), plan(trials=4, until=0.01, budget_s=1), "plain")[0] == 4


def test_a_budget_alone_takes_the_trials_that_fit_whatever_their_spread() -> None:
    asked = plan(trials=4, until=None, budget_s=105)
    for logs in (FIRST, [0.0] * 4, [0.5, -0.5, 0.5, -0.5]):
        assert trials_asked(trials(logs), asked, "plain")[0] == 10
    assert trials_asked(trials(FIRST), plan(trials=4, until=None), "plain")[0] == 4
    assert (asked.first_stage, plan(trials=4, until=0.01).first_stage) == (None, 4)


def test_later_trials_move_the_mean_but_not_the_width() -> None:
    calm, wild = ([*FIRST, *later] for later in ([0.10, 0.10], [0.5, 0.3]))
    one, other = (interval(estimate(logs, 4), 0.95) for logs in (calm, wild))
    assert other.high / other.low == pytest.approx(one.high / one.low)
    assert other.value != pytest.approx(one.value, rel=1e-3)
    (found,) = [each for each in comparisons(trials(calm), "plain", first_stage=4) if each.metric == "qps"]
    assert found.trials == 6
    assert found.ci_low == pytest.approx(interval(estimate(calm, 4), found.confidence).low, rel=1e-4)


def test_a_trial_that_lacks_the_figure_lends_its_place_in_the_first_stage_to_none() -> None:
    """The first trial had no queries: the spread is that of the three others, and a later, wild one is not in it."""
    logs = [*FIRST, 0.5]
    slices = [each.model_copy(update={"queries": 0}) if each.trial == 0 else each for each in trials(logs)]
    (found,) = [each for each in comparisons(slices, "plain", first_stage=4) if each.metric == "qps"]
    assert found.trials == 4
    assert found.ci_low == pytest.approx(interval(estimate(logs[1:], 3), found.confidence).low, rel=1e-4)
    asked, expected = trials_asked(slices, plan(trials=4, until=0.01), "plain")
    widest = half_width(estimate(FIRST[1:]), 0.95) * math.sqrt(3)
    assert widest / math.sqrt(asked) == pytest.approx(math.log1p(expected), rel=1e-4)


def test_without_a_spread_no_trials_are_added() -> None:
    slices = [each.model_copy(update={"queries": 0}) if each.trial else each for each in trials(FIRST)]
    assert trials_asked(slices, plan(trials=4, until=0.01), "plain")[0] == 4


def test_levels_have_the_first_stages_spread_as_well() -> None:
    calm, wild = ([*FIRST, *later] for later in ([0.10, 0.10], [0.5, 0.3]))
    one, other = (
        next(each for each in levels(trials(logs), 0.95, 4) if (each.arm, each.metric) == ("pgo", "qps"))
        for logs in (calm, wild)
    )
    assert other.ci_high / other.ci_low == pytest.approx(one.ci_high / one.ci_low, rel=1e-4)


def test_its_intervals_hold_at_their_level_and_are_as_narrow_as_asked() -> None:
    chance = np.random.default_rng(1)
    held, widths = [], []
    for _ in range(4000):
        first = chance.normal(0.1, 0.05, 6)
        number = max(6, math.ceil((half_width(estimate(first), 0.95) * math.sqrt(6) / math.log1p(0.02)) ** 2))
        logs = np.concatenate([first, chance.normal(0.1, 0.05, number - 6)])
        found = interval(estimate(logs, 6), 0.95)
        held.append(found.low <= math.exp(0.1) <= found.high)
        widths.append(math.sqrt(found.high / found.low) - 1)
    # Three standard errors of 4,000.
    assert 0.94 <= np.mean(held) <= 0.96
    assert max(widths) <= 0.02 + 1e-9


def test_looking_at_the_width_after_each_trial_would_not_hold() -> None:
    chance = np.random.default_rng(1)
    held = []
    for _ in range(1500):
        logs = list(chance.normal(0.1, 0.05, 3))
        while half_width(estimate(logs), 0.95) > math.log1p(0.05):
            logs.append(chance.normal(0.1, 0.05))
        found = interval(estimate(logs), 0.95)
        held.append(found.low <= math.exp(0.1) <= found.high)
    assert np.mean(held) < 0.93


def run(bench: World, folder: Path, measured: Plan, notes: list[str] | None = None) -> Experiment:
    return run_experiment(
        measured,
        [arm("plain"), arm("pgo")],
        ["plain"],
        [READS, WRITES],
        bench,
        clock=bench,
        samples=folder / "samples.parquet",
        on_progress=lambda _at: None,
        on_note=(notes if notes is not None else []).append,
        sample=bench.usage,
    )


def noisy() -> World:
    """A machine on which each server start has a speed of its own."""
    bench = World({"plain": 1000.0, "pgo": 1300.0})
    start = bench.arm

    def moody(each, trial):  # type: ignore[no-untyped-def]
        bench.qps["pgo"] = 1300.0 * (1 + 0.05 * math.sin(3 * trial))
        return start(each, trial)

    bench.arm = moody  # type: ignore[method-assign]
    return bench


def test_an_experiment_adds_the_trials_that_the_width_takes(tmp_path: Path) -> None:
    bench, notes = noisy(), list[str]()
    found = run(bench, tmp_path, plan(trials=4, until=0.01), notes)
    assert found.reached is not None
    assert found.reached.trials > 4 and found.reached.first_stage == 4
    assert found.reached.expected <= 0.01
    assert {each.trials for each in found.comparisons if each.metric == "qps"} == {found.reached.trials}
    assert found.reached.reached < 1
    assert len(notes) == 1 and f"{found.reached.trials} trials" in notes[0]


def test_an_experiment_with_a_load_that_ends_no_query_is_not_narrow(tmp_path: Path) -> None:
    """A warm-up has a load for each workload, and no load that is measured is as short."""
    bench, asked = World({"plain": 1000.0, "pgo": 1000.0}), plan(trials=2, until=0.5)
    warmed_s = asked.warmup_s / 2

    def stuck(at: World) -> None:
        at.qps["pgo"] = 1000.0 if at.loads[-1][2] == warmed_s else 0.0

    bench.on_begin = stuck
    found = run(bench, tmp_path, asked)
    assert found.reached is not None and found.reached.reached == 1e9


def test_an_experiment_of_a_certain_time_counts_the_spread_of_all_its_trials(tmp_path: Path) -> None:
    notes: list[str] = []
    found = run(noisy(), tmp_path, plan(trials=2, budget_s=400.0), notes)
    number = found.plan.trials
    assert number > 2 and found.reached is None and notes == [f"{number} trials fit into the time"]
    slices = read_samples(tmp_path / "samples.parquet")
    assert {each.trial for each in slices} == set(range(number))
    assert found.comparisons == comparisons(slices, "plain")


def test_an_interrupted_one_goes_on_in_its_second_stage(tmp_path: Path) -> None:
    whole = run(noisy(), tmp_path / "whole", plan(trials=4, until=0.015))
    assert whole.reached is not None
    bench = noisy()
    loads = len(bench.loads)

    def interrupt(at: World) -> None:
        nonlocal loads
        loads += 1
        if len({trial for _name, trial in at.started}) == whole.reached.trials:  # type: ignore[union-attr]
            raise KeyboardInterrupt

    bench.on_begin = interrupt
    with pytest.raises(KeyboardInterrupt):
        run(bench, tmp_path / "again", plan(trials=4, until=0.015))
    again = noisy()
    found = run(again, tmp_path / "again", plan(trials=4, until=0.015))
    assert {trial for _name, trial in again.started} == {whole.reached.trials - 1}
    assert found.reached == whole.reached
    assert len(read_samples(tmp_path / "again" / "samples.parquet")) == len(
        read_samples(tmp_path / "whole" / "samples.parquet")
    )


def test_a_first_stage_of_one_trial_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--until needs at least two trials"):
        run(noisy(), tmp_path, plan(trials=1, until=0.05))
