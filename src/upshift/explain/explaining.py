"""Puts the explanation of one load together: samples, machine code, rows, causes."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

from upshift.explain import calls, counted, evidence, figures, inlining, kernel, stacks
from upshift.explain.calls import Round, Rounds
from upshift.explain.evidence import Stacks
from upshift.explain.focus import focus, symbols_like
from upshift.explain.inline_frames import Line
from upshift.explain.inlining import Examined
from upshift.explain.kernel_time import INTERRUPTS, kernel_time
from upshift.explain.layout import spreads
from upshift.explain.model import CauseKind, CodeChange, Explained, Family, Inlined, KernelTime, Row
from upshift.explain.names import demangled, source_name
from upshift.explain.recording import Block, Recorded, record
from upshift.explain.rows import Sampled, noise, rows, sampled
from upshift.explain.script import Stack
from upshift.explain.symbols import SymbolTable, read_symbols
from upshift.explain.tools import Tools
from upshift.instructions.model import Count
from upshift.measure.bench import Bench
from upshift.measure.model import Load
from upshift.measure.variant import Variant
from upshift.toolchain.perf import Event
from upshift.workbench import Workbench

_CODE_ROWS = 200
_TOLD_SHARE = 0.9
"""Of the samples in a server's own code, those whose line is known, for nothing to be said of the rest, and for inlined copies
to be known."""

Pair = tuple[Variant, Variant]
Counts = tuple[Count, Count]
Tables = tuple[SymbolTable, SymbolTable]


def symbols_of(pair: Pair) -> Tables:
    """Both servers' symbol tables. Raises UsageError for one that was stripped."""
    before, after = (read_symbols(each.program.binary.resolve(), each.name) for each in pair)
    return before, after


def explain(
    bench: Workbench,
    servers: Bench,
    pair: Pair,
    load: Load,
    event: Event,
    tools: Tools,
    *,
    seconds: float,
    output: Path,
    with_calls: bool = True,
    counts: Counts | None = None,
    asked: tuple[str, ...] = (),
) -> Explained:
    """Why the second server takes less, or more, CPU time for a query of ``load`` than the first.

    Each is sampled for ``seconds``; starting, warming up and reading take about as long again. Stacks are written into
    ``output``. ``counts`` are what each executes for a query in user mode, where somebody counted it; ``asked`` are functions
    to be shown by themselves. Raises UsageError for a stripped server, LoadFailed and ServerFailed as the bench does.
    """
    tables = symbols_of(pair)

    def on_block(done: int, total: int) -> None:
        bench.progress.update(done, total, f"{load.workload} x{load.connections}")

    recorded = record(bench, servers, pair, tables, load, event, seconds=seconds, with_calls=with_calls, on_block=on_block)
    return conclude(bench, pair, load, tables, recorded, event, tools, output=output, counts=counts, asked=asked)


