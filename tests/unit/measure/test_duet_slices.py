"""What is measured of two arms that are loaded at the same time, on a bench that only pretends."""

from __future__ import annotations

import math
from contextlib import ExitStack
from pathlib import Path

import pytest
from fake_bench import READS, SEATS, WRITES, World, arm, duet_plan, one_slice, plan

from upshift.errors import ServerFailed, UsageError
from upshift.measure.bench import LoadHandle, RunningArm
from upshift.measure.experiment import run_experiment
from upshift.measure.model import Experiment, Plan, Slice
from upshift.measure.quality import find_flags
from upshift.measure.samples import read_samples
from upshift.measure.schedule import Turns
from upshift.measure.slice import load_s, measure_load
from upshift.measure.turn import connect_s
from upshift.measure.variant import Variant

A, B = arm("a"), arm("b")
ONE, OTHER = SEATS
DUET = Turns(load=READS, load_seed=42, turns=((A.on(ONE), B.on(OTHER)), (B.on(ONE), A.on(OTHER))))
LEAD_S = plan().lead_s
CONNECT_S = connect_s(8)


def world(**changes: object) -> World:
    return World({"a": 500.0, "b": 700.0}, **changes)  # type: ignore[arg-type]


def measured(world: World, measured_by: Plan | None = None) -> list[Slice]:
    with ExitStack() as stack:
        running = {each.name: stack.enter_context(world.arm(each, 0)) for each in DUET.turns[0]}
        return measure_load(
            *(world, running, DUET, measured_by or duet_plan()),
            trial=2,
            origin_s=90.0,
            settled=True,
            asked={},
            clock=world,
            sample=world.usage,
        )


def paused(bench: World) -> bool:
    """Whether any server or driver is stopped."""
    return any(each.paused for each in bench.alive.values()) or any(each.paused for each in bench.loaded)


def test_slices_of_a_round_are_of_the_same_time_and_on_swapped_cpus() -> None:
    found = measured(world())
    assert [(each.arm, each.round, each.seat) for each in found] == [("a", 0, 0), ("b", 0, 1), ("b", 1, 0), ("a", 1, 1)]
    assert [each.queries for each in found] == pytest.approx([1000, 1400, 1400, 1000], abs=1)
    first, second, third, fourth = found
    assert first.started_s == second.started_s == pytest.approx(10.0 + LEAD_S + CONNECT_S)
    assert third.started_s == fourth.started_s == pytest.approx(first.started_s + 2.0 + LEAD_S)
    assert [each.total_cpu_s for each in found] == pytest.approx([1.8] * 4)


def test_both_work_in_all_turns_and_are_moved_while_they_are_stopped() -> None:
    bench = world()
    seen: list[tuple[tuple[int, ...], ...]] = []
    sleep = bench.sleep

    def watched(seconds: float) -> None:
        still = [each.paused for each in bench.alive.values()] + [each.paused for each in bench.loaded]
        assert len(set(still)) == 1, "both work, or neither"
        seen.append(tuple(each.arm.server_cpus for each in bench.alive.values()))
        sleep(seconds)

    bench.sleep = watched  # type: ignore[method-assign]
    measured(bench)  # The bench itself lets nobody move who is not stopped.
    swapped = [each for number, each in enumerate(seen) if each not in seen[:number]]
    assert swapped == [((0,), (2,)), ((2,), (0,))]
    assert seen[:6] == [swapped[0]] * 3 + [swapped[1]] * 3


def test_drivers_begin_together_and_last_for_all_turns() -> None:
    bench = world()
    measured(bench)
    assert [(name, seed) for name, _load, _seconds, seed in bench.loads] == [("a", 42), ("b", 42)]
    wall_s = 2 * (LEAD_S + 2.0) + CONNECT_S
    for _name, _load, seconds, _seed in bench.loads:
        assert wall_s < seconds < wall_s + 1
    assert load_s(duet_plan(), 2, 8) < 0.6 * load_s(plan(), 2, 8), "a duet takes half of the time"


def test_the_other_server_and_its_load_are_no_load_of_other_programs() -> None:
    assert [each.other_cpu_s for each in measured(world())] == pytest.approx([0.0] * 4, abs=0.02)
    assert [each.other_cpu_s for each in measured(world(other=0.25))] == pytest.approx([0.25 * 2.0] * 4, rel=0.05)


def test_a_load_whose_drivers_ended_too_early_is_measured_again() -> None:
    bench = world()
    sleep = bench.sleep
    bench.sleep = lambda seconds: sleep(seconds * (3 if len(bench.loads) <= 2 else 1))  # type: ignore[method-assign]
    found = measured(bench)
    assert [name for name, *_rest in bench.loads] == ["a", "b", "a", "b"]
    assert [each.queries for each in found] == pytest.approx([1000, 1400, 1400, 1000], abs=1)


