"""perf's counters count from when they are turned on until they are turned off."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from upshift.explain.gate import counters
from upshift.shell import SystemShell

FAULTS = 500
# A page is touched for the first time with each line that it reads.
TOUCHES = f"""
import mmap, sys
print("ready", flush=True)
for _ in sys.stdin:
    pages = mmap.mmap(-1, {FAULTS} * 4096)
    for number in range({FAULTS}):
        pages[number * 4096] = 1
    print("done", flush=True)
"""


@pytest.fixture
def touching() -> Iterator[subprocess.Popen[str]]:
    if shutil.which("perf") is None:
        pytest.skip("there is no perf")
    process = subprocess.Popen([sys.executable, "-c", TOUCHES], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout and process.stdout.readline() == "ready\n"
    yield process
    process.kill()
    process.communicate()


def touch(process: subprocess.Popen[str]) -> None:
    assert process.stdin and process.stdout
    process.stdin.write("\n")
    process.stdin.flush()
    assert process.stdout.readline() == "done\n"


def test_what_is_done_while_they_are_off_is_not_counted(touching: subprocess.Popen[str], tmp_path: Path) -> None:
    shell, output = SystemShell(), tmp_path / "counts.csv"
    try:
        with counters(shell, touching.pid, ("-e", "minor-faults:u"), output, tmp_path / "log") as gate:
            if not gate.turn("disable"):
                pytest.skip("perf may not count here, or knows no --control")
            touch(touching)
            assert gate.turn("enable")
            touch(touching)
            assert gate.turn("disable")
            touch(touching)
    finally:
        shell.close()
    (count,) = (int(line.split(",")[0]) for line in output.read_text().splitlines() if "faults" in line)
    assert FAULTS <= count < 2 * FAULTS


def test_a_perf_that_ends_turns_nothing(tmp_path: Path) -> None:
    if shutil.which("perf") is None:
        pytest.skip("there is no perf")
    shell = SystemShell()
    try:
        with counters(shell, 1, ("-e", "no-such-event"), tmp_path / "counts.csv", tmp_path / "log") as gate:
            assert not gate.turn("enable")
    finally:
        shell.close()
