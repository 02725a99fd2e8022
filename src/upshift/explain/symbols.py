"""Which function each address of an executable belongs to, from its symbol table."""

from __future__ import annotations

import bisect
from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from elftools.elf.elffile import ELFFile

from upshift.errors import UsageError
from upshift.toolchain.perf import Segment, code_segments, virtual

_SYMBOL = np.dtype([("name", "<u4"), ("info", "u1"), ("other", "u1"), ("section", "<u2"), ("value", "<u8"), ("size", "<u8")])
_FUNCTION, _INDIRECT = 2, 10  # STT_FUNC, STT_GNU_IFUNC in elf.h


@dataclass(frozen=True)
class Part:
    """A run of code under a symbol: a function, or what was split off from one."""

    start: int
    end: int
    symbols: tuple[str, ...]
    """All symbols at its start. More than one: identical functions that were folded, or the variants of a constructor."""


class SymbolTable:
    """The functions of one executable by virtual address."""

    def __init__(self, parts: list[Part], segments: list[Segment], *, debug_information: bool = False) -> None:
        self.parts = sorted(parts, key=lambda part: part.start)
        self.segments = segments
        self.debug_information = debug_information
        self._starts = [part.start for part in self.parts]

    def part(self, address: int) -> Part | None:
        """The function, or part of one, whose code lies at a virtual address."""
        at = bisect.bisect_right(self._starts, address) - 1
        return self.parts[at] if at >= 0 and address < self.parts[at].end else None

    def virtual(self, offset: int) -> int | None:
        """The virtual address of what lies at an offset of the file."""
        return virtual(offset, self.segments)


def read_symbols(server: Path, name: str) -> SymbolTable:
    """The symbol table of an executable. Raises UsageError when it was stripped; ``name`` is what the user calls it."""
    with server.open("rb") as file:
        elf = ELFFile(file)
        segments = code_segments(elf)
        table, texts = elf.get_section_by_name(".symtab"), elf.get_section_by_name(".strtab")
        if table is None or texts is None:
            raise UsageError(
                f"{name}: {server} is stripped: it has no names of functions",
                "name a server with its symbol table, such as one that Upshift built, or the file before `strip`",
            )
        symbols = np.frombuffer(table.data(), dtype=_SYMBOL)
        strings = texts.data()
        debug = elf.get_section_by_name(".debug_line") is not None
    kind = symbols["info"] & 0xF
    functions = symbols[((kind == _FUNCTION) | (kind == _INDIRECT)) & (symbols["section"] != 0)]
    return SymbolTable(_parts(functions, strings), segments, debug_information=debug)


def _parts(functions: np.ndarray, strings: bytes) -> list[Part]:
    names: defaultdict[int, list[str]] = defaultdict(list)
    ends: dict[int, int] = {}
    for name_at, value, size in zip(
        functions["name"].tolist(), functions["value"].tolist(), functions["size"].tolist(), strict=True
    ):
        names[value].append(strings[name_at : strings.index(b"\0", name_at)].decode(errors="replace"))
        ends[value] = max(ends.get(value, 0), value + size)
    starts = sorted(names)
    following = dict(zip(starts, [*starts[1:], None], strict=True))
    parts = []
    for start in starts:
        # Assembly leaves sizes out: such a function ends where the next begins.
        end = ends[start] if ends[start] > start else (following[start] or start + 1)
        parts.append(Part(start, end, tuple(sorted(set(names[start])))))
    return parts


class Groups:
    """One name for all functions that are the same code in one of the servers, so that both are counted alike."""

    def __init__(self, named: Mapping[str, int] = {}) -> None:
        self._parents: dict[str, str] = {}
        self._members: dict[str, set[str]] = {}
        """By the name that stands for them; without groups of one."""
        self._weights = named
        """Samples by source name: the one with the most stands for its group."""

    def join(self, names: tuple[str, ...]) -> None:
        """Functions of these names count as one from now on."""
        roots = sorted({self._root(name) for name in names}, key=lambda each: (-self._weights.get(each, 0), each))
        for other in roots[1:]:
            self._parents[other] = roots[0]
        self._members[roots[0]] = set[str]().union(*(self._members.pop(each, {each}) for each in roots))

    def of(self, name: str) -> str:
        """The name that stands for a function's group: its own, unless others share its code."""
        return self._root(name)

    def members(self, name: str) -> Collection[str]:
        """All functions that share a function's code, itself among them."""
        return self._members.get(self._root(name), {name})

    def _root(self, name: str) -> str:
        while (parent := self._parents.get(name)) is not None:
            name = parent
        return name
