"""What counts instructions here: the processor's own counters through perf stat, or else valgrind's callgrind.

BOLT, which makes a server count itself, is asked for by name.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Literal, Protocol

from pydantic import Field

from upshift.instructions import callgrind, perf_stat
from upshift.instructions.executed import Executed
from upshift.shell import Command, Shell
from upshift.toolchain.find import find_all
from upshift.toolchain.model import Toolchain
from upshift.values import Value, is_empty

NOTHING_COUNTS = "valgrind is not installed, and no hardware counters are to be read"
NO_BOLT = "there is no BOLT with its run-time library beside a clang"
NOTHING_COUNTS_FUNCTIONS = "valgrind is not installed"
NO_FIXED_ADDRESSES = "`setarch -R` is not allowed here, as in most containers: counts would not repeat"
_PROBE_TIMEOUT_S = 20.0


class Counting(Protocol):
    """A server whose instructions are counted."""

    def begin(self) -> None:
        """From now on. Raises CountFailed."""
        ...

    def during(self, load: Callable[[], None]) -> tuple[Executed, ...]:
        """What each thread executes while ``load`` runs. Raises CountFailed, and what ``load`` raises."""
        ...


class Tool(Value):
    """What counts, and its version."""

    source: Literal["perf stat", "callgrind", "bolt"]
    version: str
    toolchain: Toolchain | None = Field(default=None, exclude_if=is_empty)
    """Of ``bolt``."""
    details: Annotated[tuple[callgrind.Detail, ...], Field(exclude_if=is_empty)] = ()
    """What callgrind counts beside instructions and calls."""

    def before_server(self, folder: Path) -> tuple[str, ...]:
        """What stands before a server's command: addresses that are the same at each start, and callgrind; ``folder`` gets its
        counts.
        """
        return ("setarch", "-R", *(callgrind.command(folder, self.details) if self.source == "callgrind" else ()))

    def on(self, shell: Shell, pid: int, folder: Path, log: Path) -> Counting:
        """For the server ``pid``, which was started behind ``before_server``. BOLT's counts itself."""
        if self.source == "callgrind":
            return callgrind.Callgrind(shell, pid, folder, log)
        return perf_stat.PerfStat(shell, pid, folder, log)


def find_tool(shell: Shell, *, by_function: bool = False) -> Tool | None:
    """The fastest that works here, ``by_function`` of those that tell functions apart; None when nothing counts."""
    if (
        not by_function
        and os.environ.get("UPSHIFT_PERF") != "off"
        and shutil.which("perf") is not None
        and perf_stat.counts_here(shell)
    ):
        return Tool(source="perf stat", version=_version(shell, "perf").removeprefix("perf version "))
    if shutil.which("valgrind") is None or shutil.which("vgdb") is None:
        return None
    version = _version(shell, "valgrind").removeprefix("valgrind-")
    return Tool(source="callgrind", version=version) if version else None


def fixes_addresses(shell: Shell) -> bool:
    """Whether address randomisation may be switched off: docker and podman forbid it by default (personality(2))."""
    return shell.run(Command(("setarch", "-R", "true")), check=False, timeout_s=_PROBE_TIMEOUT_S).returncode == 0


def find_bolt(shell: Shell) -> Tool | None:
    """The newest BOLT that can instrument."""
    found = next((each for each in find_all("clang", shell=shell) if each.bolt), None)
    return Tool(source="bolt", version=found.version, toolchain=found) if found else None


def _version(shell: Shell, program: str) -> str:
    """Empty when it does not run."""
    done = shell.run(Command((program, "--version")), check=False, timeout_s=_PROBE_TIMEOUT_S)
    return done.stdout.strip() if done.returncode == 0 else ""
