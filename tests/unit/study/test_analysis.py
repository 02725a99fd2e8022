"""From raw samples to cells and effects."""

from __future__ import annotations

import math
from typing import Any

import pytest
from example_study import LOADS, part, two_factors
from scipy.special import ndtr

from upshift.errors import LoadFailed
from upshift.instructions.model import Count, Instructions
from upshift.study.analysis import COUNT_LOG_SD, Analysis, Part, analyse, by_instructions, uncounted
from upshift.study.designs import Factor, make_design
from upshift.study.intervals import LEVEL

ARMS = {"off": 20.0, "a": 19.0, "b": 22.0, "a+b": 20.9}


def analysed(*parts: object, without: str = "", metric: str = "total_cpu_us_per_query") -> Analysis:
    design = two_factors()
    standing = {row: design.name(row) for row in design.rows if design.name(row) != without}
    return analyse(design, standing, parts, LOADS, metric)  # type: ignore[arg-type]


def test_cells_have_the_metric_and_its_ratio_to_all_off() -> None:
    found = analysed(part(ARMS))
    assert len(found.cells) == 9
    cells = {(cell.row, cell.load): cell for cell in found.cells}
    cell = cells["a", LOADS[0]]
    assert cell.effect.ratio == pytest.approx(0.95, abs=0.005)
    assert cell.value / cell.effect.ratio == pytest.approx(20, rel=0.2)
    assert cell.effect.ci_low < 0.95 < cell.effect.ci_high < 1
    assert (cell.verdict, cells["b", LOADS[0]].verdict) == ("faster", "slower")


def test_factors_have_their_effects_over_all_loads_but_those_held_out() -> None:
    found = analysed(part(ARMS))
    assert [each.verdict for each in found.effects.factors] == ["faster", "slower"]
    assert [each.load for each in found.by_load] == list(LOADS)
    assert found.effects.total and found.effects.total.ratio == pytest.approx(1.045, abs=0.003)
    assert found.effects.does_not_add_up() == ()


def test_factors_under_all_loads_are_one_family() -> None:
    """What is coloured under any load is so by chance in 1 study of 100 at most: two factors under three loads are six."""
    found = analysed(part(dict.fromkeys(ARMS, 20.0)))
    assert {each.effects.confidence for each in found.by_load} == {1 - LEVEL / 6}
    real = analysed(part({**ARMS, "b": 20.0, "a+b": 19.0}))
    assert [each.effects.factors[0].verdict for each in real.by_load] == ["faster"] * 3
    assert {each.effects.confidence for each in real.by_load} == {1 - LEVEL / 3}
    assert {each.effects.together_confidence for each in real.by_load} == {1 - LEVEL / 3}


def test_groups_are_each_compared_with_their_own_first() -> None:
    """A group that met a machine twice as slow changes nothing."""
    first = part({"off": 20.0, "a": 19.0})
    second = part({"off": 40.0, "b": 44.0, "a+b": 41.8}, seed=2)
    found = analysed(first, second)
    assert [each.share and round(each.share.ratio, 2) for each in found.effects.factors] == [0.95, 1.10]


def test_trainings_are_a_source_of_variance() -> None:
    found = analysed(part(ARMS), part(ARMS, training=1, seed=2))
    assert [each.source for each in found.variance] == ["training", "start", "block"]


def test_a_study_by_the_typical_time_has_its_variance_by_source_too() -> None:
    """The median takes several turns, and a block is one."""
    parts = part(ARMS, rounds=4), part(ARMS, training=1, seed=2, rounds=4)
    assert analysed(*parts, metric="typical_cpu_us_per_query").variance == analysed(*parts).variance != ()


LUCK = (-0.1, 0.0, 0.1)
"""Of three layouts of a server."""


def with_luck(**which: Any) -> list[Part]:
    parts = []
    for number, luck in enumerate(LUCK, 1):
        arms = {name: value * (math.exp(luck) if name == "a" else 1) for name, value in ARMS.items()}
        parts.append(part(arms, seed=number).model_copy(update=dict.fromkeys(which["differ"], number)))
    return parts


@pytest.mark.parametrize("source", ["training", "layout"])
def test_trials_of_one_training_or_layout_share_its_luck(source: str) -> None:
    """18 trials that differ by 0.2 % say that `a` is better; three layouts that differ by 10 % do not."""
    found = analysed(*with_luck(differ=(source,)))
    assert found.effects.factors[0].verdict == "inconclusive"
    assert (found.variance[0].source, found.variance[0].count) == (source, 3)
    assert found.variance[0].share > 0.9


def test_layouts_of_several_trainings_leave_the_trainings_the_unit() -> None:
    parts = [each.model_copy(update={"training": of}) for of in (1, 2) for each in with_luck(differ=("layout",))]
    found = analysed(*parts)
    assert [(each.source, each.count) for each in found.variance][:2] == [("training", 2), ("layout", 3)]
    # Both trainings have the same layouts, and so the same figures.
    assert found.variance[0].log_sd == 0


def test_a_row_that_died_leaves_the_others_their_figures() -> None:
    found = analysed(part({name: value for name, value in ARMS.items() if name != "a+b"}), without="a+b")
    assert {cell.row for cell in found.cells} == {"a", "b"}
    assert [each.verdict for each in found.effects.factors] == ["faster", "slower"]
    assert found.effects.together == ()


def test_what_was_measured_of_a_row_before_it_died_is_no_part_of_the_variance() -> None:
    whole = part(ARMS)
    before = whole.model_copy(update={"slices": tuple(each for each in whole.slices if each.arm != "a+b" or each.trial < 2)})
    living = whole.model_copy(update={"slices": tuple(each for each in whole.slices if each.arm != "a+b")})
    assert analysed(before, without="a+b") == analysed(living, without="a+b")
    assert analysed(whole).variance != analysed(living, without="a+b").variance


