"""Which object each address of an executable comes from, read from the linker's map (``-Wl,-Map``): lld's or GNU ld's."""

from __future__ import annotations

import bisect
import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

# VMA, LMA, size (hexadecimal), alignment, then by indent an output section, an input section or a symbol.
_LINE = re.compile(r"^ *([0-9a-f]+) +[0-9a-f]+ +([0-9a-f]+) +\d+( +)(\S.*)$")
_INPUT = re.compile(r"^(.+):\((\..*)\)$")


_GNU_NAME = re.compile(r"^ (\.\S+)$")
_GNU_SECTION = re.compile(r"^ (\.\S+)? +0x([0-9a-f]+) +0x([0-9a-f]+) (\S.*)$")
_GNU_SYMBOL = re.compile(r"^ +0x([0-9a-f]+) +(\S+)$")


@dataclass
class LinkMap:
    """Input sections by address, and symbols by name."""

    starts: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    origins: list[str] = field(default_factory=list)
    """``sql/CMakeFiles/x.dir/y.cc.o`` or ``lib/libx.a(y.cc.o)``, as on the link line."""
    symbols: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    symbol_starts: list[int] = field(default_factory=list)
    symbol_names: list[str] = field(default_factory=list)

    def add_section(self, address: int, size: int, origin: str) -> None:
        """Sections come in the order of their addresses; an empty one holds no code."""
        if size:
            self.starts.append(address)
            self.ends.append(address + size)
            self.origins.append(origin)

    def add_symbol(self, address: int, name: str, origin: str) -> None:
        self.symbols[name].add(origin)
        self.symbol_starts.append(address)
        self.symbol_names.append(name)

    def origin(self, address: int) -> str | None:
        """The object or archive member whose code lies at a virtual address."""
        at = bisect.bisect_right(self.starts, address) - 1
        return self.origins[at] if at >= 0 and address < self.ends[at] else None

    def symbol(self, address: int) -> str | None:
        """The symbol that starts at or before an address."""
        at = bisect.bisect_right(self.symbol_starts, address) - 1
        return self.symbol_names[at] if at >= 0 else None


def read_link_map(path: Path) -> LinkMap:
    """Read the text sections and symbols of a link map; lld's begins with a line of column titles, GNU ld's with prose."""
    with path.open(errors="replace") as file:
        first = file.readline()
        return _read_lld(file) if first.split()[:1] == ["VMA"] else _read_gnu(file)


def _read_lld(lines: Iterable[str]) -> LinkMap:
    found = LinkMap()
    origin: str | None = None
    for line in lines:
        match = _LINE.match(line)
        if not match:
            continue
        address, size, indent, name = int(match[1], 16), int(match[2], 16), len(match[3]), match[4]
        if indent <= 1:
            origin = None
        elif indent <= 9:
            part = _INPUT.match(name)
            origin = part[1] if part and part[2].startswith(".text") else None
            if origin:
                found.add_section(address, size, origin)
        elif origin:
            found.add_symbol(address, name, origin)
    return found


def _read_gnu(lines: Iterable[str]) -> LinkMap:
    """After a list of discarded sections comes the memory map; a long section name stands on a line of its own."""
    found = LinkMap()
    origin: str | None = None
    name = ""
    waiting = True
    for line in lines:
        if waiting:
            waiting = not line.startswith("Linker script and memory map")
        elif alone := _GNU_NAME.match(line):
            name, origin = alone[1], None
        elif section := _GNU_SECTION.match(line):
            name = section[1] or name
            origin = section[4] if name.startswith(".text") else None
            if origin:
                found.add_section(int(section[2], 16), int(section[3], 16), origin)
        elif origin and (symbol := _GNU_SYMBOL.match(line)):
            found.add_symbol(int(symbol[1], 16), symbol[2], origin)
    return found
