from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from upshift.errors import ServerFailed
from upshift.measure import kernel
from upshift.measure.kernel import Usage, usage
from upshift.process import descendants

BURN = """
import sys, threading, time
zeros = open("/dev/zero", "rb", buffering=0)
work = {"user": lambda: sum(range(20_000)), "system": lambda: zeros.readinto(room)}[sys.argv[1]]
room = bytearray(1 << 20)
def burn():
    until = time.thread_time() + 0.15
    while time.thread_time() < until: work()
threads = [threading.Thread(target=burn) for _ in range(2)]
[thread.start() for thread in threads]; [thread.join() for thread in threads]
print("done", flush=True)
input()
"""


SPIN = """
import threading, time
def spin():
    until = time.monotonic() + 20
    while time.monotonic() < until: pass
threading.Thread(target=spin).start()
print("ready", flush=True)
"""


FAMILY = """
import os, sys, time
def burn():
    until = time.process_time() + 0.2
    while time.process_time() < until: pass
if os.fork() == 0:  # one that ends, and is waited for
    burn(); os._exit(0)
os.wait()
if os.fork() == 0:  # one that lives, in a session of its own, as PostgreSQL's do
    os.setsid(); burn()
    if os.fork() == 0: burn()
    print("done", flush=True)
    time.sleep(20)
time.sleep(20)
"""


@pytest.mark.parametrize("mode", ["user", "system"])
def test_cpu_time_of_a_process_counts_all_threads_even_those_that_ended(mode: str) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", BURN, mode], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin and process.stdout
        before = usage(process.pid)
        assert process.stdout.readline() == "done\n"
        spent = usage(process.pid) - before
        process.stdin.write("\n")
    # 0.30 s in two threads that have ended, and the interpreter's own start.
    assert 0.30 <= spent.total_cpu_s <= 1.0
    assert spent.total_cpu_s == pytest.approx(spent.user_cpu_s + spent.system_cpu_s, abs=0.03), "ticks are 10 ms"
    assert (spent.user_cpu_s > spent.system_cpu_s) == (mode == "user")
    # The machine did at least half of that, by its own count, which is kept apart from the process's.
    assert spent.machine_busy_cpu_s >= 0.15


def test_cpu_time_of_a_server_is_that_of_all_its_processes() -> None:
    with subprocess.Popen([sys.executable, "-c", FAMILY], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout and [process.stdout.readline() for _ in range(2)] == ["done\n"] * 2
            spent = usage(process.pid)
            again = usage(process.pid) - spent
        finally:
            family = [process.pid, *descendants(process.pid)]
            for pid in family:
                os.kill(pid, signal.SIGKILL)
    assert len(family) == 3
    # Three burnt 0.2 s each, one of which has ended; interpreters' starts come on top.
    assert 0.58 <= spent.total_cpu_s <= 1.5
    assert spent.total_cpu_s == pytest.approx(spent.user_cpu_s + spent.system_cpu_s, abs=0.08), "ticks are 10 ms"
    assert 0 <= again.total_cpu_s <= 0.02


def test_a_process_that_sleeps_uses_nothing() -> None:
    with subprocess.Popen([sys.executable, "-c", "print(flush=True); input()"], stdin=-1, stdout=-1) as process:
        assert process.stdin and process.stdout
        process.stdout.readline()
        before = usage(process.pid)
        time.sleep(0.05)
        spent = usage(process.pid) - before
        process.stdin.close()
    assert spent.user_cpu_s + spent.system_cpu_s <= 0.02
    assert spent.total_cpu_s <= 0.02
    assert spent.swapped_bytes >= 0


@pytest.mark.skipif(not Path("/proc/self/schedstat").is_file(), reason="this kernel does not say")
def test_two_that_share_a_cpu_wait_for_it() -> None:
    command = ("taskset", "-c", str(min(os.sched_getaffinity(0))), sys.executable, "-c", SPIN)
    with contextlib.ExitStack() as stack:
        both = [stack.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE)) for _ in range(2)]
        for each in both:
            stack.callback(each.kill)
        for each in both:
            assert each.stdout and each.stdout.readline() == b"ready\n"
        before = usage(both[0].pid)
        time.sleep(0.5)
        spent = usage(both[0].pid) - before
    assert spent.run_delay_s >= 0.05


def test_a_process_that_is_gone_is_a_dead_server() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        pass
    with pytest.raises(ServerFailed):
        usage(process.pid)


def test_a_total_is_finer_than_a_tick() -> None:
    before = usage(os.getpid())
    sum(range(10_000))
    spent = usage(os.getpid()) - before
    assert spent.total_cpu_s > 0
    assert spent.total_cpu_s % 0.01 != 0


def test_busy_and_stolen_time_are_those_of_the_cpus_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """CPU 1 is offline: the kernel leaves its line out."""
    stat = tmp_path / "stat"
    lines = [f"cpu{number} {number}00 10 20 900 30 4 6 {number}0 50 5" for number in (0, 2, 3)]
    stat.write_text("\n".join(["cpu  500 30 60 2700 90 12 18 50 150 15", *lines, "intr 7 0 1", "ctxt 9", ""]))
    monkeypatch.setattr(kernel, "_STAT", stat)
    ticks_a_s = os.sysconf("SC_CLK_TCK")

    def seen(*cpus: int) -> tuple[int, int]:
        found = usage(os.getpid(), cpus)
        return round(found.machine_busy_cpu_s * ticks_a_s), round(found.steal_s * ticks_a_s)

    assert seen(2) == (240, 20)
    assert seen(2, 3) == (580, 50)
    # lxcfs numbers the CPUs of a container anew: those that were asked for cannot be told.
    assert seen(1, 3) == seen() == (620, 50)
    assert seen() == (620, 50), "all that there are"


def test_differences() -> None:
    later, earlier = Usage(5.5, 3.0, 2.0, 0.75, 9.0, 0.5, 500), Usage(1.5, 1.0, 0.5, 0.25, 4.0, 0.25, 100)
    assert later - earlier == Usage(4.0, 2.0, 1.5, 0.5, 5.0, 0.25, 400)
