"""Where trainings run side by side, and how all of them are stopped."""

from __future__ import annotations

import os
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
from fakes import FakeKind, FakeProcess, FakeShell

from upshift import control_groups
from upshift.errors import ServerFailed
from upshift.profile.places import Places, Trainees, divided
from upshift.shell import Command, SystemShell
from upshift.workload.model import Workload


@dataclass(frozen=True)
class Memory:
    """What stands in for ``psutil.virtual_memory``'s answer."""

    available: int


@pytest.mark.parametrize(
    ("cpus", "parts", "sets"),
    [
        ((0, 1), 3, [(), (), ()]),
        ((0, 1, 2, 3, 4), 2, [(0, 1), (2, 3, 4)]),
        ((4, 6, 8), 3, [(4,), (6,), (8,)]),
        ((0, 1), 1, [()]),
        ((3,), 2, [(), ()]),
        ((0, 1), 0, [()]),
    ],
)
def test_cpus_are_divided_among_trainings(cpus: tuple[int, ...], parts: int, sets: list[tuple[int, ...]]) -> None:
    assert divided(cpus, parts) == sets


def workloads(count: int) -> list[Workload]:
    made = {"fill": {"command": ["f"]}, "load": {"command": ["l"]}}
    return [Workload.model_validate({"name": str(number), **made}) for number in range(count)]


class Pooled(FakeKind):
    def pool_bytes(self, settings: object) -> int | None:
        return 1_000_000_000


@pytest.mark.parametrize(
    ("cpus", "quota", "available_bytes", "places"),
    [
        (8, None, 100e9, 3),
        (8, None, 4.5e9, 2),
        (8, None, 1e9, 1),
        (2, None, 100e9, 3),
        (1, None, 100e9, 2),
        (64, 1.0, 100e9, 2),
    ],
)
def test_memory_and_cpus_bound_how_many_trainings_run(
    monkeypatch: pytest.MonkeyPatch, cpus: int, quota: float | None, available_bytes: float, places: int
) -> None:
    monkeypatch.setattr(control_groups, "least_quota_cpus", lambda: quota)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: set(range(cpus)))
    monkeypatch.setattr(psutil, "virtual_memory", lambda: Memory(int(available_bytes)))
    assert len(Places.for_workloads(Pooled(), workloads(3))) == places


def test_a_place_belongs_to_one_training_at_a_time() -> None:
    places, seen = Places([(0,), (1,)]), []
    both = threading.Barrier(2)

    def work() -> None:
        with places.taken() as cpus:
            seen.append(cpus)
            both.wait(10)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert sorted(seen) == [(0,), (0,), (1,), (1,)]


def test_all_that_was_started_is_stopped_and_nothing_starts_any_more(tmp_path: Path) -> None:
    running, ended = FakeProcess(), FakeProcess(code=0)
    trainees = Trainees(FakeShell(processes=iter([running, ended])))
    for _ in range(2):
        trainees.spawn(Command(("server",)), log=tmp_path / "log")
    trainees.stop()
    assert running.signals == [9] and ended.signals == []
    with pytest.raises(ServerFailed, match="was stopped"):
        trainees.spawn(Command(("server",)), log=tmp_path / "log")


def test_what_a_load_s_shell_started_is_stopped_with_it(tmp_path: Path) -> None:
    shell, pid = SystemShell(), tmp_path / "pid"
    trainees = Trainees(shell)
    trainees.spawn(Command(("sh", "-c", f"sleep 600 & echo $! > {pid}.new; mv {pid}.new {pid}; wait")), log=tmp_path / "log")
    try:
        deadline = time.monotonic() + 30
        while not pid.is_file() and time.monotonic() < deadline:
            time.sleep(0.02)
        trainees.stop()
        driver = int(pid.read_text())
        assert not psutil.pid_exists(driver) or psutil.Process(driver).status() == psutil.STATUS_ZOMBIE
    finally:
        shell.close()
