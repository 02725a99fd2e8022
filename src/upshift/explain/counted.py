"""What is executed for a query before and after, by source function: exact, where samples are not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from upshift.explain.model import FunctionWork, Home, Inlined, Place
from upshift.explain.names import source_name
from upshift.explain.symbols import Groups
from upshift.instructions.model import Count

_FEWEST = 0.001
"""The share of all instructions of a query, on either server, for a row of its own."""
_OTHER: Mapping[Home, str] = {"server": "other functions of the server", "library": "other functions of libraries"}


class Work(NamedTuple):
    """Of a query."""

    instructions: float
    calls: float


Works = Mapping[Place, Work]


def works(counts: tuple[Count, Count] | None, servers: Sequence[Path], groups: Groups) -> tuple[Works, Works]:
    """Both servers' work; nothing where functions were not counted on both."""
    if counts is None or not all(count.functions for count in counts):
        return {}, {}
    before, after = (_by_place(count, server.name, groups) for count, server in zip(counts, servers, strict=True))
    return before, after


def with_calls(found: Sequence[Inlined], both: tuple[Works, Works]) -> tuple[Inlined, ...]:
    """Calls that are gone from the code, with how often a query calls the callee; unchanged where that was not counted."""
    if not all(both):
        return tuple(found)
    nothing = Work(0, 0)

    def calls(each: Inlined, work: Works) -> float:
        return work.get(Place("server", each.callee), nothing).calls

    return tuple(
        each.model_copy(update={"calls_per_query_before": calls(each, both[0]), "calls_per_query_after": calls(each, both[1])})
        for each in found
    )


def _by_place(count: Count, server: str, groups: Groups) -> Works:
    """One server's work. ``server`` is the file name of its program: all others are libraries."""
    found: dict[Place, Work] = {}
    for each in count.functions:
        place = Place("library", f"{each.symbol} ({each.program})")
        if each.program == server:
            place = Place("server", groups.of(source_name(each.symbol)))
        known = found.get(place, Work(0, 0))
        # A part that was split off as cold is jumped to: it has no calls of its own.
        found[place] = Work(known.instructions + each.instructions, known.calls + each.calls)
    return found


def rows(both: tuple[Works, Works], shown: Mapping[str, str]) -> tuple[FunctionWork, ...]:
    """The largest differences first, then what is too small for a row; they add up to all instructions.

    ``shown`` has names for people.
    """
    before, after = both
    least = _FEWEST * max(sum(work.instructions for work in each.values()) for each in both)
    nothing = Work(0, 0)
    own: list[FunctionWork] = []
    rest: dict[Home, list[tuple[Work, Work]]] = {}
    for place in sorted({*before, *after}):
        works = before.get(place, nothing), after.get(place, nothing)
        if max(work.instructions for work in works) >= least:
            own.append(_row(place, [works], shown, rest=False))
        else:
            rest.setdefault(place.home, []).append(works)
    own.sort(key=lambda row: (-abs(row.instructions_after - row.instructions_before), row.name))
    return (*own, *(_row(Place(home, _OTHER[home]), several, {}, rest=True) for home, several in sorted(rest.items())))


def _row(place: Place, works: list[tuple[Work, Work]], shown: Mapping[str, str], *, rest: bool) -> FunctionWork:
    before, after = ([pair[side] for pair in works] for side in (0, 1))
    return FunctionWork(
        name=shown.get(place.name, place.name),
        home=place.home,
        functions=len(works),
        rest=rest,
        instructions_before=sum(work.instructions for work in before),
        instructions_after=sum(work.instructions for work in after),
        calls_before=sum(work.calls for work in before),
        calls_after=sum(work.calls for work in after),
    )
