"""Members of a server's JSON: read by name, whatever their type; what nobody asked for is kept as text."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from typing import Any

from upshift.errors import UpshiftError

DEEPEST = 150
"""Steps below each other that are read. A join of 61 tables, MySQL's most, has 61 of joins alone; pydantic writes no
models deeper than 255."""
_LEVELS_A_STEP = 2
"""Of JSON: the step, and the list that it stands in."""


class PlanUnreadable(UpshiftError):
    """A server's answer to EXPLAIN that has not the form of one."""


def too_deep() -> PlanUnreadable:
    return PlanUnreadable(f"the plan has more than {DEEPEST} steps below each other", "divide the statement")


def loaded(text: str | list[Any] | dict[str, Any]) -> Any:
    """JSON, parsed already or not. Raises PlanUnreadable."""
    try:
        value = json.loads(text) if isinstance(text, str) else text
    except (ValueError, RecursionError) as error:
        raise PlanUnreadable(f"the server's plan is no JSON: {error}", "the whole answer of EXPLAIN is needed") from error
    if _depth(value) > DEEPEST * _LEVELS_A_STEP:
        raise too_deep()
    return value


def number(value: Any) -> float | None:
    """A number, also from MySQL's texts ("3.50"); None for all else."""
    if isinstance(value, bool) or value is None:
        return None
    try:
        found = float(value)
    except (TypeError, ValueError):
        return None
    return found if math.isfinite(found) else None


def word(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def words(value: Any) -> tuple[str, ...]:
    return tuple(map(str, value)) if isinstance(value, list) else ()


def objects(value: Any) -> list[dict[str, Any]]:
    """The objects of a list, or the one object as a list."""
    if isinstance(value, dict):
        return [value]
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def rest(members: Mapping[str, Any], known: Iterable[str]) -> dict[str, str]:
    """What is not known, as text."""
    skipped = frozenset(known)
    return {
        str(name): value if isinstance(value, str) else json.dumps(value, default=str)
        for name, value in members.items()
        if name not in skipped
    }


def _depth(value: Any) -> int:
    """Levels of lists and objects, without recursion."""
    deepest, waiting = 0, [(value, 1)]
    while waiting:
        each, level = waiting.pop()
        if isinstance(each, dict | list):
            deepest = max(deepest, level)
            waiting.extend((inner, level + 1) for inner in (each.values() if isinstance(each, dict) else each))
    return deepest
