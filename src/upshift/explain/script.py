"""Reads what ``perf script`` prints, line by line: each sample as a stack of frames, the innermost first."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from upshift.explain.symbols import SymbolTable
from upshift.shell import Command
from upshift.toolchain.perf import Mappings

KERNEL = "[kernel]"
UNKNOWN = "[unknown]"
_ADDRESS = re.compile(r"^\s+([0-9a-f]+) (.*)$")
_FRAME = re.compile(r"^\s+([0-9a-f]+) (.*) \((.*)\)$")
# Parentheses may stand in a symbol, in the path of a file, and behind one that is not there any more.
_FRAME_OF_FILE = re.compile(r"^\s+([0-9a-f]+) (.*) \((/.*)\)$")
_GONE = " (deleted)"
# A module of the kernel has its name in brackets, or is a file; a few areas of user memory have such names, too.
_IN_KERNEL = re.compile(r"^\[(?!unknown|vdso|vsyscall|vvar|heap|stack|anon|uprobes)|\.ko(?:\.\w+)?$|vmlinux$")


class Frame(NamedTuple):
    """A function on a stack."""

    home: str
    """Empty for the server itself, ``[kernel]``, or a library's file name."""
    symbol: str
    """The server's linkage name; of the kernel and of libraries what perf calls it."""
    address: int
    """In the server, its virtual address, of a caller one byte before where the call returns to; elsewhere 0."""


Stack = tuple[Frame, ...]


@dataclass
class Samples:
    """All samples of one server under one load."""

    stacks: Counter[Stack] = field(default_factory=Counter)
    lost: int = 0
    """Samples that the kernel dropped because perf did not keep up."""

    @property
    def total(self) -> int:
        return self.stacks.total()


def script_command(data: Path) -> Command:
    """Prints a recording with everything that ``Reader`` needs."""
    # Without frames of inlined functions, which perf of 2026 and some of 6.4 add where there is debug information: they name no
    # file, so that they would pass for a library's, and each costs a call of addr2line.
    shown = ("--no-inline", "--show-mmap-events", "--show-lost-events", "-F", "comm,tid,event,ip,sym,dso")
    return Command(("perf", "script", "-i", str(data), *shown))


class Reader:
    """Takes the lines of ``perf script`` one after the other."""

    def __init__(self, server: Path, table: SymbolTable) -> None:
        self.samples = Samples()
        self._in_own = f" ({server})"
        self._table = table
        self._mapped = Mappings(server)
        self._stack: list[Frame] = []
        self._seen: dict[tuple[int, bool], Frame] = {}

    def line(self, line: str) -> None:
        """One line; an empty one ends a sample."""
        if not line.strip():
            self._end()
        elif found := self._frame_of(line.rstrip("\n")):
            self._stack.append(found)
        elif not self._mapped.line(line) and "PERF_RECORD_LOST" in line and (lost := re.search(r"lost (\d+)", line)):
            self.samples.lost += int(lost[1])

    def done(self) -> Samples:
        """What was read; after the last line."""
        self._end()
        return self.samples

    def _end(self) -> None:
        if self._stack:
            self.samples.stacks[tuple(self._stack)] += 1
            self._stack = []

    def _frame_of(self, line: str) -> Frame | None:
        """What a line says of a frame; None for all other lines."""
        if line.endswith(self._in_own) and (found := _ADDRESS.match(line.removesuffix(self._in_own))):
            return self._frame(int(found[1], 16), found[2], "")
        found = _FRAME_OF_FILE.match(line) or _FRAME.match(line)
        return self._frame(int(found[1], 16), found[2], found[3].removesuffix(_GONE) or UNKNOWN) if found else None

    def _frame(self, ip: int, symbol: str, home: str) -> Frame:
        """``home`` is a file's path or what perf has in its place; empty for the server."""
        # The kernel's half of the addresses: where it hides its names, perf has no home for them. Garbage at the end of a user
        # stack may lie in that half, too.
        if ip >> 63 and (not self._stack or self._stack[-1].home == KERNEL):
            return Frame(KERNEL, symbol, 0)
        if home:
            return Frame(KERNEL if _IN_KERNEL.search(home) else Path(home).name, symbol, 0)
        caller = bool(self._stack) and self._stack[-1].home != KERNEL
        if (known := self._seen.get((ip, caller))) is None:
            known = self._seen[ip, caller] = self._in_server(ip, caller)
        return known

    def _in_server(self, ip: int, caller: bool) -> Frame:
        # perf prints run-time addresses or offsets in the file, by its version and the fields asked for.
        offset = self._mapped.offset(ip)
        address = self._table.virtual(ip if offset is None else offset)
        if address is None:
            return Frame("", UNKNOWN, 0)
        # A call may be the last instruction of a function: what it returns to then lies in the next one.
        address -= caller
        part = self._table.part(address)
        return Frame("", part.symbols[0] if part else UNKNOWN, address)
