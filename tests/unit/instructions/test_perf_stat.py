"""Hardware counters are read to the instruction; what perf estimated, or did not count, is an error."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from fakes import FakeClock, FakeProcess, FakeShell

from upshift.errors import CountFailed
from upshift.instructions import perf_stat
from upshift.instructions.executed import Executed
from upshift.instructions.perf_stat import PerfStat, read
from upshift.shell import SystemShell

COUNTS = """# started on Sun Nov 22 21:34:39 2026

mysqld-4711,1204567,,instructions:u,301000,100.00,,
ib_src_main-4712,<not counted>,,instructions:u,0,0.00,,
a-b c-4713,88,,instructions:u,12000,100.00,0.51,insn per cycle
"""


class Sleep:
    """What perf runs."""

    ended = False

    def terminate(self) -> None:
        self.ended = True


def test_each_threads_count_is_read_and_sleepers_have_none() -> None:
    assert read(COUNTS) == (Executed(1204567), Executed(88))


@pytest.mark.parametrize(
    "text", ["", "garbage\n", COUNTS.replace(":u", ":k"), COUNTS.replace("1204567", "x").partition("a-b")[0]]
)
def test_without_a_count_it_is_an_error(text: str) -> None:
    with pytest.raises(CountFailed, match="wrote no counts"):
        read(text)


def test_a_count_that_was_estimated_is_refused() -> None:
    with pytest.raises(CountFailed, match="shared with another program") as error:
        read(COUNTS.replace("100.00,,", "61.20,,"))
    assert error.value.hint


def test_perf_counts_from_its_commands_begin_to_its_own_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = Sleep()
    monkeypatch.setattr(perf_stat, "_commands", lambda _pid: [command])
    shell = FakeShell()

    def load() -> None:
        assert not command.ended
        (tmp_path / "counts.csv").write_text(COUNTS)

    assert PerfStat(shell, 4711, tmp_path, tmp_path / "log").during(load) == (Executed(1204567), Executed(88))
    (spawned,) = shell.spawned
    assert spawned.pasteable().endswith("-e instructions:u --per-thread -p 4711 -- sleep 3600")
    assert command.ended


def test_counts_of_an_earlier_load_are_not_taken_for_this_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(perf_stat, "_commands", lambda _pid: [Sleep()])
    (tmp_path / "counts.csv").write_text(COUNTS)
    with pytest.raises(CountFailed, match="wrote no counts"):
        PerfStat(FakeShell(), 4711, tmp_path, tmp_path / "log").during(lambda: None)


@pytest.mark.parametrize(("code", "said"), [(255, "ended by itself"), (None, "did not attach")])
def test_a_perf_that_does_not_begin_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int | None, said: str
) -> None:
    monkeypatch.setattr(perf_stat, "_commands", lambda _pid: [])
    monkeypatch.setattr(perf_stat, "time", FakeClock())
    shell = FakeShell(processes=iter((FakeProcess(code=code),)))
    with pytest.raises(CountFailed, match=said):
        PerfStat(shell, 4711, tmp_path, tmp_path / "log").during(lambda: None)


@pytest.mark.skipif(shutil.which("perf") is None, reason="there is no perf")
def test_a_real_perf_begins_ends_and_writes_lines_of_that_shape(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a counter that every machine has: milliseconds in place of instructions."""
    if subprocess.run(("perf", "stat", "-e", "task-clock:u", "true"), capture_output=True, check=False).returncode:
        pytest.skip("perf may not count here")
    monkeypatch.setattr(perf_stat, "_EVENT", "task-clock:u")
    spin = "import time\nuntil = time.monotonic() + 20\nwhile time.monotonic() < until: pass"
    with subprocess.Popen([sys.executable, "-c", spin]) as busy:
        try:
            counting = PerfStat(SystemShell(), busy.pid, tmp_path, tmp_path / "log")
            with pytest.raises(CountFailed, match="wrote no counts"):
                counting.during(lambda: time.sleep(0.2))
        finally:
            busy.kill()
    line = (tmp_path / "counts.csv").read_text().splitlines()[-1]
    told = re.sub(r",[\d.]+,msec,task-clock:u,", ",1204567,,instructions:u,", line)
    assert told != line and read(told) == (Executed(1204567),), line
