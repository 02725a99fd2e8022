"""Runs two servers under a load in turns and samples what they execute."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from upshift.errors import CommandFailed, LoadFailed
from upshift.explain import counting, interrupts
from upshift.explain.calls import Rounds
from upshift.explain.counting import Counting
from upshift.explain.model import Slots
from upshift.explain.script import Reader, Samples, script_command
from upshift.explain.symbols import SymbolTable
from upshift.explain.turns import ATTACH_S, ATTACH_TIMEOUT_S, LEAD_S, begun, paused
from upshift.measure.bench import Bench, RunningArm, finished
from upshift.measure.kernel import usage
from upshift.measure.model import Load
from upshift.measure.variant import Variant
from upshift.process import of_threads
from upshift.shell import Command, Process
from upshift.toolchain.perf import SAMPLE_HZ, Event
from upshift.workbench import Workbench

WARMUP_S = 4.0
SHORTEST_S = 4.0
"""Of a server's samples: four blocks of a second."""
_BLOCK_S = 2.0
_FEWEST_ROUNDS = 4
_READING_TIMEOUT_S = 600.0
_ATTACHING_S = (ATTACH_S, 5 * ATTACH_S, 20 * ATTACH_S)
"""How long a load leaves perf to attach, the first time and when that was too short."""
_SWITCHES = re.compile(r"^(non)?voluntary_ctxt_switches:\s+(\d+)$", re.M)


class Switches(NamedTuple):
    """How often threads left a CPU: to wait for something, or because another thread was to run."""

    voluntary: int
    forced: int


@dataclass(frozen=True)
class Block:
    """One server under the load for a while."""

    queries: int
    cpu_s: float
    sampled_cpu_s: float
    """What was sampled of it: all, or without the kernel's part what the kernel's ticks call user time."""
    run_delay_s: float
    """How long its threads were ready to run and waited for a CPU."""
    switches: int
    """How often its threads left a CPU, of their own accord or not."""
    voluntary_switches: int
    """Of these, how often a thread left it to wait for something."""
    samples: Samples
    interrupts: int | None = None
    """By which CPUs of the load were woken or called meanwhile; None where the kernel does not tell them."""


@dataclass(frozen=True)
class Recorded:
    """Both servers' blocks, and what was counted beside them."""

    blocks: tuple[list[Block], list[Block]]
    calls: tuple[Rounds, Rounds] = ((), ())
    """System calls by rounds; none where they were not asked for, or perf may not count them."""
    with_calls: bool = True
    slots: tuple[Slots, Slots] | None = None
    slots_lacking: str = ""
    """Why there are no slots."""


def rounds_of(seconds: float) -> int:
    """In how many blocks each server is sampled: four at least, so that what differs between blocks is known at all."""
    return max(_FEWEST_ROUNDS, round(seconds / _BLOCK_S))


def recording_s(seconds: float) -> float:
    """About how long ``record`` takes: both servers' starts, warm-ups and blocks, with system calls counted."""
    return 2 * (seconds + counting.ROUNDS * counting.ROUND_S + (rounds_of(seconds) + 2) * (LEAD_S + ATTACH_S) + 3) + WARMUP_S


def record(
    bench: Workbench,
    servers: Bench,
    pair: tuple[Variant, Variant],
    tables: tuple[SymbolTable, SymbolTable],
    load: Load,
    event: Event,
    *,
    seconds: float,
    with_calls: bool,
    on_block: Callable[[int, int], None],
) -> Recorded:
    """Blocks of both servers, ``seconds`` of each, taken in turns: first second, second first, and so on; then their system
    calls, where they are asked for and perf may count them, and the processor's slots, where it has counters.

    Both are there all the while, so that what changes on the machine meets both; who has no turn is stopped. Raises
    LoadFailed when there are no samples.
    """
    rounds = rounds_of(seconds)
    found: tuple[list[Block], list[Block]] = ([], [])
    with ExitStack() as stack:
        running = [stack.enter_context(servers.arm(each, 0)) for each in pair]
        for warming, server in [(servers.begin(each, load, WARMUP_S, seed=1), each) for each in running]:
            finished(warming, server)
        for number in range(rounds):
            for side in (0, 1) if number % 2 == 0 else (1, 0):
                turn = running[side], pair[side], tables[side]
                with paused(running[1 - side]):
                    block = _block(bench, servers, *turn, load, event, seconds / rounds, seed=number + 2)
                found[side].append(block)
                on_block(len(found[0]) + len(found[1]), 2 * rounds)
        wanted = with_calls and event == "cpu-clock"
        count = Counting(bench, servers, running, load)
        stacks = (item for blocks in found for block in blocks for item in block.samples.stacks.items())
        counted = count.calls(stacks) if wanted else ([], [])
        slots, slots_lacking = count.slots()
    for blocks, variant in zip(found, pair, strict=True):
        if not sum(block.samples.total for block in blocks) or not sum(block.queries for block in blocks):
            raise LoadFailed(
                f"{variant.name}: there are no samples, or no queries, under the load {load.workload}",
                "the load command must keep the server busy: try it by hand, or use a longer --seconds",
            )
    return Recorded(found, counted, with_calls, slots, slots_lacking)


