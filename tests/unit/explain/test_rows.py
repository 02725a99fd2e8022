"""Rows add up to all CPU time, and say no more than their samples do."""

from __future__ import annotations

import numpy as np
import pytest
from explained_example import block, in_call, on

from upshift.explain.rows import FEWEST_SAMPLES, Sampled, rows, sampled
from upshift.explain.script import Frame, Stack
from upshift.explain.symbols import Groups

MEMCPY: Stack = (Frame("libc.so.6", "memcpy", 0), *on("run"))
BEFORE = {on("walk", "run"): 600, on("step.cold.0", "walk"): 200, in_call("futex"): 150, MEMCPY: 40, on("rare"): 10}
AFTER = {on("walk", "run"): 500, in_call("futex"): 270, in_call("sendto"): 3, MEMCPY: 80, on("odd"): 17}


def both(groups: Groups | None = None) -> tuple[Sampled, Sampled]:
    groups = groups or Groups()
    before = [block(BEFORE, queries=1000, cpu_s=0.1)] * 4
    return sampled(before, groups), sampled([block(AFTER, queries=2000, cpu_s=0.1)] * 4, groups)


def test_shares_add_up_to_all_and_times_to_the_cpu_time_of_a_query() -> None:
    before, after = both()
    found, _confidence = rows(before, after, {})
    assert sum(row.before_share for row in found) == pytest.approx(1)
    assert sum(row.after_share for row in found) == pytest.approx(1)
    assert sum(row.before_us for row in found) == pytest.approx(100)
    assert sum(row.after_us for row in found) == pytest.approx(50)
    assert sum(row.difference_us for row in found) == pytest.approx(-50)
    assert sum(row.before_samples for row in found) == before.samples == 4000


def test_functions_of_one_source_name_are_one_row_and_kernel_time_goes_to_its_call() -> None:
    before, after = both()
    found = {row.name: row for row in rows(before, after, {"walk": "Walk::on"})[0]}
    assert {"Walk::on", "step", "futex", "memcpy (libc.so.6)"} <= found.keys()
    assert found["Walk::on"].symbol == "walk" and found["futex"].symbol == ""
    assert (found["futex"].home, found["memcpy (libc.so.6)"].home) == ("kernel", "library")
    # A query takes 100 and 50 µs: 60 of the first, a good 28 of the second are the walk's.
    assert found["Walk::on"].before_us == pytest.approx(60)
    assert found["Walk::on"].after_us == pytest.approx(50 * 500 / 870)


def test_what_has_too_few_samples_stands_in_the_row_of_others() -> None:
    before, after = both()
    found = rows(before, after, {})[0]
    others = {row.name: row for row in found if row.functions > 1 or row.name.startswith("other")}
    assert others["other ways into the kernel"].after_samples == 12 < FEWEST_SAMPLES
    small = [row for row in found if row.functions == 1 and row.before_samples + row.after_samples < FEWEST_SAMPLES]
    assert [row.name for row in small] == ["other ways into the kernel"]
    # It is a rest of one, and stands behind the others as a rest does.
    assert [(row.name, row.functions) for row in found if row.rest] == [("other ways into the kernel", 1)]
    assert found[-1].rest


def test_what_left_shows_as_less_and_what_came_has_no_ratio() -> None:
    before, after = both()
    found = {row.name: row for row in rows(before, after, {})[0]}
    assert (found["step"].ratio, found["step"].verdict) == (0, "less")
    assert found["odd"].ratio is None and found["odd"].ci_high is None and found["odd"].verdict == "more"
    # 15 µs of 100 and 15.5 of 50: about the same for a query.
    assert found["futex"].verdict == "not told apart"


def test_the_same_server_twice_leaves_nothing_to_call() -> None:
    draw = np.random.default_rng(8)
    called = 0
    for _pair in range(60):
        sides = [
            sampled(
                [block({on(f"f{n}"): int(count) for n, count in enumerate(draw.poisson(25, 40))}) for _ in range(4)], Groups()
            )
            for _side in range(2)
        ]
        called += any(row.verdict != "not told apart" for row in rows(sides[0], sides[1], {})[0])
    assert called <= 8


def test_the_same_server_in_good_and_bad_moments_leaves_nothing_to_call() -> None:
    """A block's CPU time a query moves by 5 %, in all functions at once: the large one has samples enough to show that."""
    draw, called = np.random.default_rng(9), 0
    means = np.array([2500, *[25] * 40])
    for _pair in range(60):
        sides = []
        for _side in range(2):
            factors = draw.lognormal(0, 0.05, 8)
            counts = [draw.poisson(means * factor) for factor in factors]
            blocks = [
                block({on(f"f{n}"): int(count) for n, count in enumerate(found)}, cpu_s=0.1 * factor)
                for found, factor in zip(counts, factors, strict=True)
            ]
            sides.append(sampled(blocks, Groups()))
        called += any(row.verdict != "not told apart" for row in rows(sides[0], sides[1], {})[0])
    assert called <= 6


def test_functions_of_the_same_code_are_one_row() -> None:
    groups = Groups({"walk": 600})
    groups.join(("walk", "odd"))
    found = {row.name: row for row in rows(*both(groups), {})[0]}
    assert "odd" not in found and found["walk"].after_samples == 4 * 517
