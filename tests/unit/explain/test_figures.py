"""How much CPU time a query takes, its parts, and their ratios."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from explained_example import block, in_call, on

from upshift.explain.figures import changes, side
from upshift.explain.model import Change
from upshift.explain.recording import Block
from upshift.explain.rows import sampled
from upshift.explain.symbols import Groups
from upshift.instructions.model import Count, MissCount

BEFORE = [block({on("run"): 60, in_call("futex"): 40}, 1000, cpu_s) for cpu_s in (0.10, 0.11, 0.10)]
AFTER = [block({on("run"): 20, in_call("futex"): 40}, 1000, cpu_s) for cpu_s in (0.06, 0.06, 0.06)]


def count(instructions: float) -> Count:
    misses = MissCount(caches="I1 32 KiB", code=1, data=2, last_level=0, branches=3)
    return Count(
        arm="a",
        workload="mix",
        instructions_per_query=instructions,
        calls_per_query=7,
        taken_branches_per_query=instructions / 10,
        misses=misses,
        queries=10,
    )


def found(before: list[Block], after: list[Block], instructions: tuple[float, float] | None = None) -> dict[str, Change]:
    first, second = (
        side(name, blocks, sampled(blocks, Groups()), "cpu-clock", count(counted) if counted else None)
        for name, blocks, counted in zip(("a", "b"), (before, after), instructions or (None, None), strict=True)
    )
    return {each.metric: each for each in changes((before, after), first, second)}


def test_user_and_system_time_add_up_and_have_ratios_of_their_own() -> None:
    told = found(BEFORE, AFTER)
    assert told["cpu"].before == pytest.approx(310 / 3) and told["cpu"].after == pytest.approx(60)
    assert told["user"].after == pytest.approx(20) and told["system"].after == pytest.approx(40)
    assert told["user"].before + told["system"].before == pytest.approx(told["cpu"].before)
    low, high = told["cpu"].ci_low, told["cpu"].ci_high
    assert low is not None and high is not None and low < told["cpu"].ratio < high < 1


def test_a_part_that_was_nothing_before_has_no_ratio() -> None:
    alone = [block({on("run"): 60}, 1000, 0.06) for _ in range(3)]
    assert list(found(alone, AFTER)) == ["cpu", "user"]


def test_waits_are_told_by_what_the_scheduler_counts() -> None:
    blocks = [replace(block({on("run"): 60}, queries), voluntary_switches=90, run_delay_s=0.003) for queries in (1000, 2000)]
    told = side("a", blocks, sampled(blocks, Groups()), "cpu-clock", None)
    assert told.switches_per_query == pytest.approx(0.5) and told.voluntary_switches_per_query == pytest.approx(0.06)
    assert told.run_delay_us_per_query == pytest.approx(2.0)
    silent = [replace(each, run_delay_s=0.0) for each in blocks]
    assert side("a", silent, sampled(silent, Groups()), "cpu-clock", None).run_delay_us_per_query is None


def test_one_pair_of_blocks_has_no_interval() -> None:
    assert found(BEFORE[:1], AFTER[:1])["cpu"].ci_low is None


def test_instructions_and_time_for_each_make_up_the_change_in_logarithms() -> None:
    told = found(BEFORE, AFTER, (50_000, 30_000))
    shares = [told[name].log_share for name in ("instructions", "time per instruction")]
    assert sum(share or 0 for share in shares) == pytest.approx(1)
    assert shares[0] == pytest.approx(math.log(0.6) / math.log(told["user"].ratio))
    assert told["time per instruction"].after == pytest.approx(20 / 30_000)
    assert "instructions" not in found(BEFORE, AFTER)


def test_a_change_that_chance_could_make_is_not_divided() -> None:
    """100 to 100.1 µs with a tenth fewer instructions: these would be -10541 % of the change."""
    same = [block({on("run"): 1000}, 1000, cpu_s) for cpu_s in (0.0990, 0.1010, 0.1003)]
    told = found([block({on("run"): 1000}, 1000, 0.1)] * 3, same, (1000, 900))
    low, high = told["user"].ci_low, told["user"].ci_high
    assert low is not None and high is not None and low < 1 < high
    assert told["instructions"].log_share is None and told["time per instruction"].log_share is None
    assert told["instructions"].ratio == pytest.approx(0.9)
    # A single pair of blocks has no interval.
    assert found(BEFORE[:1], AFTER[:1], (50_000, 30_000))["instructions"].log_share is None


def test_without_the_kernels_samples_its_part_is_not_told() -> None:
    only_user = [replace(block({on("run"): 60}), sampled_cpu_s=0.06)] * 2
    told = side("a", only_user, sampled(only_user, Groups()), "cpu-clock:u", None)
    assert told.system_us_per_query is None
    assert told.cpu_us_per_query == pytest.approx(100) and told.user_us_per_query == pytest.approx(60)
    assert [each.metric for each in changes((only_user, only_user), told, told)] == ["cpu"]
    # What was counted in user mode stands beside the user time all the same.
    of_both = sampled(only_user, Groups())
    before, after = (side("a", only_user, of_both, "cpu-clock:u", count(number)) for number in (6000, 3000))
    cpu, instructions, time = changes((only_user, only_user), before, after)
    assert [each.metric for each in (cpu, instructions, time)] == ["cpu", "instructions", "time per instruction"]
    assert (time.before, time.ratio) == pytest.approx((0.01, 2)) and instructions.ratio == 0.5
    assert instructions.log_share is None and time.log_share is None


def test_what_was_counted_stands_with_its_server() -> None:
    told = side("a", BEFORE, sampled(BEFORE, Groups()), "cpu-clock", count(9000))
    assert (told.instructions_per_query, told.taken_branches_per_query) == (9000, 900)
    assert told.misses and told.misses.branches == 3
    assert side("a", BEFORE, sampled(BEFORE, Groups()), "cpu-clock", None).misses is None
