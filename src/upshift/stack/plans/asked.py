"""What a rule about plans is given, and what it gives back when it has seen something."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, NamedTuple

from upshift.stack.plans.model import Plan
from upshift.stack.suspects.model import Figure, Unit
from upshift.values import Value

Clock = Literal["server", "client"]
"""``server``: its own time of the execution. ``client``: from the request to the last row, with the network."""


class Timing(Value):
    """How long a statement took on two servers that executed it in turns."""

    clock: Clock
    rounds: int
    a_ms: float
    """The median."""
    b_ms: float
    ratio: float
    """B's time over A's: the geometric mean of the rounds."""
    ci_low: float
    ci_high: float
    confidence: float


class Asked(Value):
    """A statement with its plan, and with the other server's where there are two."""

    statement: str
    """16 hexadecimal digits, as in the trace."""
    text: str
    share: float
    """Its part of the time of all statements that were looked at."""
    plan: Plan
    other: Plan | None = None
    timing: Timing | None = None
    why_untimed: str | None = None
    """Why two servers that execute it have no times that tell of their engines."""
    plain_ratio: float | None = None
    """B's time over A's from the request to the last row, without EXPLAIN; None: one of both gave no answer."""


class Seen(NamedTuple):
    """Evidence in one statement's plans. ``counted``: by an execution, else estimated."""

    said: str
    figures: tuple[Figure, ...]
    counted: bool
    part: float = 1.0
    """Of the statement's time, what the suspect takes at most."""


def figure(name: str, value: float, unit: Unit = "rows", threshold: str | None = None) -> Figure:
    return Figure(name=name, value=value, unit=unit, threshold=threshold)


def plans_of(asked: Asked) -> Iterable[tuple[Plan, str]]:
    """The plans of a statement, each with the words that tell it from the other."""
    if asked.other is None:
        return ((asked.plan, ""),)
    return ((asked.plan, " on A"), (asked.other, " on B"))