def conclude(
    bench: Workbench,
    pair: Pair,
    load: Load,
    tables: Tables,
    recorded: Recorded,
    event: Event,
    tools: Tools,
    *,
    output: Path,
    counts: Counts | None = None,
    asked: tuple[str, ...] = (),
) -> Explained:
    """What follows from blocks that were recorded."""
    blocks = recorded.blocks
    both = _together(blocks[0]), _together(blocks[1])
    groups = evidence.groups_of(tables, both)
    found = [sampled(each, groups) for each in blocks]
    before, after = (
        figures.side(each.name, own, one, event, count, slots)
        for each, own, one, count, slots in zip(
            pair, blocks, found, counts or (None, None), recorded.slots or (None, None), strict=True
        )
    )
    functions = evidence.wanted(both[0]) | evidence.wanted(both[1])
    binaries = [each.program.binary.resolve() for each in pair]
    old, new = (
        evidence.examine(bench, tools, binary, table, functions, one, own, groups)
        for binary, table, one, own in zip(binaries, tables, found, both, strict=True)
    )
    work = counted.works(counts, binaries, groups)
    inlined, code = counted.with_calls(inlining.inlined(old, new, groups), work), inlining.changes(old, new)
    lines = (
        evidence.source_lines(bench, tools, binaries[0], tables[0], both[0]),
        evidence.source_lines(bench, tools, binaries[1], tables[1], both[1]),
    )
    names = _names(both, inlined, code) | {place.name for one in work for place in one if place.home == "server"}
    names |= {source_name(each.function) for own in lines for known in own.values() for each in known}
    names |= {member for own in tables for each in symbols_like(own, asked) for member in groups.members(each)}
    shown = demangled(bench.shell, tools.demangler, names)
    table, confidence = rows(found[0], found[1], shown)
    common = noise(found[0], found[1])
    files = evidence.files(tables[1], lines[1]) | evidence.files(tables[0], lines[0])
    written: list[str] = []
    for each, own, known in zip(pair, both, lines, strict=True):
        stem = f"{each.file_name}-{load.workload}"
        written += stacks.write(stacks.named(own, shown, known), output, stem, f"{each.name}, {load.workload}")
    told = _told(both[0], lines[0]), _told(both[1], lines[1])
    causes = inlining.causes((row.symbol for row in table if row.symbol), old, new, inlined, code)
    return Explained(
        workload=load.workload,
        connections=load.connections,
        before=before,
        after=after,
        changes=figures.changes(blocks, before, after),
        rows=tuple(_caused(row, causes, files) for row in table),
        inlined=tuple(_shown(each, shown) for each in inlined),
        families=tuple(_family(each, shown) for each in inlining.families(inlined, old, new)),
        code=tuple(each.model_copy(update={"name": shown[each.name]}) for each in code[:_CODE_ROWS]),
        system_calls=calls.compared(recorded.calls, (_kernel_us(found[0]), _kernel_us(found[1]))),
        kernel=_kernel(both, (found[0], found[1]), event, recorded),
        executed=counted.rows(work, shown),
        focus=focus(
            asked,
            both,
            (found[0].us_a_sample, found[1].us_a_sample),
            tables,
            shown,
            lines,
            common,
            groups,
            (_believed(old), _believed(new)),
            (told[0] >= _TOLD_SHARE, told[1] >= _TOLD_SHARE),
        ),
        layout=spreads(evidence.addresses(both[0]), evidence.addresses(both[1])),
        dispersion=common.dispersion,
        shared_error=common.shared_error if math.isfinite(common.shared_error) else None,
        confidence=confidence,
        slots_lacking=recorded.slots_lacking,
        notes=_notes(pair, tables, (old, new), told, tools, event, recorded),
        stacks=tuple(written),
    )


def _kernel_us(found: Sampled) -> Mapping[str, float]:
    return {each.name: count * found.us_a_sample for each, count in found.places.items() if each.home == "kernel"}


def _kernel(both: tuple[Stacks, Stacks], found: tuple[Sampled, Sampled], event: Event, recorded: Recorded) -> KernelTime | None:
    if event != "cpu-clock" or kernel.hidden(stack for own in both for stack in own):
        return None
    waking = [sum(count for stack, count in own.items() if kernel.wakes(stack)) for own in both]
    return kernel_time(
        found,
        recorded.calls,
        kernel.groups(item for own in both for item in own.items()),
        waking=(waking[0], waking[1]),
        interrupts=_interrupts(recorded.blocks),
    )


def _interrupts(blocks: tuple[Sequence[Block], Sequence[Block]]) -> tuple[Rounds, Rounds]:
    """Of each block; none where one of them does not tell, so that pairs stay neighbours."""
    before, after = (
        [Round({INTERRUPTS: each.interrupts}, each.queries) for each in own if each.interrupts is not None and each.queries]
        for own in blocks
    )
    return (before, after) if len(before) == len(after) == len(blocks[0]) else ((), ())


