"""Do objects built with and without precompiled headers hold the same code?

    .venv/bin/python studies/same_code.py BUILD_WITHOUT BUILD_WITH

Compares every object file that both build folders have, function by function: the bytes of each text section (on x86-64 the
fields that relocations fill are zero in an object) and what each relocation refers to, by name where it has one. Prints how
many functions are the same, how many changed, and how many only one of the builds has.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

_SECTION = np.dtype(
    [
        ("name", "<u4"),
        ("type", "<u4"),
        ("flags", "<u8"),
        ("addr", "<u8"),
        ("offset", "<u8"),
        ("size", "<u8"),
        ("link", "<u4"),
        ("info", "<u4"),
        ("align", "<u8"),
        ("entsize", "<u8"),
    ]
)
_SYMBOL = np.dtype([("name", "<u4"), ("info", "u1"), ("other", "u1"), ("section", "<u2"), ("value", "<u8"), ("size", "<u8")])
_RELA = np.dtype([("offset", "<u8"), ("info", "<u8"), ("addend", "<i8")])
_SYMTAB, _RELOCATIONS = 2, 4


def functions(path: Path) -> Counter[tuple[str, bytes, tuple[Any, ...]]]:
    """Each text section's name, bytes and relocations (offset, type, symbol; local labels without their numbers)."""
    data = path.read_bytes()
    start = int.from_bytes(data[40:48], "little")
    count = int.from_bytes(data[60:62], "little")
    if count == 0:  # more than 65,279 sections: the number is in the first header
        count = int(np.frombuffer(data, _SECTION, 1, start)["size"][0])
    sections = np.frombuffer(data, _SECTION, count, start)
    names_at = int.from_bytes(data[62:64], "little")
    names_at = int(sections[0]["link"]) if names_at == 0xFFFF else names_at
    section_names = [_text(data, int(sections[names_at]["offset"]) + int(one["name"])) for one in sections]
    table = next(one for one in sections if one["type"] == _SYMTAB)
    strings = int(sections[int(table["link"])]["offset"])
    symbols = np.frombuffer(data, _SYMBOL, int(table["size"]) // _SYMBOL.itemsize, int(table["offset"]))
    relocations: dict[int, list[tuple[Any, ...]]] = {}
    for one in sections[sections["type"] == _RELOCATIONS]:
        rows = np.frombuffer(data, _RELA, int(one["size"]) // _RELA.itemsize, int(one["offset"]))
        relocations[int(one["info"])] = [_relocation(data, strings, symbols, row) for row in rows]
    return Counter(
        (
            section_names[number],
            data[int(one["offset"]) : int(one["offset"] + one["size"])],
            tuple(relocations.get(number, ())),
        )
        for number, one in enumerate(sections)
        if section_names[number].startswith(".text") and one["size"]
    )


def _relocation(data: bytes, strings: int, symbols: npt.NDArray[Any], row: Any) -> tuple[Any, ...]:
    symbol = symbols[int(row["info"]) >> 32]
    kind = int(row["info"]) & 0xFFFFFFFF
    name = _text(data, strings + int(symbol["name"])) if symbol["name"] else ""
    # Literals and section symbols are numbered and placed in the order in which the front end met them.
    anonymous = name == "" or name.startswith(".L")
    return (int(row["offset"]), kind, "" if anonymous else name, 0 if anonymous else int(row["addend"]))


def _text(data: bytes, at: int) -> str:
    return data[at : data.index(b"\0", at)].decode()


def main(without: Path, with_headers: Path) -> None:
    objects = 0
    found: Counter[str] = Counter()
    changed: Counter[str] = Counter()
    for path in sorted(with_headers.rglob("*.o")):
        other = without / path.relative_to(with_headers)
        if not other.is_file():
            continue
        mine, theirs = functions(path), functions(other)
        objects += 1
        found["same"] += sum((mine & theirs).values())
        mine_names, their_names = _names(mine - theirs), _names(theirs - mine)
        changed += mine_names & their_names
        found["changed"] += sum((mine_names & their_names).values())
        found["only with precompiled headers"] += sum((mine_names - their_names).values())
        found["only without"] += sum((their_names - mine_names).values())
    sys.stdout.write(f"{objects} objects; functions: {', '.join(f'{count} {what}' for what, count in found.items())}\n")
    for name, count in changed.most_common(10):
        sys.stdout.write(f"  changed in {count} objects: {name[:100]}\n")


def _names(some: Counter[tuple[str, bytes, tuple[Any, ...]]]) -> Counter[str]:
    names: Counter[str] = Counter()
    for (name, _code, _relocations), count in some.items():
        names[name] += count
    return names


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Whether two builds' objects hold the same code")
    parser.add_argument("without", type=Path, help="a build folder")
    parser.add_argument("with_headers", type=Path, help="the other build folder")
    args = parser.parse_args()
    main(args.without, args.with_headers)