def _block(
    bench: Workbench,
    servers: Bench,
    running: RunningArm,
    variant: Variant,
    table: SymbolTable,
    load: Load,
    event: Event,
    block_s: float,
    seed: int,
) -> Block:
    """Once more, with a longer load, when perf does not come to its end: perf 6.1 fails without a word when a thread that it
    samples ends, and so when it took so long to attach that the load ended first. Raises CommandFailed.
    """
    data = bench.folder / "samples.perf"
    for attach_s in _ATTACHING_S:
        handle = servers.begin(running, load, LEAD_S + attach_s + block_s, seed)
        time.sleep(LEAD_S)
        with _recorder(bench, running.pid, data, event, block_s) as recorder:
            first = handle.answered(), usage(running.pid), _switches(running.pid), interrupts.beside(running.pid)
            recorder.wait(block_s + ATTACH_TIMEOUT_S)
            last = handle.answered(), usage(running.pid), _switches(running.pid), interrupts.beside(running.pid)
        finished(handle, running)
        if recorder.poll() == 0:
            break
    else:
        raise CommandFailed("perf did not finish a recording", f"its output is in {bench.log}")
    used = last[1] - first[1]
    user_share = used.user_cpu_s / ((used.user_cpu_s + used.system_cpu_s) or 1.0)
    reader = Reader(variant.program.binary.resolve(), table)
    lines = data.with_suffix(".lines")
    # The log keeps the lines from piling up in memory; each is read as it comes.
    bench.shell.run(script_command(data), log=lines, timeout_s=_READING_TIMEOUT_S, on_line=reader.line)
    lines.unlink()
    data.unlink(missing_ok=True)
    return Block(
        queries=last[0] - first[0],
        cpu_s=used.total_cpu_s,
        sampled_cpu_s=used.total_cpu_s * (1.0 if event == "cpu-clock" else user_share),
        run_delay_s=max(0.0, used.run_delay_s),
        switches=max(0, sum(last[2]) - sum(first[2])),
        voluntary_switches=max(0, last[2].voluntary - first[2].voluntary),
        samples=reader.done(),
        interrupts=None if first[3] is None or last[3] is None else last[3] - first[3],
    )


@contextlib.contextmanager
def _recorder(bench: Workbench, pid: int, data: Path, event: Event, seconds: float) -> Iterator[Process]:
    """perf, attached to all threads of a server; stopped at the end."""
    options = ("-e", event, "-g", "-F", str(SAMPLE_HZ), "-p", str(pid), "-o", str(data))
    process = bench.shell.spawn(Command(("perf", "record", *options, "--", "sleep", f"{seconds:.1f}")), log=bench.log)
    begun(process, ATTACH_TIMEOUT_S)
    yield process
    if process.wait(seconds) is None:
        process.signal(2)
        process.wait(ATTACH_TIMEOUT_S)


def _switches(pid: int) -> Switches:
    """Of all threads that there are now; those that a load's end takes with it are gone."""
    return switches(each.decode() for each in of_threads(pid, "status"))


def switches(statuses: Iterable[str]) -> Switches:
    """From the text of each thread's ``/proc/PID/task/TID/status``."""
    found = [(forced, int(number)) for status in statuses for forced, number in _SWITCHES.findall(status)]
    return Switches(
        voluntary=sum(number for forced, number in found if not forced),
        forced=sum(number for forced, number in found if forced),
    )
