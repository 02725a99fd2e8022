"""Kills, interrupts and second runs: nothing is left behind, and --resume goes on."""

from __future__ import annotations

import os
import signal
import subprocess
import time

import psutil
import pytest
from conftest import Cli, optimizing

from upshift.build.recipe import find_recipe
from upshift.stages.names import all_stages

pytestmark = pytest.mark.pipeline

_STAGE_TIMEOUT_S = 300


def _stop_in(cli: Cli, stage: str, number: int, *arguments: str) -> subprocess.Popen[str]:
    """Start a run, and send it a signal when a stage has started its first command."""
    process = cli.start("--verbose", *arguments)
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
    with_group = os.getpgid(process.pid)
    os.kill(process.pid, number)
    process.wait(30)
    assert with_group == process.pid
    return process


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


def test_a_run_killed_in_every_stage_comes_to_its_end(fresh_cli: Cli) -> None:
    stages = ("plain build", "hot set", "instrumented build", "train", "optimised build", "post-link", "measure")
    arguments = optimizing()
    for stage in stages:
        _stop_in(fresh_cli, stage, signal.SIGKILL, *arguments)
        assert _left_behind(fresh_cli) == []
        arguments = ("optimize", "--resume", "last", "--no-install")
    done = fresh_cli(*arguments, "--json")
    assert done.code == 0, done.stderr
    result = done.result()
    assert tuple(stage.name for stage in result.stages) == all_stages("full", find_recipe("max-clang"))[:-1]
    assert len(fresh_cli.runs()) == 1
    kept = {stage.name for stage in result.stages if stage.cached}
    assert {"plain build", "hot set", "train"}.isdisjoint(kept)
    assert done.stderr.count("kept from an earlier run") >= len(stages) - 1


def test_ctrl_c_leaves_no_process_and_exits_130(cli: Cli) -> None:
    # How long it trains is part of a training's key.
    process = _stop_in(cli, "train", signal.SIGINT, *optimizing("--train-seconds", "9"))
    assert process.returncode == 130
    assert _left_behind(cli) == []
    done = cli("optimize", "--resume", "last", "--json", "--no-install")
    assert done.code == 0, done.stderr


def test_two_runs_at_once_are_refused(cli: Cli) -> None:
    first = cli.start(*optimizing("--train-seconds", "8"))
    try:
        assert first.stderr is not None
        next(line for line in first.stderr if "source" in line)
        second = cli(*optimizing())
        assert second.code == 1
        assert "another run" in second.stderr
        assert "hint:" in second.stderr
    finally:
        first.send_signal(signal.SIGINT)
        first.communicate(timeout=60)
