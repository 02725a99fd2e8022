from __future__ import annotations

import pytest
from fake_bench import READS, FakeLoad, World, arm, plan

from upshift.errors import LoadFailed, ServerFailed
from upshift.measure.model import Slice
from upshift.measure.schedule import Turn
from upshift.measure.slice import LEAD_S, load_s, measure_slice
from upshift.options import Options
from upshift.workload.driver import LoadReport

TURN = Turn(round=1, arm=arm("pgo"), load=READS, load_seed=42)


def measured(world: World) -> Slice:
    with world.arm(TURN.arm, 0) as running:
        return measure_slice(
            world, running, TURN, plan(), trial=2, origin_s=90.0, settled=True, clock=world, sample=world.usage
        )


def test_a_slice_counts_only_its_middle() -> None:
    world = World({"pgo": 500.0})
    found = measured(world)
    [(name, load, seconds, seed)] = world.loads
    assert (name, load, seed) == ("pgo", READS, 42)
    assert seconds == 3, "whole seconds that hold the lead-in, the slice and what follows it"
    assert (found.trial, found.round, found.arm, found.workload) == (2, 1, "pgo", "reads")
    assert found.started_s == pytest.approx(10.0 + LEAD_S)
    assert found.wall_s == pytest.approx(2.0)
    assert found.queries == pytest.approx(1000, abs=1)
    assert (found.total_cpu_s, found.user_cpu_s, found.system_cpu_s) == pytest.approx((1.8, 1.6, 0.2))


def test_a_default_slice_takes_a_load_of_three_seconds_with_some_to_spare() -> None:
    options = Options()
    assert load_s(plan(slice_s=options.slice_s)) == 3
    assert load_s(plan(slice_s=options.slice_s + 0.15)) == 3, "reading a busy server's counters takes time, too"


def test_the_clients_cpu_time_is_scaled_from_the_whole_load_to_the_slice() -> None:
    assert measured(World({"pgo": 500.0})).client_cpu_s == pytest.approx(0.3 * 2.0)


def test_other_load_is_what_server_and_client_did_not_use() -> None:
    assert measured(World({"pgo": 500.0}, other=0.25)).other_cpu_s == pytest.approx(0.25 * 2.0)
    assert measured(World({"pgo": 500.0})).other_cpu_s == pytest.approx(0.0, abs=1e-9)


def test_steal_is_apart_from_other_load() -> None:
    found = measured(World({"pgo": 500.0}, steal=0.25))
    assert (found.steal_s, found.other_cpu_s) == pytest.approx((0.25 * 2.0, 0.0), abs=1e-9)


def test_latencies_that_a_driver_does_not_report_stay_unknown() -> None:
    assert measured(World({"pgo": 500.0})).latency_ms_p99 == 3.0
    assert measured(World({"pgo": 500.0}, latency_ms_p99=None)).latency_ms_p99 is None


def failing(self: FakeLoad) -> LoadReport:
    raise LoadFailed("exit code 1")


def test_a_load_that_fails_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FakeLoad, "finish", failing)
    with pytest.raises(LoadFailed):
        measured(World({"pgo": 500.0}))


def test_a_dead_server_is_a_better_reason_than_its_failed_load(monkeypatch: pytest.MonkeyPatch) -> None:
    def dies(self: FakeLoad) -> LoadReport:
        def dead() -> int:
            raise ServerFailed("killed by SIGSEGV")

        monkeypatch.setattr(self.world.loaded[0], "queries", dead)
        return failing(self)

    monkeypatch.setattr(FakeLoad, "finish", dies)
    with pytest.raises(ServerFailed):
        measured(World({"pgo": 500.0}))
