"""Valgrind's callgrind around a server: its command, its control while it runs, and what it writes.

Nothing is counted until ``begin``, so that a server starts, and is warmed up, in seconds. Each dump sets the
counters to zero. The format is described in Valgrind's manual, "Callgrind Format Specification".
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from upshift.errors import CommandFailed, CountFailed
from upshift.instructions.executed import Cost, Executed, Function
from upshift.shell import Command, Shell

_CONTROL_TIMEOUT_S = 120.0
_OUT = "counts"
_EVENTS = re.compile(r"^events: Ir$", re.M)
_TOTAL = re.compile(r"^(?:totals|summary): (\d+)$", re.M)
_NAME = re.compile(r"(c?ob|c?fn)=\((\d+)\)(?: (.*))?$")
_COST = re.compile(r"[-+*\d]\S* (\d+)$")
_DUMPED = re.compile(rf"^{_OUT}\.(\d+)-(\d+)$")


def command(folder: Path) -> tuple[str, ...]:
    """What stands before a server's command; ``folder`` gets the counts."""
    return (
        *("valgrind", "--quiet", "--tool=callgrind", "--separate-threads=yes", "--instr-atstart=no"),
        "--demangle=no",
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
    total = _TOTAL.search(text)
    if not _EVENTS.search(text) or total is None:
        raise CountFailed(f"{file} does not hold callgrind's counts")
    found = _functions(text)
    return Executed(int(total[1]), sum(cost.calls for cost in found.values()), found)


def _functions(text: str) -> Mapping[Function, Cost]:
    """Each function's own instructions, and the calls of it.

    A name is written once, with a number that stands for it from then on; programs and functions are numbered apart.
    """
    names: dict[tuple[str, str], str] = {}
    now = dict.fromkeys(("ob", "fn", "cob", "cfn"), "")
    own: Counter[Function] = Counter()
    calls: Counter[Function] = Counter()
    called = False
    for line in text.splitlines():
        if name := _NAME.match(line):
            field, number = name[1], name[2]
            space = field.removeprefix("c")
            if name[3]:
                names[space, number] = name[3]
            now[field] = names.get((space, number), "")
        elif line.startswith("calls="):
            # Without a program of its own, what is called lies in the caller's.
            calls[_function(now["cob"] or now["ob"], now["cfn"])] += int(line[6:].split()[0])
            now["cob"] = ""
            called = True
        elif cost := _COST.match(line):
            # The line after a call has what the call executed, which is the callee's.
            if not called:
                own[_function(now["ob"], now["fn"])] += int(cost[1])
            called = False
    return {each: Cost(own[each], calls[each]) for each in {**own, **calls}}


def _function(program: str, symbol: str) -> Function:
    """Symbols of libraries have a version behind an @; recursion that callgrind tells apart has its depth behind a '."""
    return Function(Path(program).name, symbol.partition("@")[0].partition("'")[0])
