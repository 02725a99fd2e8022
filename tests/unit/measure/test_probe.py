"""The speed probe, on this machine's own CPUs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from fake_bench import arm, plan

from upshift.errors import UpshiftError, UsageError
from upshift.measure.kernel import sampling
from upshift.measure.probe import probing, refuse_without_right

CPU = min(os.sched_getaffinity(0))


def real_time() -> bool:
    """Whether this user may give a thread real-time priority."""
    try:
        refuse_without_right()
    except UsageError:
        return False
    return True


may = pytest.mark.skipif(not real_time(), reason="this user may not give a process real-time priority")


def wait_until(true: object, seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while not true():  # type: ignore[operator]
        assert time.monotonic() < deadline
        time.sleep(0.01)


def probes() -> list[psutil.Process]:
    return [each for each in psutil.Process().children() if each.is_running() and "probe_process" in " ".join(each.cmdline())]


@may
def test_its_counters_rise_on_each_cpu_until_it_ends() -> None:
    with probing(sorted(os.sched_getaffinity(0))) as probe:
        here = os.sched_getaffinity(0)
        before = probe(here)
        wait_until(lambda: probe(here).units >= before.units + 20)
        work = probe(here)
        assert 0 < (work.cpu_s - before.cpu_s) / (work.units - before.units) < 0.05
        assert probe({9999}).units == 0 and probe({CPU}).units > 0
        assert len(probes()) == 1
    assert probes() == []


@may
def test_one_that_was_killed_is_an_error() -> None:
    """Else all turns from then on would count as undisturbed."""
    with probing([CPU]) as probe:
        (process,) = probes()
        process.kill()
        process.wait()
        with pytest.raises(UpshiftError, match="ended by itself"):
            probe({CPU})


@may
def test_it_ends_with_its_parent() -> None:
    """Even one that is killed."""
    text = f"""
import time
from upshift.measure.probe import probing
with probing([{CPU}]):
    print("probing", flush=True)
    time.sleep(60)
"""
    source = str(Path(__file__).resolve().parents[3] / "src")
    with subprocess.Popen(
        [sys.executable, "-c", text], stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": source}
    ) as parent:
        assert parent.stdout is not None and parent.stdout.readline().strip() == "probing"
        (child,) = psutil.Process(parent.pid).children()
        parent.kill()
    wait_until(lambda: not child.is_running() or child.status() == psutil.STATUS_ZOMBIE)


def test_a_cpu_that_is_not_there_is_an_error_with_a_hint() -> None:
    if not real_time():
        pytest.skip("this user may not give a process real-time priority")
    with (
        pytest.raises(UsageError, match="the speed probe cannot run: CPU 9999: Invalid argument") as error,
        probing([CPU, 9999]),
    ):
        pytest.fail("it runs")
    assert "the CPU is offline" in error.value.hint and "leave the speed probe out" in error.value.hint


@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("setpriv") is None, reason="takes root, who gives up a capability")
def test_without_the_right_to_real_time_priority_it_says_so() -> None:
    text = """
from upshift.errors import UsageError
from upshift.measure.probe import refuse_without_right
try:
    refuse_without_right()
    print("it may")
except UsageError as error:
    print(error, "|", error.hint)
"""
    source = str(Path(__file__).resolve().parents[3] / "src")
    less = ("setpriv", "--bounding-set", "-sys_nice", "--inh-caps", "-sys_nice", "prlimit", "--rtprio=0:0")
    said = subprocess.run(
        [*less, sys.executable, "-c", text],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": source},
    ).stdout
    assert said.startswith("the speed probe cannot have real-time priority: Operation not permitted") and "CAP_SYS_NICE" in said


@may
def test_usage_counts_its_work_where_the_plan_asks_for_it() -> None:
    here = os.getpid()
    planned = plan().model_copy(update={"server_cpus": (CPU,), "client_cpus": (CPU,), "speed_probe": True})
    with sampling(planned, [arm("a")]) as sample:
        before = sample(here)
        wait_until(lambda: sample(here).probe_units > before.probe_units)
        since = sample(here) - before
        assert since.probe_cpu_s > 0
    with sampling(planned.model_copy(update={"speed_probe": False}), [arm("a")]) as sample:
        assert sample(here).probe_units == 0
    assert probes() == []
