"""The processor's own counters on a running server, by ``perf stat``.

The format is that of perf-stat(1), "CSV FORMAT", with a thread's name and number before each line (``--per-thread``).
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import psutil

from upshift.errors import CountFailed
from upshift.instructions.executed import Executed
from upshift.shell import Command, Process, Shell

_EVENT = "instructions:u"
_PROBE = re.compile(rf"^\d+,[^,]*,{_EVENT},", re.M)
_LINE = re.compile(rf"^.*-\d+,(<not counted>|\d+),[^,]*,{_EVENT},\d+,([\d.]+),", re.M)
_LONGEST_S = 3600
_ATTACH_TIMEOUT_S = 15.0
_END_TIMEOUT_S = 30.0
_LOOK_S = 0.01
_WHOLE_PERCENT = 99.99


def counts_here(shell: Shell) -> bool:
    """Whether the processor counts instructions, and perf may read them: small virtual machines have no counters."""
    probe = Command(("perf", "stat", "-x", ",", "-e", _EVENT, "--", "true"))
    done = shell.run(probe, check=False, timeout_s=20)
    return done.returncode == 0 and _PROBE.search(done.stdout) is not None


@dataclass(frozen=True)
class PerfStat:
    """The counters of a server's threads."""

    shell: Shell
    pid: int
    folder: Path
    log: Path

    def begin(self) -> None:
        """Nothing: it counts only while a load runs."""

    def during(self, load: Callable[[], None]) -> tuple[Executed, ...]:
        """What each thread that was there at the beginning executes in user mode while ``load`` runs. Raises CountFailed."""
        output = self.folder / "counts.csv"
        output.unlink(missing_ok=True)
        words = ("perf", "stat", "-x", ",", "-o", str(output), "-e", _EVENT, "--per-thread", "-p", str(self.pid))
        process = self.shell.spawn(Command((*words, "--", "sleep", str(_LONGEST_S))), log=self.log)
        try:
            _await_counting(process)
            load()
        finally:
            # perf ends with its command, and heeds no signal before that.
            for each in _commands(process.pid):
                each.terminate()
            process.wait(_END_TIMEOUT_S)
        return read(output.read_text(errors="replace") if output.is_file() else "")


def read(text: str) -> tuple[Executed, ...]:
    """Each thread's count. Raises CountFailed when there is none, or one that perf has only estimated."""
    found = []
    for count, percent in _LINE.findall(text):
        if count == "<not counted>":  # the thread slept
            continue
        if float(percent) < _WHOLE_PERCENT:
            raise CountFailed(
                "the processor's counters were shared with another program", "end other runs of perf, and count again"
            )
        found.append(Executed(instructions=int(count)))
    if not found:
        raise CountFailed("perf stat wrote no counts")
    return tuple(found)


def _await_counting(process: Process) -> None:
    """Until perf has begun its command, which it does when it has attached to all threads. Raises CountFailed."""
    deadline = time.monotonic() + _ATTACH_TIMEOUT_S
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise CountFailed("perf stat ended by itself", "its message is in the run's log")
        if _commands(process.pid):
            return
        time.sleep(_LOOK_S)
    raise CountFailed(f"perf stat did not attach to the server within {_ATTACH_TIMEOUT_S:.0f} s")


def _commands(pid: int) -> list[psutil.Process]:
    """What perf runs, once it has begun."""
    try:
        return [child for child in psutil.Process(pid).children() if child.name() == "sleep"]
    except psutil.Error:
        return []
