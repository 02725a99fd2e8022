"""Frames of inlined functions, where debug information tells them: llvm-symbolizer names them by address."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import NamedTuple

from upshift.shell import Command, Shell

_TIMEOUT_S = 600.0


class Line(NamedTuple):
    """A function at an address, and where in the source."""

    function: str
    file: str
    line: int


def expand(
    shell: Shell, symbolizer: Path, server: Path, addresses: Collection[int], folder: Path
) -> Mapping[int, tuple[Line, ...]]:
    """The functions at each address, the innermost inlined one first, the one that holds the code last."""
    if not addresses:
        return {}
    wanted = folder / "addresses"
    wanted.write_text("".join(f"{address:#x}\n" for address in sorted(addresses)))
    options = (f"--obj={server}", "--output-style=JSON", "--inlines", "--no-demangle")
    said = shell.run(Command((str(symbolizer), *options, f"@{wanted}")), timeout_s=_TIMEOUT_S).stdout
    wanted.unlink()
    # Its warnings of damaged debug information stand before the one line of JSON.
    found = next((line for line in said.splitlines() if line.startswith("[{")), "[]")
    return {
        int(told["Address"], 16): tuple(
            Line(each["FunctionName"], each["FileName"], each["Line"]) for each in told.get("Symbol", ())
        )
        for told in json.loads(found)
    }
