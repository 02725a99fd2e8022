"""What a rule about plans is given, and what it gives back when it has seen something."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from upshift.stack.plans.model import Plan
from upshift.stack.suspects.model import Figure, Unit
from upshift.values import Value


class Asked(Value):
    """A statement with its plan, and with the other server's where there are two."""

    statement: str
    """16 hexadecimal digits, as in the trace."""
    text: str
    share: float
    """Its part of the time of all statements that were looked at."""
    plan: Plan
    other: Plan | None = None


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
