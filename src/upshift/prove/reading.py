"""What upshift-differ wrote, as parts of a proof."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from upshift.patches.model import Patch
from upshift.prove.model import Part, PartName

_CRASH = re.compile(r"got signal \d+|Assertion|mysqld: .*: Assertion|\[FATAL\]|Sanitizer:|: runtime error: ")


def compared(name: PartName, said: Mapping[str, Any]) -> Part:
    """Of mix, tests and random: differences by the program's verdicts."""

    def told(*verdicts: str) -> tuple[str, ...]:
        found = (each for each in said["differences"] if each["verdict"] in verdicts)
        return tuple(f"{each['what']}\n{each['script'] or each['statement']}".rstrip() for each in found)

    return Part(
        name=name,
        statements=said["statements"],
        wall_s=said["wall_s"],
        wrong=told("wrong"),
        unsteady=told("unsteady"),
        silent=told("hang", "slow"),
        detail=said,
    )


def stormed(name: PartName, said: Mapping[str, Any], *also: str) -> Part:
    """Of storm and crash; ``also`` is wrong besides what the program found."""
    wrong = [*said["wrong"], *(["the server was lost"] if said["lost"] else []), *also]
    return Part(name=name, statements=said["statements"], wall_s=said["wall_s"], wrong=tuple(wrong), detail=said)


def crashes(log: Path, begin: int = 0) -> tuple[str, ...]:
    """The lines of a server's log, from a byte on, that say it crashed."""
    text = log.read_bytes()[begin:].decode(errors="replace")
    return tuple(line.strip() for line in text.splitlines() if _CRASH.search(line))


def short_paths(patches: Sequence[Patch], before: Mapping[str, str], after: Mapping[str, str]) -> dict[str, int]:
    """By how much each counter grew that the server has, and that counts a patch's short path."""
    names = (name for patch in patches for name in patch.counters if name.endswith("_used"))
    return {name: int(after[name]) - int(before[name]) for name in sorted(names) if name in after}


def switches(patches: Sequence[Patch], stock: Mapping[str, str], patched: Mapping[str, str]) -> dict[str, str]:
    """The variables of these patches that only the patched server has, with their values."""
    names = sorted(patch.variable for patch in patches)
    return {name: patched[name] for name in names if name in patched and name not in stock}
