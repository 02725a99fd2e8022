"""A server and its load are moved to other CPUs: what the bench asks of their processes, and what processes do."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Collection
from pathlib import Path

import pytest
from fake_bench import SEATS, arm, duet_plan, plan
from fakes import FakeKind, FakeProcess, FakeShell
from test_variant import LOAD, TUNED

from upshift.errors import ServerFailed
from upshift.measure.model import Plan
from upshift.measure.server_bench import ServerBench
from upshift.process import descendants, start
from upshift.shell import Command
from upshift.workload.model import Workload

ONE, OTHER = SEATS
PLAIN = arm("plain")


def bench_of(folder: Path, processes: list[FakeProcess], measured: Plan) -> tuple[ServerBench, FakeShell]:
    shell = FakeShell(processes=iter(processes))
    made = {"name": "reads", "fill": {"command": ["fill"]}, "load": {"command": ["load"]}}
    data = dict.fromkeys(("plain", TUNED.name), folder)
    loads = {"reads": Workload.model_validate(made)}
    return ServerBench(shell, lambda _program: FakeKind(), measured, loads, data, folder, folder / "log"), shell


@pytest.fixture
def affinity(monkeypatch: pytest.MonkeyPatch) -> set[int]:
    """What the kernel says of every process; at first what a duet's first server is given."""
    has = {0}
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: has)
    return has


def test_a_server_and_its_load_start_on_their_cpus_and_are_moved_to_others(tmp_path: Path, affinity: set[int]) -> None:
    server, load = FakeProcess(), FakeProcess()
    bench, shell = bench_of(tmp_path, [server, load], duet_plan())
    with bench.arm(PLAIN.on(ONE), 0) as running:
        bench.place(running, None, PLAIN.on(ONE))
        begun = bench.begin(running, LOAD, 1.0, 7)
        assert [each.cpus for each in shell.spawned] == [(0,), (1,)]
        bench.place(running, begun, PLAIN.on(OTHER))
        bench.place(running, begun, PLAIN.on(OTHER))
        assert (server.kept_to, load.kept_to) == ([(2,)], [(3,)]), "moved once, when there was a way to go"
        again = bench.begin(running, LOAD, 1.0, 7)
        assert again.process is not load and shell.spawned[-1].cpus == (3,)


def test_servers_that_take_turns_are_never_moved(tmp_path: Path) -> None:
    server, load = FakeProcess(), FakeProcess()
    bench, shell = bench_of(tmp_path, [server, load], plan())
    with bench.arm(TUNED, 0) as running:
        begun = bench.begin(running, LOAD, 1.0, 7)
        bench.place(running, begun, TUNED)
    assert [each.cpus for each in shell.spawned] == [(2,), (3,)] and server.kept_to == load.kept_to == []


def test_outside_of_a_duets_turns_a_server_has_the_cpus_of_one(tmp_path: Path, affinity: set[int]) -> None:
    """Such as while it is explained: it must not configure itself for all CPUs of both."""
    bench, shell = bench_of(tmp_path, [FakeProcess(), FakeProcess()], duet_plan())
    with bench.arm(PLAIN, 0) as running:
        bench.begin(running, LOAD, 1.0, 7)
    assert [each.cpus for each in shell.spawned] == [(0,), (1,)]


def test_a_server_that_chose_other_cpus_is_refused_in_a_duet_alone(tmp_path: Path, affinity: set[int]) -> None:
    affinity |= {5}
    bench, _shell = bench_of(tmp_path, [FakeProcess()], duet_plan())
    with (
        pytest.raises(ServerFailed, match="arm 'plain': it runs on other CPUs than it was given, 0, 5") as refused,
        bench.arm(PLAIN.on(ONE), 0),
    ):
        pass
    assert "`under`" in str(refused.value.hint)
    bench, _shell = bench_of(tmp_path, [FakeProcess()], plan())
    with bench.arm(PLAIN, 0):
        pass


def test_a_server_that_may_not_be_moved_says_so(tmp_path: Path, affinity: set[int]) -> None:
    class Kept(FakeProcess):
        def keep_to(self, cpus: Collection[int]) -> None:
            raise PermissionError(1, "Operation not permitted")

    bench, _shell = bench_of(tmp_path, [Kept()], duet_plan())
    with (
        pytest.raises(ServerFailed, match=r"arm 'plain': .*cannot be moved to other CPUs: Operation not permitted") as failed,
        bench.arm(PLAIN.on(ONE), 0) as running,
    ):
        bench.place(running, None, PLAIN.on(OTHER))
    assert failed.value.hint


# A thread beside the first, a child in a session of its own, and a thread that starts once it is told to.
FAMILY = """
import os, sys, threading, time
from pathlib import Path
threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
if os.fork() == 0:
    os.setsid()
    Path("child").write_text("there")
    time.sleep(600)
Path("ready").write_text("there")
while not Path("go").exists():
    time.sleep(0.01)
threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
Path("gone").write_text("there")
time.sleep(600)
"""


def await_file(file: Path) -> None:
    deadline = time.monotonic() + 20
    while not file.exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert file.exists()


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="a process can be moved where there are two CPUs or more")
@pytest.mark.parametrize("paused", [True, False])
def test_all_threads_of_all_processes_are_moved_and_those_that_start_later(tmp_path: Path, paused: bool) -> None:
    first, second = sorted(os.sched_getaffinity(0))[:2]
    family = start(Command((sys.executable, "-c", FAMILY), cwd=tmp_path, cpus=(first,)), stdout=subprocess.DEVNULL)

    def allowed() -> list[set[int]]:
        pids = (family.pid, *descendants(family.pid))
        return [os.sched_getaffinity(int(task.name)) for pid in pids for task in Path(f"/proc/{pid}/task").iterdir()]

    try:
        await_file(tmp_path / "ready")
        await_file(tmp_path / "child")
        assert allowed() == [{first}] * 3
        if paused:
            family.pause()
        family.keep_to((second,))
        assert allowed() == [{second}] * 3
        if paused:
            family.resume()
        (tmp_path / "go").touch()
        await_file(tmp_path / "gone")
        assert allowed() == [{second}] * 4
    finally:
        family.stop()


def test_a_process_that_has_ended_is_not_moved() -> None:
    gone = start(Command(("true",)), stdout=subprocess.DEVNULL)
    gone.wait(20)
    gone.keep_to(os.sched_getaffinity(0))
