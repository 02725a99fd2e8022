"""What the samples' stacks and the machine code of one server show, in the form in which two servers are compared."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

from upshift.explain import inline_frames
from upshift.explain.code import Code, disassemble
from upshift.explain.inline_frames import Line
from upshift.explain.inlining import Examined
from upshift.explain.names import source_name
from upshift.explain.rows import Sampled
from upshift.explain.script import Stack
from upshift.explain.symbols import Groups, SymbolTable
from upshift.explain.tools import Tools
from upshift.workbench import Workbench

Stacks = Counter[Stack]
_FEWEST = 3
"""Samples of any function on a stack, for its code to be read: what was hardly seen explains nothing."""


def groups_of(tables: Iterable[SymbolTable], seen: Iterable[Stacks]) -> Groups:
    """Functions that share their code in either server count as one in both, by the name that was sampled most."""
    samples: Counter[str] = Counter()
    for stacks in seen:
        for stack, count in stacks.items():
            if not stack[0].home:
                samples[source_name(stack[0].symbol)] += count
    groups = Groups(samples)
    for table in tables:
        for part in table.parts:
            names = tuple(sorted({source_name(symbol) for symbol in part.symbols}))
            if len(names) > 1:
                groups.join(names)
    return groups


def wanted(stacks: Stacks) -> set[str]:
    """Source names of the functions whose code is worth reading."""
    seen: Counter[str] = Counter()
    for stack, count in stacks.items():
        for name in {source_name(frame.symbol) for frame in stack if not frame.home}:
            seen[name] += count
    return {name for name, count in seen.items() if count >= _FEWEST}


def examine(
    bench: Workbench,
    tools: Tools,
    server: Path,
    table: SymbolTable,
    functions: Collection[str],
    found: Sampled,
    stacks: Stacks,
    groups: Groups,
) -> Examined:
    """One server's code and samples by the groups' names."""
    read = disassemble(bench.shell, tools.objdump, server, table, functions) if tools.objdump else {}
    code: dict[str, Code] = {}
    for name in sorted(read, key=lambda each: (groups.of(each) != each, each)):
        code.setdefault(groups.of(name), read[name])
    jumps = {name: {groups.of(callee) for callee in each.tail_calls} for name, each in code.items()}
    calls = {name: {groups.of(callee) for callee in (*each.calls, *each.cold_calls)} for name, each in code.items()}
    callers: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for stack, count in stacks.items() if frame_pointers(code) else ():
        own = [groups.of(source_name(frame.symbol)) if not frame.home else "" for frame in stack]
        for callee, caller in _callers(_whole(own, calls, jumps)).items():
            callers[callee][caller] += count
    return Examined(
        code=code,
        exist={groups.of(source_name(symbol)) for part in table.parts for symbol in part.symbols},
        self_us={place.name: count * found.us_a_sample for place, count in found.places.items() if place.home == "server"},
        callers=callers,
        us_a_sample=found.us_a_sample,
    )


def _whole(stack: Sequence[str], calls: Mapping[str, Collection[str]], jumps: Mapping[str, Collection[str]]) -> Sequence[str]:
    """A stack with the functions that left no frame."""
    found = list(stack[:1])
    for callee, caller in itertools.pairwise(stack):
        found += [*_jumped(callee, caller, calls, jumps), caller]
    return found


def _callers(stack: Sequence[str]) -> Mapping[str, str]:
    """Who called each function of a stack in its innermost call: the next outer one that is not the function itself, which is
    empty in a library. What nothing stands under has no caller.
    """
    found: dict[str, str] = {}
    for at, callee in enumerate(stack):
        if callee and callee not in found:
            caller = next((outer for outer in stack[at + 1 :] if outer != callee), None)
            if caller is not None:
                found[callee] = caller
    return found


def _jumped(
    callee: str, caller: str, calls: Mapping[str, Collection[str]], jumps: Mapping[str, Collection[str]]
) -> tuple[str, ...]:
    """The function between the two that left no frame, because it jumped to the callee; none, unless the code has just one."""
    # ``calls`` has no calls of a function by itself.
    if callee == caller or callee in calls.get(caller, (callee,)):
        return ()
    between = [each for each in calls[caller] if callee in jumps.get(each, ())]
    return tuple(between) if len(between) == 1 else ()


def frame_pointers(code: Mapping[str, Code]) -> bool:
    """Whether most functions keep them: without, what a stack says of callers is not to be believed."""
    return 2 * sum(each.frame_pointer for each in code.values()) > len(code)


def addresses(stacks: Stacks) -> Mapping[int, int]:
    """Samples in the server's own code by address."""
    found: Counter[int] = Counter()
    for stack, count in stacks.items():
        if not stack[0].home:
            found[stack[0].address] += count
    return found


def source_lines(
    bench: Workbench, tools: Tools, server: Path, table: SymbolTable, stacks: Stacks
) -> Mapping[int, tuple[Line, ...]]:
    """Source lines and inlined frames at every address on a stack; none without debug information."""
    if not table.debug_information or tools.symbolizer is None:
        return {}
    found = {frame.address for stack in stacks for frame in stack if not frame.home and frame.address}
    return inline_frames.expand(bench.shell, tools.symbolizer, server, found, bench.folder)


def files(table: SymbolTable, lines: Mapping[int, tuple[Line, ...]]) -> dict[str, str]:
    """The first sampled line of each function as FILE:LINE, by source name; that of code that several share is each one's."""
    found: dict[str, str] = {}
    for address in sorted(lines):
        part, known = table.part(address), lines[address]
        if part and known and known[-1].file:
            for symbol in part.symbols:
                found.setdefault(source_name(symbol), f"{known[-1].file}:{known[-1].line}")
    return found