def _together(blocks: Sequence[Block]) -> Stacks:
    found: Stacks = Counter()
    for block in blocks:
        found.update(block.samples.stacks)
    return found


def _told(stacks: Stacks, lines: Mapping[int, tuple[Line, ...]]) -> float:
    """The share of the samples in a server's own code whose source line debug information tells."""
    own = evidence.addresses(stacks)
    known = sum(count for address, count in own.items() if lines.get(address) and lines[address][-1].line)
    return known / max(1, sum(own.values()))


def _believed(found: Examined) -> bool:
    """Whether a server's stacks tell callers, by its code; where nobody read that, they are believed."""
    return not found.code or evidence.frame_pointers(found.code)


def _names(both: tuple[Stacks, Stacks], inlined: Collection[Inlined], code: Collection[CodeChange]) -> set[str]:
    names = {source_name(frame.symbol) for own in both for stack in own for frame in stack if not frame.home}
    for each in inlined:
        names |= {each.callee, each.caller, *each.moved_calls}
    return names | {each.name for each in code}


def _caused(row: Row, causes: Mapping[str, CauseKind], files: Mapping[str, str]) -> Row:
    return row.model_copy(update={"cause": causes.get(row.symbol, "not examined"), "file": files.get(row.symbol, "")})


def _family(each: Family, shown: Mapping[str, str]) -> Family:
    return each.model_copy(update={"name": shown[each.name], "members": tuple(shown[name] for name in each.members)})


def _shown(each: Inlined, shown: Mapping[str, str]) -> Inlined:
    names = {"callee": shown[each.callee], "caller": shown[each.caller]}
    return each.model_copy(update={**names, "moved_calls": tuple(shown[name] for name in each.moved_calls)})


def _stacks(recorded: Recorded) -> Iterator[Stack]:
    return (stack for own in recorded.blocks for block in own for stack in block.samples.stacks)


def _notes(
    pair: Pair,
    tables: Tables,
    examined: tuple[Examined, Examined],
    told: tuple[float, float],
    tools: Tools,
    event: Event,
    recorded: Recorded,
) -> tuple[str, ...]:
    """What this machine and these servers could not tell, and what is lost by it. ``told``: see ``_told``."""
    notes = []
    if event != "cpu-clock":
        notes.append("perf may sample user code alone here: time in the kernel has no rows, and shares are of user CPU time")
    elif not any(map(kernel.in_kernel, _stacks(recorded))):
        notes.append("no sample fell into the kernel: its time has no rows")
    elif kernel.hidden(_stacks(recorded)):
        shows = "`sysctl kernel.kptr_restrict=0` shows them"
        notes.append(f"the kernel hides its functions' names: its time is not divided by system call; {shows}")
    elif recorded.with_calls and not all(recorded.calls):
        takes = "that takes root, or CAP_PERFMON and a readable tracefs, and perf 5.10"
        notes.append(f"system calls were not counted: {takes}, and a machine on which perf attaches in time")
    if tools.objdump is None:
        notes.append("llvm-objdump is not there: machine code was not read, so no cause is told")
    for each, table, found, share in zip(pair, tables, examined, told, strict=True):
        if not _believed(found):
            notes.append(
                f"{each.name} keeps no frame pointers: its stacks do not tell callers, and its flame graph is flat; "
                "-fno-omit-frame-pointer keeps them"
            )
        if not table.debug_information:
            notes.append(
                f"{each.name} has no debug information: its flame graph shows no frames of inlined functions, "
                "and its functions have no source lines"
            )
        elif tools.symbolizer is None:
            notes.append(f"llvm-symbolizer is not there: {each.name}'s inlined functions and source lines are not shown")
        elif share < _TOLD_SHARE:
            notes.append(
                f"{each.name}'s debug information tells the lines of {share:.0%} of the samples in its own code: the rest was "
                "compiled without, or moved by BOLT without -update-debug-sections"
            )
    return tuple(notes)
