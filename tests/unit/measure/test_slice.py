from __future__ import annotations

from contextlib import ExitStack

import pytest
from fake_bench import READS, FakeLoad, World, arm, plan

from upshift.errors import LoadFailed, ServerFailed
from upshift.measure.allocation import ROUNDS
from upshift.measure.kernel import Usage
from upshift.measure.model import Plan, Slice
from upshift.measure.schedule import Turns
from upshift.measure.slice import load_s, measure_load
from upshift.measure.turn import Asked, Sample, connect_s
from upshift.measure.variant import Variant
from upshift.options import LEAD_S as LEAD_S_BY_DEFAULT
from upshift.options import SLICE_S
from upshift.workload.driver import whole_seconds
from upshift.workload.reports import LoadReport

A, B = arm("a"), arm("b")
TURNS = Turns(load=READS, load_seed=42, turns=((A,), (B,), (B,), (A,)))
LEAD_S = plan().lead_s
CONNECT_S = connect_s(8)


def world(**changes: object) -> World:
    return World({"a": 500.0, "b": 700.0}, **changes)  # type: ignore[arg-type]


def slow(bench: World, seconds: float) -> Sample:
    """Counters that take so long to read."""

    def sample(pid: int) -> Usage:
        bench.sleep(seconds)
        return bench.usage(pid)

    return sample


def measured(
    world: World,
    turns: Turns = TURNS,
    measured_by: Plan | None = None,
    asked: Asked | None = None,
    sample: Sample | None = None,
) -> list[Slice]:
    with ExitStack() as stack:
        running = {each.name: stack.enter_context(world.arm(each, 0)) for each in (A, B)}
        return measure_load(
            world,
            running,
            turns,
            measured_by or plan(),
            trial=2,
            origin_s=90.0,
            settled=True,
            asked={} if asked is None else asked,
            clock=world,
            sample=sample or world.usage,
        )


def test_arms_take_turns_and_each_slice_counts_its_own_queries() -> None:
    found = measured(world())
    assert [(each.arm, each.round) for each in found] == [("a", 0), ("b", 0), ("b", 1), ("a", 1)]
    assert [each.queries for each in found] == pytest.approx([1000, 1400, 1400, 1000], abs=1)
    first = found[0]
    assert (first.trial, first.workload, first.connections) == (2, "reads", 8)
    assert first.started_s == pytest.approx(10.0 + LEAD_S + CONNECT_S)
    assert first.wall_s == pytest.approx(2.0)
    assert (first.half_wall_s, first.half_queries) == pytest.approx((1.0, 500), abs=1)
    assert (first.total_cpu_s, first.user_cpu_s, first.system_cpu_s) == pytest.approx((1.8, 1.6, 0.2))


def test_an_arm_is_loaded_once_in_a_trial_with_the_same_seed_as_others_and_long_enough() -> None:
    bench = world()
    measured(bench)
    assert [(name, load, seed) for name, load, _seconds, seed in bench.loads] == [("a", READS, 42), ("b", READS, 42)]
    wall_s = 4 * (LEAD_S + 2.0) + 2 * CONNECT_S
    first, second = (seconds for _name, _load, seconds, _seed in bench.loads)
    assert wall_s < first < wall_s + 1
    assert second == pytest.approx(first - 2.0 - LEAD_S - CONNECT_S, abs=0.2)


def test_the_default_turns_of_two_servers_are_a_load_of_four_seconds_with_some_to_spare() -> None:
    planned = plan(rounds=ROUNDS, slice_s=SLICE_S, lead_s=LEAD_S_BY_DEFAULT)
    bench = world()
    measured(bench, measured_by=planned)
    assert [whole_seconds(seconds) for _name, _load, seconds, _seed in bench.loads] == [4, 3]
    assert load_s(planned, 2, 8) < 3.9


def test_a_driver_runs_no_longer_than_the_readings_of_counters_took_before() -> None:
    """What is planned too long is waited for."""
    bench, asked = world(), Asked()
    many = TURNS.model_copy(update={"turns": TURNS.turns * 5})
    for _attempt in range(2):
        measured(bench, many, asked=asked, sample=slow(bench, 0.02))
    assert asked[READS] == pytest.approx(0.02)
    (_a, _reads, planned, _seed), _b, (_a, _reads, learned, _seed), _b = bench.loads
    # Three readings in each turn, but those in which a driver begins.
    assert planned - learned == pytest.approx(18 * 3 * (0.033 - 0.02))


