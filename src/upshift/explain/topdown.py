"""What a processor's issue slots went to (Yasin, "A Top-Down Method for Performance Analysis", 2014), by ``perf stat``.

Level 1: slots that retired an instruction, that went to instructions on a wrong path, that the front end left empty because
it fetched too slowly, and that the back end left empty because it waited for data or a unit.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from upshift.explain.model import Slots
from upshift.instructions import perf_stat
from upshift.shell import Command, Shell

_ASKED = (("-M", "TopdownL1"), ("-M", "PipelineL1"), ("--topdown",))
"""Intel's and Arm's metrics, AMD's (Zen 4 and later), and what older versions of perf have for Intel."""
# Long enough on the CPU for counters that share the processor's few registers, by turns of some milliseconds.
_BUSY = ("dd", "if=/dev/zero", "of=/dev/null", "bs=1M", "count=2000")
_NAMED = re.compile(r"(?:^|\s)(?:tma_)?(retiring|bad[_ ]speculation|frontend[_ ]bound|backend[_ ]bound|smt_contention)$", re.I)
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?$")
_NEEDED = ("retiring", "bad_speculation", "frontend_bound", "backend_bound")
_OFF = 0.05
"""How far the shares may be from adding up: more, and they were counted at different times, or on two kinds of cores."""


def options_here(shell: Shell) -> tuple[tuple[str, ...], str]:
    """How perf is asked for the slots on this machine; where it cannot tell them nothing, and why not."""
    if not perf_stat.counts_here(shell):
        return (), "perf counts no instructions on this machine: it shows no counters of the processor, or forbids them"
    for options in _ASKED:
        done = shell.run(Command(("perf", "stat", "-x", ",", *options, "--", *_BUSY)), check=False, timeout_s=30)
        if read(done.stdout):
            return options, ""
    return (), "this perf has no top-down metrics of this processor, or counts them for the whole machine alone"


def read(text: str) -> Slots | None:
    """What ``perf stat -x ,`` wrote; None where the four shares are not there, or do not add up.

    A metric is a field with its name behind one with its value, behind its event's count or alone on a line. Where perf prints
    metrics only, names are a line, and values the next. They are fractions or percents, by perf's version and the processor.
    """
    found: dict[str, float] = {}
    for name, value in _pairs([line.split(",") for line in text.splitlines()]):
        if found.setdefault(name, value) != value:
            return None
    total = sum(found.values())
    whole = 100.0 if total > 2 else 1.0
    if any(name not in found for name in _NEEDED) or abs(total / whole - 1) > _OFF:
        return None
    return Slots.model_validate({name: value / whole for name, value in found.items()})


def _pairs(lines: Sequence[Sequence[str]]) -> Iterator[tuple[str, float]]:
    for number, fields in enumerate(lines):
        names = {at: name for at, field in enumerate(fields) if (name := _name(field))}
        # A line of names has several; a metric's own line has one.
        values = lines[number + 1 : number + 2] if len(names) > 1 else [["", *fields]]
        for row in values:
            yield from ((name, _value(row[at])) for at, name in names.items() if at < len(row))


def _name(field: str) -> str:
    found = _NAMED.search(field.strip())
    return found[1].lower().replace(" ", "_") if found else ""


def _value(field: str) -> float:
    """perf leaves a field empty whose number would be below 0."""
    return float(field) if _NUMBER.match(field.strip()) else 0.0
