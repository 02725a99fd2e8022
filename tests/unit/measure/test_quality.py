from __future__ import annotations

import pytest
from fake_bench import arm, one_slice, plan

from upshift.measure.model import Flag, Slice
from upshift.measure.quality import find_flags, of_parts

PLAN = plan(rounds=4)


def slices(**changes: object) -> list[Slice]:
    return [one_slice(trial=trial, round=number, **changes) for trial in range(3) for number in range(4)]


def found(samples: list[Slice], **sizes: int) -> dict[str, Flag]:
    return {flag.name: flag for flag in find_flags(samples, PLAN, **sizes)}


def test_a_clean_measurement_has_no_flags() -> None:
    assert found(slices(), pool_bytes=200, data_bytes=100) == {}


@pytest.mark.parametrize(
    ("name", "spoilt", "almost"),
    [
        ("client-saturated", {"client_cpu_s": 1.9}, {"client_cpu_s": 1.7}),
        ("errors", {"errors": 1}, {"errors": 0}),
        ("swap", {"swapped_bytes": 1 << 20}, {"swapped_bytes": 4096}),
        ("other-load", {"other_cpu_s": 0.24}, {"other_cpu_s": 0.16}),
        ("steal", {"steal_s": 0.09}, {"steal_s": 0.07}),
        ("not-settled", {"settled": False}, {"settled": True}),
        ("server-idle", {"total_cpu_s": 0.7}, {"total_cpu_s": 1.1}),
    ],
)
def test_what_spoils_a_measurement_is_flagged_and_nothing_else(
    name: str, spoilt: dict[str, object], almost: dict[str, object]
) -> None:
    assert list(found(slices(**spoilt))) == [name]
    assert found(slices(**almost)) == {}


def test_a_flag_names_the_worst_arm_and_load() -> None:
    flag = found([*slices(), *slices(arm="pgo", client_cpu_s=1.9)])["client-saturated"]
    assert "95% (pgo, reads at 8 connections)" in flag.message
    assert "plain" not in flag.message


def test_many_spoilt_loads_stay_one_short_flag() -> None:
    many = [each for connections in (1, 2, 4, 8, 16) for each in slices(connections=connections, errors=1)]
    flag = found(many)["errors"]
    assert "60 in all" in flag.message
    assert flag.message.endswith("and 2 more")


def test_flags_of_several_parts_name_the_arms_of_all() -> None:
    parts = [found(slices(arm=name, errors=1))["errors"] for name in "abcde"]
    (flag,) = of_parts(parts)
    assert [each.arm for each in flag.loads] == list("abcde")
    assert all(f"({name}, reads" in flag.message for name in "abc") and flag.message.endswith("; and 2 times more")
    (pool,) = of_parts(2 * find_flags([], PLAN, pool_bytes=100, data_bytes=101))
    assert pool == found([], pool_bytes=100, data_bytes=101)["buffer-pool-smaller-than-data"]


def test_a_server_that_has_more_cpus_than_clients_is_not_idle_for_that() -> None:
    busy = slices(connections=1, total_cpu_s=1.8)
    assert find_flags(busy, plan(rounds=4, server_cpus=tuple(range(8)), client_cpus=(8,))) == ()


def test_an_arm_with_cpus_of_its_own_is_judged_by_these() -> None:
    """Its server has one CPU of sixteen, and its load one of four."""
    wide = plan(rounds=4, server_cpus=tuple(range(12)), client_cpus=tuple(range(12, 16)))
    own = arm("plain").model_copy(update={"server_cpus": (3,), "client_cpus": (12,)})
    assert find_flags(slices(total_cpu_s=1.9), wide, [own]) == ()
    (flag,) = find_flags(slices(total_cpu_s=1.9, client_cpu_s=1.9), wide, [own])
    assert flag.name == "client-saturated" and "its 1 CPU: 95%" in flag.message
    both = [*slices(total_cpu_s=1.9, client_cpu_s=1.9), *slices(arm="pgo", total_cpu_s=16, client_cpu_s=7.6)]
    (flag,) = find_flags(both, wide, [own, arm("pgo")])
    assert flag.message.startswith("the client used up its CPUs: 95%")


def test_one_slice_without_queries_is_idleness() -> None:
    stuck = [*slices()[:-1], one_slice(trial=2, round=3, queries=0)]
    assert list(found(stuck)) == ["server-idle"]


def test_trials_that_ratios_leave_out_are_flagged() -> None:
    """A server that ended no query in a whole trial has no value there."""
    stuck = [each.model_copy(update={"queries": 0, "arm": "pgo"}) if each.trial else each for each in slices()]
    flag = found([*slices(arm="pgo", connections=1), *slices(), *stuck])["trials-left-out"]
    assert "ended no query" in flag.message and flag.message.endswith(": 2 of 2 (pgo, reads at 8 connections)")
    assert [(each.arm, each.connections) for each in flag.loads] == [("pgo", 8)]
    some = [each.model_copy(update={"queries": 0}) if each.trial == 1 else each for each in slices()]
    assert "1 of 3 (plain" in found(some)["trials-left-out"].message


