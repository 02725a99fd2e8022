"""The pilot: what it reads, what it chooses, and what the trials after it take from it."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from fake_bench import READS, WRITES, World, arm, plan

from upshift.measure.experiment import run_experiment
from upshift.measure.model import Experiment, Load, Plan
from upshift.measure.pilot import LADDER_S, PILOT, PilotTurn, choose, in_words, turns_within
from upshift.measure.samples import read_samples
from upshift.measure.schedule import loads_of
from upshift.options import SLICE_S

ARMS = [arm("plain"), arm("pgo")]
PILOTED = {"until": 0.5, "trials": 2, "pilot_turns": 5}


class Slowed(World):
    """A world in which a server is slower for ``cold_s`` after it was resumed."""

    cold_s = 0.0
    cold_arm = "pgo"

    def sleep(self, seconds: float) -> None:
        # In small steps: the rate changes within a turn.
        steps = max(1, math.ceil(seconds / 0.05 - 1e-9))
        for _ in range(steps):
            self._step(seconds / steps)

    def _step(self, seconds: float) -> None:
        usual = self.qps[self.cold_arm]
        if self._awake_s() < self.cold_s - 1e-9:
            self.qps[self.cold_arm] = usual * 0.7
        World.sleep(self, seconds)
        self.qps[self.cold_arm] = usual

    def _awake_s(self) -> float:
        """How long the cold arm has run in its turn."""
        for load in self.loaded:
            if load.server.name == self.cold_arm:
                running = not (load.paused or load.server.paused)
                self._since = self._since if running and self._ran else self.time_s
                self._ran = running
                return self.time_s - self._since
        self._ran = False
        return 0.0

    _since = 0.0
    _ran = False


def world(cold_s: float = 0.0) -> Slowed:
    bench = Slowed({"plain": 10_000.0, "pgo": 13_000.0})
    bench.cold_s = cold_s
    return bench


def run(
    bench: World, folder: Path, measured: Plan, loads: Sequence[Load] = (READS,), notes: list[str] | None = None
) -> Experiment:
    return run_experiment(
        *(measured, ARMS, ["plain"], loads, bench),
        clock=bench,
        samples=folder / "samples.parquet",
        on_progress=lambda _at: None,
        on_note=(notes if notes is not None else []).append,
        sample=bench.usage,
    )


def test_without_carry_over_the_trials_have_the_shortest_lead_in(tmp_path: Path) -> None:
    notes: list[str] = []
    found = run(world(), tmp_path, plan(**PILOTED), notes=notes)
    (chosen,) = found.lead_ins
    assert (chosen.workload, chosen.lead_s, chosen.why) == ("reads", LADDER_S[0], "no difference")
    assert chosen.moved == pytest.approx(0.0, abs=0.001)
    assert notes[0] == in_words(chosen) and "a lead-in of 0.1 s for reads" in notes[0]
    first, second = sorted(read_samples(tmp_path / "samples.parquet"), key=lambda each: each.started_s)[1:3]
    # The same arm's last turn in the first round and its first in the second: only a lead-in and another's turn between.
    assert second.started_s - first.started_s < 2 * (2.0 + 0.2)


def test_a_server_that_is_slow_at_first_gets_a_longer_one_as_do_all(tmp_path: Path) -> None:
    found = run(world(cold_s=0.4), tmp_path, plan(**PILOTED))
    (chosen,) = found.lead_ins
    assert chosen.lead_s == 0.5
    qps = next(each for each in found.comparisons if each.metric == "qps")
    assert qps.ratio == pytest.approx(1.3, rel=0.002)


def test_one_that_stays_slow_for_longer_gets_the_longest_and_the_flag(tmp_path: Path) -> None:
    found = run(world(cold_s=1.0), tmp_path, plan(**PILOTED, slice_s=0.4, rounds=4))
    (chosen,) = found.lead_ins
    assert (chosen.lead_s, chosen.why) == (LADDER_S[-1], "longest")
    assert chosen.moved < -0.1
    assert "the longest: the servers' ratio still moves by" in in_words(chosen)
    assert "carry-over" in {each.name for each in found.flags}


def test_the_pilot_counts_in_no_figure(tmp_path: Path) -> None:
    bench = world()
    found = run(bench, tmp_path, plan(**PILOTED), loads=[READS, WRITES])
    assert bench.started[:2] in ([("plain", PILOT), ("pgo", PILOT)], [("pgo", PILOT), ("plain", PILOT)])
    assert {each.trial for each in read_samples(tmp_path / "samples.parquet")} == {0, 1}
    assert min(each.started_s for each in read_samples(tmp_path / "samples.parquet")) < 10
    assert {each.workload for each in found.lead_ins} == {"reads", "writes"}
    kept = json.loads((tmp_path / "samples.pilot.json").read_text())
    assert len(kept["turns"]) == 2 * len(ARMS) * 5
    assert {len(each["queries"]) for each in kept["turns"]} == {7}


def test_a_resumed_experiment_keeps_the_pilots_choice(tmp_path: Path) -> None:
    def interrupt(at: World) -> None:
        if at.started[-1][1] == 1:
            raise KeyboardInterrupt

    bench = world(cold_s=0.4)
    bench.on_begin = interrupt
    with pytest.raises(KeyboardInterrupt):
        run(bench, tmp_path, plan(**PILOTED))
    again = world()  # Which would choose another.
    found = run(again, tmp_path, plan(**PILOTED))
    assert PILOT not in {trial for _name, trial in again.started}
    assert found.lead_ins[0].lead_s == 0.5


def test_the_pilot_of_another_experiment_is_put_aside(tmp_path: Path) -> None:
    run(world(cold_s=0.4), tmp_path, plan(**PILOTED))
    found = run(world(), tmp_path, plan(**PILOTED, seed=8))
    assert found.lead_ins[0].lead_s == LADDER_S[0]
    assert (tmp_path / "samples.pilot.old-1.json").is_file()


def test_without_one_the_lead_in_is_the_plans(tmp_path: Path) -> None:
    bench = world()
    found = run(bench, tmp_path, plan(until=0.5, trials=2))
    assert found.lead_ins == ()
    assert PILOT not in {trial for _name, trial in bench.started}
    assert not (tmp_path / "samples.pilot.json").exists()


def test_the_budget_limits_the_pilot_and_may_leave_none() -> None:
    one, two = loads_of(["a"], [], [8]), loads_of(["a", "b"], [], [8])
    assert turns_within(plan(pilot_turns=12), 2, one) == 12
    limited = plan(pilot_turns=12, budget_s=200.0)
    some = turns_within(limited, 2, one)
    assert 4 <= some < 12
    assert turns_within(limited, 2, two) < some
    assert turns_within(limited, 2, loads_of(["a"], [], [512])) < some, "connecting takes time"
    assert turns_within(plan(pilot_turns=12, budget_s=30.0), 2, one) == 0
    assert turns_within(plan(pilot_turns=12), 1, one) == 0, "one arm alone has no ratio"


def test_a_budget_too_small_for_a_pilot_is_said(tmp_path: Path) -> None:
    notes: list[str] = []
    found = run(world(), tmp_path, plan(**PILOTED, budget_s=30.0), notes=notes)
    assert found.lead_ins == () and notes[0].startswith("no pilot")


def test_what_the_pilot_took_is_not_left_for_trials(tmp_path: Path) -> None:
    def trials(folder: str, **changes: object) -> int:
        bench = world()
        bench.on_begin = lambda at: at.qps.update(pgo=13_000.0 + 100 * at.started[-1][1] % 7)
        run(bench, tmp_path / folder, plan(until=1e-6, trials=2, budget_s=400.0, **changes))
        return len({each.trial for each in read_samples(tmp_path / folder / "samples.parquet")})

    # Both have a lead-in of 0.1 s: what differs is the time that the pilot took.
    assert trials("with", pilot_turns=5) < trials("without", lead_s=0.1)


def read(arm: str, count: int, done: Callable[[int, float], float]) -> list[PilotTurn]:
    """So many turns, each with what was ``done`` in the turn of a number up to each moment at which counters are read."""
    at_s = (0.0, 0.1, 0.2, 0.4, 0.7, 1.1, 1.9)
    return [
        PilotTurn(workload="reads", arm=arm, round=number, at_s=at_s, queries=tuple(round(done(number, at)) for at in at_s))
        for number in range(count)
    ]


def turns_of(arm: str, early: Sequence[float]) -> list[PilotTurn]:
    """Turns in which the first 0.4 s had so much of the later throughput."""
    return read(arm, len(early), lambda number, at: 10_000 * (at - (1 - early[number]) * min(at, 0.4)))


def test_all_servers_that_slow_down_alike_move_no_ratio() -> None:
    early = [0.8, 0.81, 0.79, 0.8]
    (found,) = choose([*turns_of("plain", early), *turns_of("pgo", early)], "plain", 0.3, SLICE_S)
    assert found.lead_s == LADDER_S[0]


def test_what_a_lead_in_leaves_counts_in_the_slices_that_follow() -> None:
    """Up to 0.2 s a server does 6 % less: much of a slice of 0.1 s behind 0.1 s, little of one of 0.4 s."""
    # Noise of 2.5 % in the first 0.4 s hides the 1.5 % that the server does less there.
    slowed = read("pgo", 6, lambda number, at: 100_000 * at - 600 * (at > 0) + (-1) ** number * 1_000 * (at >= 0.4))
    found = [*read("plain", 6, lambda _number, at: 100_000 * at), *slowed]
    assert [each.lead_s for slice_s in (0.4, 0.1) for each in choose(found, "plain", 0.3, slice_s)] == list(LADDER_S[:2])


def test_noise_is_a_reason_to_keep_the_fixed_lead_in() -> None:
    (found,) = choose([*turns_of("plain", [1.0] * 4), *turns_of("pgo", [0.9, 1.1, 0.88, 1.12])], "plain", 0.3, SLICE_S)
    assert found.lead_s == 0.3
    (found,) = choose([*turns_of("plain", [1.0] * 4), *turns_of("pgo", [1.0, 1.001, 1.0, 0.999])], "plain", 0.3, SLICE_S)
    assert found.lead_s == LADDER_S[0]


def test_any_of_several_servers_may_be_the_one_that_needs_longer() -> None:
    steady = [1.0, 1.001, 0.999, 1.0]
    slow = [each * 0.9 for each in steady]
    (found,) = choose([*turns_of("plain", steady), *turns_of("pgo", steady), *turns_of("bolt", slow)], "plain", 0.3, SLICE_S)
    assert found.lead_s == 0.5


def test_a_turn_without_queries_says_nothing() -> None:
    still = [each.model_copy(update={"queries": (0,) * 7}) for each in turns_of("pgo", [1.0] * 4)]
    (found,) = choose([*turns_of("plain", [1.0] * 4), *still], "plain", 0.3, SLICE_S)
    assert (found.lead_s, found.why) == (0.3, "noise")


@pytest.mark.parametrize("full_turns", [0, 1])
def test_turns_in_which_hardly_a_query_ends_tell_nothing(full_turns: int) -> None:
    """One turn alone has no spread."""
    at_s = (0.0, 0.1, 0.2, 0.4, 0.7, 1.1, 1.9)
    found = [
        PilotTurn(workload="slow", arm=name, round=number, at_s=at_s, queries=(0, 0, 0, 0, 0, 1, 2))
        for name in ("plain", "pgo")
        for number in range(4 - full_turns)
    ]
    found += [
        turn.model_copy(update={"workload": "slow", "round": 3})
        for name in ("plain", "pgo")
        for turn in turns_of(name, [1.0] * full_turns)
    ]
    (chosen,) = choose(found, "plain", 0.3, SLICE_S)
    assert (chosen.lead_s, chosen.why) == (0.3, "noise")
    assert in_words(chosen).endswith("too few queries ended to tell whether a shorter one would do")
