"""What perf counts has a turn of its own for each server."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from explained_example import in_call, on
from fakes import FakeProcess, FakeProgress, FakeShell, Output

from upshift.explain import counting, gate
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


class Counters:
    """perf, attached at once; or never."""

    def __init__(self, ready: bool) -> None:
        self.ready, self.asked = ready, list[str]()

    def turn(self, state: str) -> bool:
        self.asked.append(state)
        return self.ready


def gated(monkeypatch: pytest.MonkeyPatch, counts: Mapping[int, str], *, ready: bool = True) -> list[Counters]:
    made: list[Counters] = []

    @contextmanager
    def counters(_shell: object, pid: int, _options: object, output: Path, _log: Path) -> Iterator[Counters]:
        made.append(Counters(ready))
        yield made[-1]
        output.write_text(counts[pid])

    monkeypatch.setattr(gate, "counters", counters)
    monkeypatch.setattr(counting, "_CALLS_S", 0.0)
    return made


FUTEX = "{},,syscalls:sys_enter_futex,2,100.00,,\n"


def test_system_calls_are_counted_in_rounds_between_the_middles_of_their_edges(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = gated(monkeypatch, {7: FUTEX.format(50), 8: FUTEX.format(25)})
    before, after = counted_by(Perf({}, {}), tmp_path).calls([(in_call("futex"), 3), (on("run"), 5)])
    assert len(before) == len(after) == counting.ROUNDS
    # Looks at 100, 200, 300, 400: 150 when the counters turn on, 350 when they turn off.
    assert {(each.counts["futex"], each.queries) for each in before} == {(50, 200.0)}
    assert {(each.counts["futex"], each.queries) for each in after} == {(25, 200.0)}
    assert all(each.asked == ["disable", "enable", "disable"] for each in made)


def test_a_perf_that_does_not_attach_counted_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gated(monkeypatch, dict.fromkeys((7, 8), FUTEX.format(50)), ready=False)
    assert counted_by(Perf({}, {}), tmp_path).calls([(in_call("futex"), 3)]) == ([], [])


def test_where_no_call_was_sampled_none_is_counted(tmp_path: Path) -> None:
    assert counted_by(Perf({}, {}), tmp_path).calls([(on("run"), 5)]) == ([], [])
