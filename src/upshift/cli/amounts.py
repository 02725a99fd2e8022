"""Amounts as users type them: ``1%``, ``10m``."""

from __future__ import annotations

import re

from upshift.errors import UsageError
from upshift.limits import MOST_BUDGET_S, MOST_CONNECTIONS

MARGIN, MOST_MARGIN = 0.02, 0.9
"""The loss that ``--fail-below`` accepts without being told, and the most that ``--margin`` takes, as shares of its ratio."""

_SECONDS = {"s": 1, "m": 60, "h": 3600}


def parse_patches(text: str | None) -> tuple[str, ...]:
    """``--patches``: names with commas between them, or ``all``; none without the option. Raises UsageError."""
    if text is None:
        return ()
    names = tuple(name.strip() for name in text.split(","))
    if not all(names):
        raise UsageError(f"--patches '{text}' has an empty name", "`upshift patch list` has the names; or say all")
    return names


def parse_connections(text: str) -> tuple[int, ...]:
    """``1,8`` as the numbers of connections. Raises UsageError."""
    parts = [part.strip() for part in text.split(",")]
    counts = tuple(int(part) if re.fullmatch("[0-9]{1,6}", part) else 0 for part in parts)
    if not all(1 <= count <= MOST_CONNECTIONS for count in counts):
        raise UsageError(
            f"--connections takes counts from 1 to {MOST_CONNECTIONS} separated by commas, not '{text}'",
            "for example --connections 1,8,64",
        )
    if len(set(counts)) < len(counts):
        raise UsageError(f"--connections {text} names a count twice", "name each once")
    return counts


def parse_until(text: str | None) -> float | None:
    """``1%`` as 0.01. Raises UsageError."""
    if text is None:
        return None
    found = re.fullmatch(r"([0-9]{1,9}(?:\.[0-9]+)?)%", text)
    if found is None or not 0 < float(found[1]) <= 50:
        raise UsageError(f"--until takes a percentage up to 50%, not '{text}'", "for example --until 1% or --until 2.5%")
    return float(found[1]) / 100


def parse_budget(text: str | None) -> float | None:
    """``10m`` as 600 seconds. Raises UsageError."""
    return None if text is None else parse_time(text)


def parse_time(text: str) -> float:
    """``--budget`` as seconds. Raises UsageError."""
    found = re.fullmatch(r"([0-9]{1,9})([smh])", text)
    seconds = int(found[1]) * _SECONDS[found[2]] if found else 0
    if not 0 < seconds <= MOST_BUDGET_S:
        raise UsageError(
            f"--budget takes a number and a unit, up to {MOST_BUDGET_S // 3600}h, not '{text}'",
            "for example --budget 90s, 10m or 2h",
        )
    return float(seconds)