def test_both_run_again_when_one_dies(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = world()

    def dies(at: World) -> None:
        def dead() -> int:
            raise ServerFailed("killed by SIGSEGV")

        monkeypatch.setattr(at.loaded[-1].server, "queries", dead)

    bench.on_begin = dies
    with ExitStack() as stack:
        running = {each.name: stack.enter_context(bench.arm(each, 0)) for each in DUET.turns[0]}
        with pytest.raises(ServerFailed):
            measure_load(
                bench, running, DUET, duet_plan(), trial=0, origin_s=0, settled=True, asked={}, clock=bench, sample=bench.usage
            )
        assert len(bench.alive) == len(bench.loaded) == 2 and not paused(bench)


def run(bench: World, folder: Path, measured_by: Plan, arms: tuple[Variant, ...] = (A, B)) -> Experiment:
    return run_experiment(
        *(measured_by, arms, ["a"], [READS, WRITES], bench),
        clock=bench,
        samples=folder / "samples.parquet",
        on_progress=lambda _at: None,
        sample=bench.usage,
    )


def ratio(found: Experiment, metric: str = "qps") -> float:
    return next(each.ratio for each in found.comparisons if each.metric == metric)


def busy_now_and_then(time_s: float, _arm: Variant) -> float:
    """A neighbour that takes up to 40 % of the machine, and comes and goes."""
    return 0.8 + 0.2 * math.sin(time_s * 1.7) * math.cos(time_s * 0.31)


def slower_on_other(_time_s: float, arm: Variant) -> float:
    return 0.7 if arm.server_cpus == OTHER.server_cpus else 1.0


def test_what_slows_both_at_once_leaves_no_trace_in_the_ratio(tmp_path: Path) -> None:
    found = run(world(speed=busy_now_and_then), tmp_path / "duet", duet_plan())
    assert ratio(found) == pytest.approx(1.4, rel=0.002)
    assert ratio(found, "total_cpu_us_per_query") == pytest.approx(1 / 1.4, rel=0.002)
    in_turns = run(world(speed=busy_now_and_then), tmp_path / "turns", plan())
    assert abs(math.log(ratio(in_turns) / 1.4)) > 0.01
    widths = [math.log(each.comparisons[0].ci_high / each.comparisons[0].ci_low) for each in (found, in_turns)]
    assert widths[0] < widths[1] / 10


def test_cpus_that_are_slower_leave_no_trace_either(tmp_path: Path) -> None:
    found = run(world(speed=slower_on_other), tmp_path, duet_plan())
    assert ratio(found) == pytest.approx(1.4, rel=0.002)
    assert ratio(found, "total_cpu_us_per_query") == pytest.approx(1 / 1.4, rel=0.002)
    slices = read_samples(tmp_path / "samples.parquet")
    assert {each.seat for each in slices} == {0, 1}
    by_seat = [[each.queries for each in slices if each.seat == seat and each.arm == "a"] for seat in (0, 1)]
    assert sum(by_seat[1]) == pytest.approx(0.7 * sum(by_seat[0]), rel=0.01), "samples say where a server was slower"


def test_a_duet_raises_no_flag_by_itself(tmp_path: Path) -> None:
    assert run(world(), tmp_path, duet_plan()).flags == ()


def test_flags_judge_the_cpus_of_one_server_and_one_load() -> None:
    """Four CPUs of the load in all, and each driver has two."""
    seats = [{"server_cpus": [0, 1], "client_cpus": [4, 5]}, {"server_cpus": [2, 3], "client_cpus": [6, 7]}]
    duet = duet_plan(server_cpus=(0, 1, 2, 3), client_cpus=(4, 5, 6, 7), duet=seats)
    full = [one_slice(arm=name, client_cpu_s=3.9, total_cpu_s=3.0) for name in ("a", "b")]
    assert [flag.name for flag in find_flags(full, duet)] == ["client-saturated"]
    idle = [one_slice(arm=name, client_cpu_s=1.0, total_cpu_s=1.5) for name in ("a", "b")]
    assert [flag.name for flag in find_flags(idle, duet)] == ["server-idle"]


def test_what_the_machine_swapped_is_counted_once() -> None:
    both = [one_slice(arm=name, seat=seat, swapped_bytes=800_000) for seat, name in enumerate(("a", "b"))]
    assert "swap" not in {flag.name for flag in find_flags(both, duet_plan())}


def test_the_pilot_of_a_duet_has_both_at_once(tmp_path: Path) -> None:
    began_s, duet, in_turns = world().time_s, world(), world()
    found = run(duet, tmp_path, duet_plan(until=0.5, trials=2, pilot_turns=5))
    assert [each.why for each in found.lead_ins] == ["no difference"] * 2
    run(in_turns, tmp_path / "turns", plan(until=0.5, trials=2, pilot_turns=5))
    assert duet.time_s - began_s < 0.7 * (in_turns.time_s - began_s)


def test_in_the_pilot_both_are_moved_before_each_turn(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    bench = world()
    places: list[tuple[str, tuple[int, ...]]] = []
    place = bench.place

    def noted(running: RunningArm, load: LoadHandle | None, arm: Variant) -> None:
        places.append((arm.name, arm.server_cpus))
        place(running, load, arm)

    monkeypatch.setattr(bench, "place", noted)
    run(bench, tmp_path, duet_plan(until=0.5, trials=2, pilot_turns=5))
    of_a = [cpus for name, cpus in places if name == "a"][:6]
    assert of_a == [ONE.server_cpus, OTHER.server_cpus] * 3


def test_two_arms_and_even_rounds_or_nothing_runs(tmp_path: Path) -> None:
    bench = world()
    with pytest.raises(UsageError, match="3 servers"):
        run(bench, tmp_path, duet_plan(), (A, B, arm("c")))
    with pytest.raises(UsageError, match="even number"):
        run(bench, tmp_path, duet_plan(rounds=3))
    assert bench.started == []


def test_a_duet_is_another_experiment_than_turns(tmp_path: Path) -> None:
    run(world(), tmp_path, plan())
    again = world()
    run(again, tmp_path, duet_plan())
    assert len(again.started) == 6 and (tmp_path / "samples.old-1.parquet").exists()