def test_readings_that_take_longer_than_before_are_planned_for_at_the_next_attempt() -> None:
    bench = world()
    measured(bench, TURNS.model_copy(update={"turns": TURNS.turns * 5}), asked={READS: 1e-6}, sample=slow(bench, 0.1))
    assert len(bench.loads) == 4


def test_a_driver_that_reads_much_before_its_first_request_is_waited_for() -> None:
    begun: dict[str, float] = {}

    def begins(bench: World) -> None:
        begun[bench.loads[-1][0]] = bench.time_s

    late = world(on_begin=begins, speed=lambda time_s, arm: float(time_s >= begun[arm.name] + 1.2))
    assert [each.queries for each in measured(late)] == pytest.approx([1000, 1400, 1400, 1000], abs=1)


def test_a_slice_in_which_a_driver_begins_is_measured_anew() -> None:
    """Else it would hold the queries of a part of its time."""
    begun: dict[str, float] = {}

    def begins(bench: World) -> None:
        begun[bench.loads[-1][0]] = bench.time_s

    def share_of_a_second(time_s: float, each: Variant) -> float:
        return min(1.0, max(0.0, time_s + 1.0 - (begun[each.name] + 1.2)))

    late = world(on_begin=begins, speed=share_of_a_second)
    assert [each.queries for each in measured(late)] == pytest.approx([1000, 1400, 1400, 1000], abs=1)
    # Only the turns in which a driver begins are longer: the next attempt has time for two, and not for all four.
    too_short, enough = late.loads[0][2], late.loads[2][2]
    assert enough - too_short == pytest.approx(3.0 - 0.2 + 2 * (LEAD_S + 2.0), abs=0.1)


def test_a_server_that_answers_nothing_is_not_waited_for_without_end() -> None:
    assert {each.queries for each in measured(world(speed=lambda _time_s, _arm: 0.0))} == {0}


def test_nobody_works_out_of_turn() -> None:
    bench = world()
    beside: list[tuple[bool, bool]] = []

    sleep = bench.sleep

    def seen(seconds: float) -> None:
        a, b = bench.alive.values()
        beside.append((a.paused, b.paused))
        sleep(seconds)

    bench.sleep = seen  # type: ignore[method-assign]
    measured(bench)
    # Three times a turn: lead-in and the slice's halves; both stand still until their drivers' time is over.
    assert beside[:12] == [(False, True)] * 3 + [(True, False)] * 6 + [(False, True)] * 3
    assert beside[12] == (True, True)
    assert (False, False) not in beside


def test_the_clients_cpu_time_is_scaled_from_the_arms_whole_load_to_the_slice() -> None:
    assert [each.client_cpu_s for each in measured(world())] == pytest.approx([0.3 * 2.0] * 4, rel=0.02)
    assert [each.client_cpu_s for each in measured(world(drivers_share=True))] == pytest.approx([0.3 * 2.0] * 4)


def test_nothing_is_sent_but_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = world()
    totals: dict[str, float] = {}
    finish = FakeLoad.finish

    def counted(self: FakeLoad) -> LoadReport:
        found = finish(self)
        totals[self.server.name] = self.server.total
        return found

    monkeypatch.setattr(FakeLoad, "finish", counted)
    measured(bench)
    turns_s = 2 * (LEAD_S + 2.0) + CONNECT_S
    assert totals == pytest.approx({"a": 500.0 * turns_s, "b": 700.0 * turns_s})


def test_drivers_end_in_the_time_of_the_one_that_lasts_longest() -> None:
    bench = world()
    began_s = bench.time_s
    measured(bench)
    turns_s = 4 * (LEAD_S + 2.0) + 2 * CONNECT_S
    assert turns_s < bench.time_s - began_s < turns_s + 1.5


def test_other_load_is_what_server_and_client_did_not_use() -> None:
    assert measured(world(other=0.25))[0].other_cpu_s == pytest.approx(0.25 * 2.0, rel=0.02)
    assert measured(world())[0].other_cpu_s == pytest.approx(0.0, abs=0.01)


def test_run_queue_delay_is_the_servers_own() -> None:
    assert [each.run_delay_s for each in measured(world())] == pytest.approx([0.05 * 2.0] * 4, rel=0.02)


def test_steal_is_apart_from_other_load() -> None:
    found = measured(world(steal=0.25))[0]
    assert (found.steal_s, found.other_cpu_s) == pytest.approx((0.25 * 2.0, 0.0), abs=0.01)


