"""Kills, interrupts and second runs: nothing is left behind, and --resume goes on."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterator

import psutil
import pytest
from conftest import Cli, optimizing

from upshift.build.recipe import find_recipe
from upshift.stages.names import all_stages

pytestmark = pytest.mark.pipeline

_STAGE_TIMEOUT_S = 900


@contextlib.contextmanager
def _started(cli: Cli, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A run that says what it does. It ends with the context: one that goes on would hold the cache against other tests."""
    process = cli.start("--verbose", *arguments)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def _reach(process: subprocess.Popen[str], stage: str) -> None:
    """Read what a run says until a stage has started its first command."""
    assert process.stderr is not None
    deadline = time.monotonic() + _STAGE_TIMEOUT_S
    seen: list[str] = []
    begun = False
    for line in process.stderr:
        seen.append(line)
        if begun and line.startswith("+ "):
            break
        begun = begun or (f"] {stage} " in line and ":" not in line.split("]", 1)[1].split(stage)[1][:1])
        assert time.monotonic() < deadline, "".join(seen)
    assert begun, "".join(seen)
    while not psutil.Process(process.pid).children():
        assert time.monotonic() < deadline, "its command was never started"
        time.sleep(0.01)


def _stop_in(process: subprocess.Popen[str], stage: str, number: int) -> None:
    """Send a run a signal when a stage has started its first command."""
    _reach(process, stage)
    assert os.getpgid(process.pid) == process.pid
    os.kill(process.pid, number)
    process.wait(30)


def _left_behind(cli: Cli) -> list[str]:
    """Processes that work in this cache, after some time in which orphaned compilers may end."""
    deadline = time.monotonic() + 60
    while True:
        found = []
        for process in psutil.process_iter(["cmdline", "status"]):
            line = " ".join(process.info["cmdline"] or ())
            if str(cli.cache) in line and process.info["status"] != psutil.STATUS_ZOMBIE:
                found.append(line)
        if not found or time.monotonic() > deadline:
            return found
        time.sleep(0.2)


def test_a_run_killed_in_every_stage_comes_to_its_end_and_gcc_does_pgo_with_lto(cli: Cli) -> None:
    """No other test has made GCC's stages: each runs, and can be killed."""
    before = cli.runs()
    stages = ("plain build", "hot set", "instrumented build", "train", "optimised build", "measure")
    arguments = optimizing("--toolchain", "gcc")
    for stage in stages:
        with _started(cli, *arguments) as process:
            _stop_in(process, stage, signal.SIGKILL)
        assert _left_behind(cli) == []
        arguments = ("optimize", "--resume", "last", "--no-install")
    done = cli(*arguments, "--json")
    assert done.code == 0, done.stderr
    result = done.result()
    assert tuple(stage.name for stage in result.stages) == all_stages("full", find_recipe("gcc-pgo-lto"))[:-1]
    assert len(cli.runs()) == len(before) + 1
    kept = {stage.name for stage in result.stages if stage.cached}
    assert {"plain build", "hot set", "train"}.isdisjoint(kept)
    assert done.stderr.count("kept from an earlier run") >= len(stages) - 1
    optimised = result.builds[1]
    assert optimised.compiler.startswith("gcc ") and optimised.profile.startswith("gcc ")


def test_a_second_run_at_once_is_refused_and_ctrl_c_leaves_no_process_and_exits_130(cli: Cli) -> None:
    # How long it trains is part of a training's key: no other test has trained for it.
    with _started(cli, *optimizing("--train-seconds", "3")) as process:
        _reach(process, "source")
        second = cli(*optimizing())
        assert second.code == 1
        assert "another run" in second.stderr
        assert "hint:" in second.stderr
        _stop_in(process, "post-link", signal.SIGINT)
    assert process.returncode == 130
    assert _left_behind(cli) == []
    done = cli("optimize", "--resume", "last", "--json", "--no-install")
    assert done.code == 0, done.stderr
    assert done.result().builds[1].post_link.startswith("bolt ")
