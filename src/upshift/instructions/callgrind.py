"""Valgrind's callgrind around a server: its command, its control while it runs, and what it writes.

Nothing is counted until ``begin``, so that a server starts, and is warmed up, in seconds. Each dump sets the
counters to zero. The format is described in Valgrind's manual, "Callgrind Format Specification".
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from upshift.errors import CommandFailed, CountFailed
from upshift.explain.names import is_cold
from upshift.instructions.executed import Cost, Executed, Function, Misses
from upshift.shell import Command, Shell

_CONTROL_TIMEOUT_S = 120.0
_OUT = "counts"
_EVENTS = re.compile(r"^events: (Ir(?: \w+)*)$", re.M)
_POSITIONS = re.compile(r"^positions: (\w+(?: \w+)*)$", re.M)
# The last line of a file. Its head has the same figures as "summary", in files that were cut short, too.
_TOTAL = re.compile(r"^totals: (\d+(?: \d+)*)\n", re.M)
_CACHE = re.compile(r"^desc: (I1|D1|LL) cache: (\d+) B", re.M)
_NAME = re.compile(r"(c?ob|c?fn)=\((\d+)\)(?: (.*))?$")
_POSITION = r"[-+*\d]\S* "
_JUMP = re.compile(r"(?:jump=|jcnd=)(\d+)")
_DUMPED = re.compile(rf"^{_OUT}\.(\d+)-(\d+)$")


Detail = Literal["jumps", "misses"]
_DETAILS: Mapping[Detail, tuple[str, ...]] = {
    # A jump within a line of the source, or without line numbers, shows by its instruction's address alone.
    "jumps": ("--collect-jumps=yes", "--dump-instr=yes"),
    "misses": ("--cache-sim=yes", "--branch-sim=yes"),
}


def command(folder: Path, details: Collection[Detail] = ()) -> tuple[str, ...]:
    """What stands before a server's command; ``folder`` gets the counts, with these details."""
    return (
        *("valgrind", "--quiet", "--tool=callgrind", "--separate-threads=yes", "--instr-atstart=no"),
        "--demangle=no",
        *(word for each in details for word in _DETAILS[each]),
        f"--callgrind-out-file={folder / _OUT}",
        f"--vgdb-prefix={folder / 'vgdb'}",
    )


@dataclass(frozen=True)
class Callgrind:
    """The callgrind that runs a server, as one controls it from outside."""

    shell: Shell
    pid: int
    folder: Path
    log: Path

    def begin(self) -> None:
        """Count from now on. Raises CountFailed."""
        self._control("instrumentation", "on")
        self._control("zero")

    def during(self, load: Callable[[], None]) -> tuple[Executed, ...]:
        """What each thread executes while ``load`` runs. Raises CountFailed."""
        self.dump()
        load()
        return self.dump()

    def dump(self) -> tuple[Executed, ...]:
        """What each thread executed since the counting began or since the last dump. Raises CountFailed."""
        before = self._dumps()
        self._control("dump")
        new = self._dumps() - before
        if not new:
            raise CountFailed("callgrind wrote no counts")
        return tuple(read(self.folder / f"{_OUT}.{number}-{thread}") for number, thread in sorted(new))

    def _dumps(self) -> set[tuple[str, str]]:
        found = (_DUMPED.match(file.name) for file in self.folder.iterdir())
        return {(each[1], each[2]) for each in found if each}

    def _control(self, *words: str) -> None:
        vgdb = ("vgdb", f"--vgdb-prefix={self.folder / 'vgdb'}", f"--pid={self.pid}", *words)
        try:
            self.shell.run(Command(vgdb), log=self.log, timeout_s=_CONTROL_TIMEOUT_S)
        except CommandFailed as error:
            raise CountFailed(f"callgrind does not answer: {error.message}", error.hint) from error


def read(file: Path) -> Executed:
    """A thread's counts from a file that callgrind dumped. Raises CountFailed when it is not one, or was cut short."""
    text = file.read_text(errors="replace")
    events, total, positions = _EVENTS.search(text), _TOTAL.search(text), _POSITIONS.search(text)
    if not events or not total:
        raise CountFailed(f"{file} does not hold callgrind's counts")
    counted = dict(zip(events[1].split(), map(int, total[1].split()), strict=False))
    found, cold = _functions(text, len(positions[1].split()) if positions else 1)
    jumps = [int(each[1]) for line in text.splitlines() if (each := _JUMP.match(line))]
    return Executed(
        counted["Ir"],
        sum(cost.calls for cost in found.values()),
        found,
        # A file without jumps is one of a run that did not collect them: no thread serves a query without a jump.
        taken_branches=sum(jumps) + cold if jumps else None,
        misses=_misses(counted, text),
    )


def _misses(counted: Mapping[str, int], text: str) -> Misses | None:
    """callgrind leaves zeros at a line's end out."""
    if not _CACHE.search(text):
        return None
    one = Counter(counted)
    sizes = ", ".join(f"{name} {int(size) // 1024} KiB" for name, size in _CACHE.findall(text))
    return Misses(
        caches=sizes,
        code=one["I1mr"],
        data=one["D1mr"] + one["D1mw"],
        last_level=one["ILmr"] + one["DLmr"] + one["DLmw"],
        branches=one["Bcm"] + one["Bim"],
    )


def _functions(text: str, positions: int) -> tuple[Mapping[Function, Cost], int]:
    """Each function's own instructions, and the calls of it. Then how often code jumped into cold parts: callgrind takes a jump
    to a symbol's first instruction for a call, and what was split off from a function has a symbol.

    A name is written once, with a number that stands for it from then on; programs and functions are numbered apart.
    """
    names: dict[tuple[str, str], str] = {}
    now = dict.fromkeys(("ob", "fn", "cob", "cfn"), "")
    own: Counter[Function] = Counter()
    calls: Counter[Function] = Counter()
    jumps = 0
    called = False
    costs = re.compile(rf"(?:{_POSITION}){{{positions}}}(\d+)(?: \d+)*$")
    for line in text.splitlines():
        if name := _NAME.match(line):
            field, number = name[1], name[2]
            space = field.removeprefix("c")
            if name[3]:
                names[space, number] = name[3]
            now[field] = names.get((space, number), "")
        elif line.startswith("calls="):
            # Without a program of its own, what is called lies in the caller's.
            callee, times = _function(now["cob"] or now["ob"], now["cfn"]), int(line[6:].split()[0])
            if is_cold(callee.symbol):
                jumps += times
            else:
                calls[callee] += times
            now["cob"] = ""
            called = True
        elif cost := costs.match(line):
            # The line after a call has what the call executed, which is the callee's.
            if not called:
                own[_function(now["ob"], now["fn"])] += int(cost[1])
            called = False
    return {each: Cost(own[each], calls[each]) for each in {**own, **calls}}, jumps


def _function(program: str, symbol: str) -> Function:
    """Symbols of libraries have a version behind an @; recursion that callgrind tells apart has its depth behind a '."""
    return Function(Path(program).name, symbol.partition("@")[0].partition("'")[0])