def test_latencies_that_a_driver_does_not_report_stay_unknown() -> None:
    assert {each.latency_ms_p99 for each in measured(world())} == {3.0}
    assert {each.latency_ms_p99 for each in measured(world(latency_ms_p99=None))} == {None}


def test_errors_of_an_arms_load_are_counted_once() -> None:
    assert [each.errors for each in measured(world(errors=5))] == [5, 5, 0, 0]


def test_a_load_is_measured_again_when_its_driver_ended_too_early() -> None:
    bench = world()
    sleep = bench.sleep

    def slow_at_first(seconds: float) -> None:
        sleep(seconds * (3 if len(bench.loads) <= 2 else 1))

    bench.sleep = slow_at_first  # type: ignore[method-assign]
    found = measured(bench)
    assert len(bench.loads) == 4 and bench.loads[2][2] > bench.loads[0][2]
    assert [each.queries for each in found] == pytest.approx([1000, 1400, 1400, 1000], abs=1)


def test_the_time_that_turns_take_beyond_their_plan_is_learnt_for_the_next_attempt() -> None:
    """Hundreds of connections: each turn takes seconds more than planned."""
    bench = world()
    sleep = bench.sleep
    bench.sleep = lambda seconds: sleep(seconds + 5)  # type: ignore[method-assign]
    found = measured(bench)
    assert len(bench.loads) == 3
    assert bench.loads[1][2] - bench.loads[0][2] > 4 * 3 * 5
    assert len(found) == 4


def test_a_driver_that_never_lasts_is_a_failed_load() -> None:
    bench = world()
    bench.on_begin = lambda at: setattr(at.loaded[-1], "ends_s", at.time_s + 0.1)
    with pytest.raises(LoadFailed, match="ended before its time"):
        measured(bench)
    assert len(bench.loads) == 3


def failing(self: FakeLoad) -> LoadReport:
    raise LoadFailed("exit code 1")


def test_a_load_that_fails_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FakeLoad, "finish", failing)
    with pytest.raises(LoadFailed):
        measured(world())


def test_a_load_that_fails_at_once_is_not_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FakeLoad, "finish", failing)
    bench = world()
    bench.on_begin = lambda at: setattr(at.loaded[-1], "ends_s", at.time_s)
    with pytest.raises(LoadFailed, match="exit code 1"):
        measured(bench)
    assert len(bench.loads) == 1


def test_a_dead_server_is_a_better_reason_than_its_failed_load(monkeypatch: pytest.MonkeyPatch) -> None:
    def dies(self: FakeLoad) -> LoadReport:
        def dead() -> int:
            raise ServerFailed("killed by SIGSEGV")

        monkeypatch.setattr(self.server, "queries", dead)
        return failing(self)

    monkeypatch.setattr(FakeLoad, "finish", dies)
    with pytest.raises(ServerFailed):
        measured(world())


def test_everything_runs_again_when_a_server_dies_in_its_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = world()

    def dies(at: World) -> None:
        def dead() -> int:
            raise ServerFailed("killed by SIGSEGV")

        monkeypatch.setattr(at.loaded[-1].server, "queries", dead)

    bench.on_begin = dies
    alive: list[bool] = []
    with ExitStack() as stack:
        running = {each.name: stack.enter_context(bench.arm(each, 0)) for each in (A, B)}
        with pytest.raises(ServerFailed):
            measure_load(
                bench, running, TURNS, plan(), trial=0, origin_s=0, settled=True, asked={}, clock=bench, sample=bench.usage
            )
        alive = [each.paused for each in bench.alive.values()]
    assert alive == [False, False]


def test_everything_runs_again_when_waiting_for_an_end_is_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = world()

    def interrupted(self: FakeLoad) -> LoadReport:
        assert not self.paused and not self.server.paused
        raise KeyboardInterrupt

    monkeypatch.setattr(FakeLoad, "finish", interrupted)
    with ExitStack() as stack:
        running = {each.name: stack.enter_context(bench.arm(each, 0)) for each in (A, B)}
        with pytest.raises(KeyboardInterrupt):
            measure_load(
                bench, running, TURNS, plan(), trial=0, origin_s=0, settled=True, asked={}, clock=bench, sample=bench.usage
            )
        assert not any(each.paused for each in bench.alive.values())
        assert not any(each.paused for each in bench.loaded)
        assert len(bench.loaded) == 2
