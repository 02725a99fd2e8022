"""Which object each address of an executable comes from, read from lld's link map (``-Wl,-Map``)."""

from __future__ import annotations

import bisect
import re
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

# VMA, LMA, size (hexadecimal), alignment, then by indent an output section, an input section or a symbol.
_LINE = re.compile(r"^ *([0-9a-f]+) +[0-9a-f]+ +([0-9a-f]+) +\d+( +)(\S.*)$")
_INPUT = re.compile(r"^(.+):\((\..*)\)$")


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

    def origin(self, address: int) -> str | None:
        """The object or archive member whose code lies at a virtual address."""
        at = bisect.bisect_right(self.starts, address) - 1
        return self.origins[at] if at >= 0 and address < self.ends[at] else None

    def symbol(self, address: int) -> str | None:
        """The symbol that starts at or before an address."""
        at = bisect.bisect_right(self.symbol_starts, address) - 1
        return self.symbol_names[at] if at >= 0 else None


def read_link_map(path: Path) -> LinkMap:
    """Read the text sections of a link map; lines come in address order."""
    found = LinkMap()
    origin: str | None = None
    with path.open(errors="replace") as file:
        for line in file:
            match = _LINE.match(line)
            if not match:
                continue
            address, size, indent, name = int(match[1], 16), int(match[2], 16), len(match[3]), match[4]
            if indent <= 1:
                origin = None
            elif indent <= 9:
                part = _INPUT.match(name)
                origin = part[1] if part and part[2].startswith(".text") else None
                if origin and size:
                    found.starts.append(address)
                    found.ends.append(address + size)
                    found.origins.append(origin)
            elif origin:
                found.symbols[name].add(origin)
                found.symbol_starts.append(address)
                found.symbol_names.append(name)
    return found