def test_data_that_does_not_fit_the_pool() -> None:
    assert list(found(slices(), pool_bytes=100, data_bytes=101)) == ["buffer-pool-smaller-than-data"]
    assert "shared_buffers" in found(slices(), pool_bytes=100, data_bytes=101)["buffer-pool-smaller-than-data"].hint
    assert found(slices(), data_bytes=101) == {}


def rising(steps: list[float]) -> list[Slice]:
    """One slice of each of four loads a trial, in another order in each, that grow by the trial's step."""
    sizes = [2000, 500, 8000, 100]
    return [
        one_slice(
            trial=trial,
            connections=1 + (trial + position) % 4,
            started_s=100.0 * trial + position,
            queries=round(1000 * sizes[(trial + position) % 4] * (1 + position * step)),
        )
        for trial, step in enumerate(steps)
        for position in range(4)
    ]


def test_throughput_that_rises_in_every_trial_was_not_warmed_up_also_with_one_round() -> None:
    flags = {flag.name: flag for flag in find_flags(rising([0.05, 0.051, 0.049, 0.05]), plan(rounds=1))}
    assert list(flags) == ["warm-up-not-steady"]
    assert "+10% (plain)" in flags["warm-up-not-steady"].message


def test_a_trend_that_noise_explains_is_no_warm_up() -> None:
    assert found(rising([0.05, -0.05, 0.04, -0.04])) == {}
    assert found(rising([0.001, 0.0011, 0.0009, 0.001])) == {}
    assert found(rising([0.05])) == {}


def test_a_flag_says_where_it_was_found() -> None:
    flag = found([*slices(), *slices(arm="pgo", client_cpu_s=1.9)])["client-saturated"]
    assert [(each.arm, each.workload, each.connections) for each in flag.loads] == [("pgo", "reads", 8)]
    assert found(slices(steal_s=1.0))["steal"].loads == ()


def halves(arm: str, first: list[int]) -> list[Slice]:
    """Slices of 2,000 queries, of which so many came in the first half, by trial."""
    return [
        one_slice(trial=trial, round=number, arm=arm, half_queries=count + number)
        for trial, count in enumerate(first)
        for number in range(4)
    ]


def test_an_arm_that_speeds_up_within_its_turns_carries_another_ones_traces() -> None:
    flag = found([*halves("plain", [1000, 1001, 999]), *halves("pgo", [900, 905, 898])])["carry-over"]
    assert "+10% (pgo)" in flag.message and "-9% (plain)" in flag.message
    assert "--lead-seconds" in flag.hint


def test_a_machine_that_speeds_up_carries_nothing_over() -> None:
    assert found([*halves("plain", [900, 905, 898]), *halves("pgo", [901, 903, 899])]) == {}


def test_halves_that_noise_sets_apart_are_no_carry_over() -> None:
    assert found([*halves("plain", [1000, 1001, 999]), *halves("pgo", [900, 1100, 950])]) == {}


def test_one_arm_alone_has_nothing_to_carry_over() -> None:
    assert found(halves("pgo", [900, 905, 898])) == {}


def probed(arm: str, times_us: list[float]) -> list[Slice]:
    """Slices with these times of the speed probe's unit, by trial, of which each second one is in a burst."""
    return [
        one_slice(trial=trial, round=number, arm=arm, probe_us=time_us * (1 + number % 2))
        for trial, time_us in enumerate(times_us)
        for number in range(4)
    ]


def found_with_probe(samples: list[Slice]) -> dict[str, Flag]:
    return {flag.name: flag for flag in find_flags(samples, PLAN.model_copy(update={"speed_probe": True}))}


def test_a_probe_that_did_nothing_beside_a_server_is_flagged() -> None:
    flag = found_with_probe([*probed("plain", [50, 51, 50]), *probed("pgo", [50, 0, 50])])["probe-missing"]
    assert "in 4 slices: 4 (pgo, reads at 8 connections)" in flag.message
    assert [each.arm for each in flag.loads] == ["pgo"]
    assert found(slices()) == {}, "without a probe nothing is missing"


def test_a_probe_whose_work_takes_longer_beside_one_server_is_flagged() -> None:
    flag = found_with_probe([*probed("plain", [50, 51, 50]), *probed("pgo", [56, 57, 56])])["probe-differs"]
    assert "+6% (pgo), -5% (plain)" in flag.message and "without --speed-probe" in flag.hint


@pytest.mark.parametrize("others", [[51.0, 49, 50], [50, 70, 40], [50.5, 51.5, 50.5], [50, 51, 0]])
def test_what_bursts_do_to_the_probe_by_chance_is_not(others: list[float]) -> None:
    assert "probe-differs" not in found_with_probe([*probed("plain", [50, 51, 50]), *probed("pgo", others)])
