"""What one thread executed, whatever counted it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple


class Function(NamedTuple):
    """A function as a program has it: what was inlined into it is part of it."""

    program: str
    """The file name of the program or library."""
    symbol: str
    """The linkage name."""


class Cost(NamedTuple):
    """What was executed of a function."""

    instructions: int
    """Its own, without those of what it called."""
    calls: int
    """Of it, by anyone."""


class Misses(NamedTuple):
    """What a simulated processor did not find, or guessed wrongly."""

    caches: str
    """Their sizes."""
    code: int
    """In the first cache for code."""
    data: int
    """In the first cache for data, read or written."""
    last_level: int
    """In the last cache, code and data."""
    branches: int
    """Predicted wrongly."""


@dataclass(frozen=True)
class Executed:
    """Of one thread, or of a whole server, while a load ran."""

    instructions: int
    calls: int | None = None
    """Of functions; None: what counted them does not say."""
    functions: Mapping[Function, Cost] = field(default_factory=dict)
    """Empty where what counted does not say."""
    taken_branches: int | None = None
    """Of its branches and jumps, those that did not go on with what follows; None: what counts them does not say."""
    misses: Misses | None = None
    """None where nobody simulated them."""
