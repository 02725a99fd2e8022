"""What one thread executed, whatever counted it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Executed:
    """Of one thread, while a load ran."""

    instructions: int
    calls: int | None = None
    """Of functions; None: what counted them does not say."""
