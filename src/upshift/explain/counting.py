"""What perf counts of two servers, each in a turn of its own: counting costs time in the kernel, which samples would show."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from upshift.explain import calls, topdown
from upshift.explain.model import Slots
from upshift.explain.script import Stack
from upshift.explain.turns import ATTACH_S, ATTACH_TIMEOUT_S, LEAD_S, begun, paused
from upshift.measure.bench import Bench, RunningArm
from upshift.measure.model import Load
from upshift.shell import Command
from upshift.workbench import Workbench

SECONDS = 2.0


@dataclass(frozen=True)
class Counting:
    """Two running servers and their load."""

    bench: Workbench
    servers: Bench
    running: Sequence[RunningArm]
    load: Load

    def calls(self, stacks: Iterable[tuple[Stack, int]]) -> tuple[Mapping[str, float], Mapping[str, float]]:
        """System calls a query, of those that hold most of these samples; nothing where perf may not count them."""
        named = calls.worth_counting(stacks)
        if not named or not calls.countable(self.bench.shell):
            return {}, {}
        before, after = (
            {name: count / queries for name, count in calls.read_counts(text).items() if queries}
            for text, queries in self._turns(calls.events(named))
        )
        return before, after

    def slots(self) -> tuple[tuple[Slots, Slots] | None, str]:
        """What the processor's slots went to, or why that is not known."""
        options, why_not = topdown.options_here(self.bench.shell)
        if why_not:
            return None, why_not
        before, after = (topdown.read(text) for text, _queries in self._turns(options))
        if before is None or after is None:
            return None, "perf counted shares that do not add up: other programs may have used the counters"
        return (before, after), ""

    def _turns(self, options: Sequence[str]) -> list[tuple[str, int]]:
        found = []
        for one, other in ((self.running[0], self.running[1]), (self.running[1], self.running[0])):
            with paused(other):
                found.append(self._turn(one, options))
        return found

    def _turn(self, running: RunningArm, options: Sequence[str]) -> tuple[str, int]:
        """What perf wrote, and the queries meanwhile; no queries where perf did not begin in time."""
        output = self.bench.folder / "counts.csv"
        handle = self.servers.begin(running, self.load, LEAD_S + 2 * ATTACH_S + SECONDS, seed=1)
        time.sleep(LEAD_S)
        process = self.bench.shell.spawn(command(running.pid, options, output), log=self.bench.log)
        in_time = begun(process, 2 * ATTACH_S)
        before = handle.answered()
        process.wait(SECONDS + ATTACH_TIMEOUT_S)
        queries = handle.answered() - before
        handle.finish()
        text = output.read_text() if output.is_file() else ""
        output.unlink(missing_ok=True)
        return text, queries if in_time else 0


def command(pid: int, options: Sequence[str], output: Path) -> Command:
    """Counts what the options ask for, of a server, for a while."""
    return Command(("perf", "stat", "-x", ",", "-o", str(output), *options, "-p", str(pid), "--", "sleep", f"{SECONDS:.1f}"))
