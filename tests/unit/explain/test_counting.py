"""What perf counts has a turn of its own for each server."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from explained_example import in_call, on
from fakes import FakeProcess, FakeProgress, FakeShell, Output

from upshift.explain import counting
from upshift.explain.counting import Counting
from upshift.explain.model import Slots
from upshift.measure.model import Load
from upshift.shell import Command
from upshift.workbench import Workbench

COUNTS = Output("12345,,instructions:u,583866,100.00,,\n")
SLOTS = "retiring,bad speculation,frontend bound,backend bound,\n{},10.0,40.0,30.0,\n"


class Perf(FakeShell):
    """Writes into its -o what it counts of a process."""

    def __init__(self, counts: Mapping[str, str], outputs: Mapping[str, Output]) -> None:
        super().__init__(outputs)
        self.counts = counts

    def spawn(self, command: Command, *, log: Path) -> FakeProcess:
        words = list(command.argv)
        Path(words[words.index("-o") + 1]).write_text(self.counts[words[words.index("-p") + 1]])
        return super().spawn(command, log=log)


class Arm(SimpleNamespace):
    """Runs, or is stopped."""

    def pause(self) -> None:
        self.runs = False

    def resume(self) -> None:
        self.runs = True


class Bench:
    """Answers a hundred queries between two looks."""

    def __init__(self, arms: tuple[Arm, Arm]) -> None:
        self.arms, self.answers = arms, 0

    def begin(self, running: Arm, load: Load, seconds: float, seed: int) -> Any:
        assert [each.pid for each in self.arms if each.runs] == [running.pid]
        return self

    def answered(self) -> int:
        self.answers += 100
        return self.answers

    def finish(self) -> None: ...


def counted_by(perf: Perf, folder: Path) -> Counting:
    arms = Arm(pid=7, runs=True), Arm(pid=8, runs=True)
    bench: Any = Bench(arms)
    running: Any = arms
    place = Workbench(folder, perf, folder / "log", FakeProgress())
    return Counting(place, bench, running, Load(workload="mix", connections=4, held_out=False))


@pytest.fixture(autouse=True)
def perf_begins_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counting, "LEAD_S", 0.0)
    monkeypatch.setattr(counting, "begun", lambda _process, _timeout_s: True)


def test_slots_are_of_each_server_while_the_other_is_stopped(tmp_path: Path) -> None:
    known = {"instructions:u": COUNTS, "--topdown": Output(SLOTS.format(20.0))}
    found, why_not = counted_by(Perf({"7": SLOTS.format(20.0), "8": SLOTS.format(19.0)}, known), tmp_path).slots()
    assert why_not == ""
    assert found == tuple(
        Slots(retiring=share, bad_speculation=0.1, frontend_bound=0.4, backend_bound=0.3) for share in (0.2, 0.19)
    )


def test_slots_of_one_server_alone_are_none_and_it_is_said(tmp_path: Path) -> None:
    known = {"instructions:u": COUNTS, "--topdown": Output(SLOTS.format(20.0))}
    found, why_not = counted_by(Perf({"7": SLOTS.format(20.0), "8": SLOTS.format(90.0)}, known), tmp_path).slots()
    assert found is None and "do not add up" in why_not


def test_without_counters_no_server_has_a_turn(tmp_path: Path) -> None:
    perf = Perf({}, {})
    found, why_not = counted_by(perf, tmp_path).slots()
    assert found is None and "counts no instructions" in why_not and not perf.spawned


def test_system_calls_are_counted_by_query(tmp_path: Path) -> None:
    perf = Perf({"7": "50,,syscalls:sys_enter_futex,2,100.00,,\n", "8": "25,,syscalls:sys_enter_futex,2,100.00,,\n"}, {})
    stacks = [(in_call("futex"), 3), (on("run"), 5)]
    assert counted_by(perf, tmp_path).calls(stacks) == ({"futex": 0.5}, {"futex": 0.25})


def test_a_perf_that_begins_too_late_counted_nothing_to_divide_by(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counting, "begun", lambda _process, _timeout_s: False)
    perf = Perf(dict.fromkeys(("7", "8"), "50,,syscalls:sys_enter_futex,2,100.00,,\n"), {})
    assert counted_by(perf, tmp_path).calls([(in_call("futex"), 3)]) == ({}, {})