def test_a_metric_that_no_driver_reports_is_an_error() -> None:
    with pytest.raises(LoadFailed, match="latency_ms_p99") as error:
        analysed(part(ARMS), metric="latency_ms_p99")
    assert error.value.hint


def test_rows_with_the_same_server_change_exactly_nothing() -> None:
    design = two_factors()
    standing: dict[tuple[int, ...], str] = {(0, 0): "off", (1, 0): "off", (0, 1): "b", (1, 1): "b"}
    found = analyse(design, standing, [part({"off": 20.0, "b": 22.0})], LOADS, "total_cpu_us_per_query")
    idle, real = found.effects.factors
    assert idle.share and (idle.share.ratio, idle.verdict) == (1.0, "equivalent")
    assert real.verdict == "slower"


@pytest.mark.parametrize(("trials", "verdict"), [(3, "inconclusive"), (40, "slower")])
def test_latencies_that_differ_by_one_bucket_in_all_trials_are_not_known_exactly(trials: int, verdict: str) -> None:
    """sysbench tells 5.99 ms, and then 6.10: the spread of the trials is 0."""
    whole = part(ARMS, trials=trials)
    steps = (each.model_copy(update={"latency_ms_p99": 6.10 if "b" in each.arm else 5.99}) for each in whole.slices)
    found = analysed(whole.model_copy(update={"slices": tuple(steps)}), metric="latency_ms_p99")
    first, second = found.effects.factors
    for effect in (first.share, second.share, found.effects.total):
        assert effect and effect.ci_low < effect.ratio < effect.ci_high
    assert second.verdict == verdict and first.verdict not in ("faster", "slower")
    assert {each.verdict for each in found.cells if each.row == "b" and not each.load.held_out} == {verdict}


def counted(**per_query: float) -> Instructions:
    counts = tuple(
        Count(arm=arm.replace("_", "+"), workload="reads", instructions_per_query=value, calls_per_query=1, queries=1000)
        for arm, value in per_query.items()
    )
    return Instructions(source="callgrind", version="3", baseline="off", counts=counts)


def test_factors_are_judged_by_a_single_count_of_instructions() -> None:
    design = two_factors()
    standing = {row: design.name(row) for row in design.rows}
    found = by_instructions(design, standing, counted(off=50_000, a=48_000, b=50_050, a_b=52_000), ["reads"])
    assert found is not None
    first, second = found.factors
    assert first.alone and (round(first.alone.ratio, 3), first.alone.ci_high < 1) == (0.96, True)
    assert second.alone and second.alone.ratio == pytest.approx(1.001)
    (beyond,) = found.does_not_add_up()
    assert beyond.verdict == "slower"


def test_rows_with_one_server_share_the_error_of_its_count() -> None:
    """b changes nothing without a: off stands for both, and counts twice in what a does."""
    design = two_factors()
    standing = {row: "off" if design.name(row) == "b" else design.name(row) for row in design.rows}
    found = by_instructions(design, standing, counted(off=50_000, a=49_900, a_b=49_900), ["reads"])
    assert found is not None
    share = found.factors[0].share
    assert share and share.chance == pytest.approx(2 * ndtr(math.log(499 / 500) / (COUNT_LOG_SD * math.sqrt(1.5))))


def test_rows_without_a_count_are_left_out_and_the_others_keep_their_effects() -> None:
    design = two_factors()
    standing = {row: design.name(row) for row in design.rows}
    without_b = counted(off=50_000, a=48_000, a_b=47_000)
    assert uncounted(tuple(standing.values()), without_b, ["reads"]) == ("b",)
    found = by_instructions(design, standing, without_b, ["reads"])
    assert found is not None
    first, second = found.factors
    assert first.alone and first.alone.ratio == pytest.approx(0.96)
    assert second.alone is None and second.share and second.share.ratio == pytest.approx(47 / 48)
    assert found.without_pairs
    assert second.last and second.last.ratio == pytest.approx(47 / 48)


@pytest.mark.parametrize("lacking", [counted(a=1, b=1, a_b=1), counted(off=1)], ids=["no all off", "nothing else"])
def test_without_two_counts_to_compare_nothing_is_said(lacking: Instructions) -> None:
    design = two_factors()
    standing = {row: design.name(row) for row in design.rows}
    assert by_instructions(design, standing, lacking, ["reads"]) is None


@pytest.mark.parametrize("count", [3, 4])
def test_an_idle_factor_is_not_found_by_rounding(count: int) -> None:
    """Its rows are the same servers, whose logarithms cancel but for their last bits."""
    design = make_design("full", [Factor(name=name, levels=("off", "on")) for name in "abcd"[:count]])
    standing = {row: design.name((*row[:-1], 0)) for row in design.rows}
    arms = {name: 20 * 1.03 ** len(name) for name in standing.values()}
    found = analyse(design, standing, [part(arms)], LOADS, "total_cpu_us_per_query").effects
    counts = counted(**{name.replace("+", "_"): 1000 * value for name, value in arms.items()})
    executed = by_instructions(design, standing, counts, ["reads"])
    assert executed is not None
    for effects in (found, executed):
        idle = effects.factors[-1]
        assert idle.share and (idle.share.ratio, idle.share.chance, idle.verdict) == (1.0, 1.0, "equivalent")
        assert not any(design.factors[-1].name in each.second for each in effects.does_not_add_up())
