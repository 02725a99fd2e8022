"""What perf counts of two servers, each in a turn of its own: counting costs time in the kernel, which samples would show."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from upshift.explain import calls, gate, topdown
from upshift.explain.calls import Round
from upshift.explain.model import Slots
from upshift.explain.script import Stack
from upshift.explain.turns import ATTACH_S, ATTACH_TIMEOUT_S, LEAD_S, begun, paused
from upshift.measure.bench import Bench, RunningArm, finished
from upshift.measure.model import Load
from upshift.shell import Command
from upshift.workbench import Workbench

SECONDS = 2.0
"""Of a server's turn in which the processor's slots are counted."""
ROUNDS = 4
"""Turns of each server in which its system calls are counted: they tell how far calls a query vary by themselves."""
ROUND_S = 2.0
"""Of a load: the lead-in, in which perf attaches, and what is counted."""
_CALLS_S = 0.7


@dataclass(frozen=True)
class Counting:
    """Two running servers and their load."""

    bench: Workbench
    servers: Bench
    running: Sequence[RunningArm]
    load: Load

    def calls(self, stacks: Iterable[tuple[Stack, int]]) -> tuple[list[Round], list[Round]]:
        """How often both servers make the system calls that hold most of these samples, in rounds of which one before and one
        after are neighbours; none where perf may not count them.
        """
        found: tuple[list[Round], list[Round]] = ([], [])
        named = calls.worth_counting(stacks)
        if not named or not calls.countable(self.bench.shell):
            return found
        for number in range(ROUNDS):
            pair: dict[int, Round] = {}
            for side in (0, 1) if number % 2 == 0 else (1, 0):
                with paused(self.running[1 - side]):
                    pair[side] = self._round(self.running[side], calls.events(named), number)
            if all(each.queries > 0 for each in pair.values()):
                for side, own in enumerate(found):
                    own.append(pair[side])
        return found

    def slots(self) -> tuple[tuple[Slots, Slots] | None, str]:
        """What the processor's slots went to, or why that is not known."""
        options, why_not = topdown.options_here(self.bench.shell)
        if why_not:
            return None, why_not
        before, after = (topdown.read(text) for text, _queries in self._turns(options))
        if before is None or after is None:
            return None, "perf counted shares that do not add up: other programs may have used the counters"
        return (before, after), ""

    def _round(self, running: RunningArm, options: Sequence[str], number: int) -> Round:
        """What perf counted, and the queries meanwhile; none where perf did not attach in time."""
        output = self.bench.folder / "counts.csv"
        handle = self.servers.begin(running, self.load, ROUND_S, seed=number + 1)
        with gate.counters(self.bench.shell, running.pid, options, output, self.bench.log) as counters:
            time.sleep(LEAD_S)
            ready = counters.turn("disable")

            def edge(state: Literal["enable", "disable"]) -> float:
                """Queries so far. The counters turn one after the other meanwhile, so that this is their middle."""
                before = handle.answered()
                counters.turn(state)
                return (before + handle.answered()) / 2

            if ready:
                first = edge("enable")
                time.sleep(_CALLS_S)
                queries = edge("disable") - first
        finished(handle, running)
        text = output.read_text() if output.is_file() else ""
        output.unlink(missing_ok=True)
        return Round(calls.read_counts(text), queries if ready else 0.0)

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
        finished(handle, running)
        text = output.read_text() if output.is_file() else ""
        output.unlink(missing_ok=True)
        return text, queries if in_time else 0


def command(pid: int, options: Sequence[str], output: Path) -> Command:
    """Counts what the options ask for, of a server, for a while."""
    return Command(("perf", "stat", "-x", ",", "-o", str(output), *options, "-p", str(pid), "--", "sleep", f"{SECONDS:.1f}"))
