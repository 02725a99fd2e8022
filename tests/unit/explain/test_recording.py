"""Whether perf may sample, and in which order servers take turns."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from explained_example import block, on, variant
from fakes import FakeProcess, FakeProgress, FakeShell, Output

from upshift.errors import CommandFailed, LoadFailed, MissingTool
from upshift.explain import explaining, interrupts, recording
from upshift.explain.kernel_time import INTERRUPTS
from upshift.explain.recording import Block, Switches, record, recording_s, rounds_of, switches
from upshift.explain.symbols import SymbolTable
from upshift.measure.bench import RunningArm
from upshift.measure.model import Load
from upshift.toolchain.perf import sampling_event
from upshift.workbench import Workbench

LOAD = Load(workload="mix", connections=4, held_out=False)


@pytest.fixture(autouse=True)
def perf_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("UPSHIFT_PERF", raising=False)
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")


def test_without_perf_nothing_can_be_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda _name: None)
    with pytest.raises(MissingTool, match="there is no perf") as error:
        sampling_event(FakeShell())
    assert "linux-perf" in error.value.hint


def test_a_perf_that_the_environment_forbids_is_not_called_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UPSHIFT_PERF", "off")
    with pytest.raises(MissingTool, match="UPSHIFT_PERF=off forbids perf") as error:
        sampling_event(FakeShell())
    assert error.value.hint == "unset UPSHIFT_PERF"


def test_a_perf_that_may_not_sample_is_named_with_what_allows_it() -> None:
    with pytest.raises(MissingTool, match="perf is not allowed to sample here") as error:
        sampling_event(FakeShell({"perf record": Output(returncode=255)}))
    assert "perf_event_paranoid" in error.value.hint


def test_the_kernel_is_left_out_where_perf_may_not_sample_it() -> None:
    assert sampling_event(FakeShell()) == "cpu-clock"
    # It may be asked for all, and samples user code alone then: what it may is told by the kernel alone.
    assert sampling_event(FakeShell({"cpu-clock:k -o": Output(returncode=255)})) == "cpu-clock:u"


class Server:
    """Runs, or is stopped."""

    def __init__(self, name: str) -> None:
        self.name, self.runs, self.pid = name, True, os.getpid()

    def pause(self) -> None:
        self.runs = False

    def resume(self) -> None:
        self.runs = True


class Bench:
    """Starts nothing and remembers the loads."""

    def __init__(self) -> None:
        self.warmed: list[str] = []
        self.servers: list[Server] = []

    @contextmanager
    def arm(self, arm: Any, trial: int) -> Iterator[Any]:
        self.servers.append(Server(arm.name))
        yield self.servers[-1]

    def place(self, running: Any, load: Any, arm: Any) -> None:
        raise AssertionError("whoever is sampled is not moved")

    def check(self, running: Any) -> None:
        """It is what it was."""

    def begin(self, running: Any, load: Load, seconds: float, seed: int) -> Any:
        self.warmed.append(running.name)
        return self

    def finish(self) -> None: ...


def recorded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, made: Block) -> tuple[list[str], Bench]:
    turns: list[str] = []

    def one(_bench: object, _servers: object, _running: object, who: Any, *_more: object, **_named: object) -> Block:
        turns.append(who.name)
        assert [each.name for each in bench.servers if each.runs] == [who.name]
        return made

    monkeypatch.setattr(recording, "_block", one)
    bench, pair, table = Bench(), (variant("a"), variant("b")), SymbolTable([], [])
    place = Workbench(tmp_path, FakeShell(), tmp_path / "log", FakeProgress())
    record(place, bench, pair, (table, table), LOAD, "cpu-clock", seconds=8, with_calls=True, on_block=lambda *_at: None)
    return turns, bench


def test_servers_take_turns_and_neither_is_always_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    turns, bench = recorded(monkeypatch, tmp_path, block({on("run"): 5}))
    assert turns == ["a", "b", "b", "a"] * 2 and bench.warmed == ["a", "b"]
    assert all(each.runs for each in bench.servers)


def test_a_server_that_was_idle_is_no_explanation(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(LoadFailed, match="a: there are no samples"):
        recorded(monkeypatch, tmp_path, block({}))
    with pytest.raises(LoadFailed, match="no queries"):
        recorded(monkeypatch, tmp_path, block({on("run"): 5}, queries=0))


class Loaded(Bench):
    """A load that answers ten queries between two looks."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds: list[float] = []
        self.answers = 0

    def begin(self, running: Any, load: Load, seconds: float, seed: int) -> Any:
        self.seconds.append(seconds)
        return self

    def answered(self) -> int:
        self.answers += 10
        return self.answers


def one_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, codes: list[int]) -> tuple[Block, Loaded]:
    monkeypatch.setattr(recording, "LEAD_S", 0.0)
    shell = FakeShell(processes=(FakeProcess(polls_before_end=0, code_at_end=code) for code in codes))
    bench, running = Loaded(), cast(RunningArm, Server("a"))
    place = Workbench(tmp_path, shell, tmp_path / "log", FakeProgress())
    table = SymbolTable([], [])
    return recording._block(place, bench, running, variant("a"), table, LOAD, "cpu-clock", 1.0, 1), bench


def test_a_recording_whose_load_ended_first_is_made_again_under_a_longer_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, bench = one_block(tmp_path, monkeypatch, [0])
    assert (found.queries, len(bench.seconds)) == (10, 1)
    found, bench = one_block(tmp_path, monkeypatch, [255, 0])
    assert found.queries == 10 and bench.seconds[0] < bench.seconds[1] and len(bench.seconds) == 2


def test_interrupts_of_a_block_are_those_between_its_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    so_far = iter((1_000, 1_250))
    monkeypatch.setattr(interrupts, "beside", lambda _pid: next(so_far))
    assert one_block(tmp_path, monkeypatch, [0])[0].interrupts == 250
    monkeypatch.setattr(interrupts, "beside", lambda _pid: None)
    assert one_block(tmp_path, monkeypatch, [0])[0].interrupts is None


def test_interrupts_are_given_up_where_one_block_does_not_tell_them() -> None:
    told = replace(block({on("run"): 5}), interrupts=250)
    before, after = explaining._interrupts(([told, told], [told, told]))
    assert [dict(each.counts) for each in (*before, *after)] == [{INTERRUPTS: 250}] * 4
    assert explaining._interrupts(([told, told], [told, block({on("run"): 5})])) == ((), ())


def test_a_perf_that_never_comes_to_its_end_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CommandFailed, match="did not finish a recording"):
        one_block(tmp_path, monkeypatch, [255, 255, 255])


def test_switches_are_told_apart_by_who_wanted_them() -> None:
    status = "Name:\tmysqld\nThreads:\t2\nvoluntary_ctxt_switches:\t150\nnonvoluntary_ctxt_switches:\t7\n"
    assert switches([status, status.replace("150", "1")]) == Switches(voluntary=151, forced=14)
    assert switches([]) == Switches(0, 0)


def test_blocks_are_replicated_however_short_the_time() -> None:
    assert rounds_of(1) == rounds_of(8) == 4 and rounds_of(16) == 8
    assert recording_s(32) > recording_s(16) > 32
