"""Functions that were asked for by name: their time, their source lines and their callers, also where they were inlined."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from upshift.explain import intervals
from upshift.explain.inline_frames import Line
from upshift.explain.intervals import Counts, Noise
from upshift.explain.model import Focus, FocusCaller, FocusLine, FocusSide
from upshift.explain.names import plain_name, source_name
from upshift.explain.script import Frame, Stack
from upshift.explain.symbols import Groups, SymbolTable
from upshift.measure.statistics import LEVEL

# An operator has another name in linkage names, and what has no name in the source has none there.
_NOT_LINKED = re.compile(r"\boperator\b.*|\{.*?\}|'.*?'")
_MOST = 12
"""Lines and callers that are kept of each function."""


class At(NamedTuple):
    """A function on a stack, where debug information tells it as the source has it."""

    name: str
    inlined: bool
    line: str
    """FILE:LINE that runs, or that the next inner function was called from; empty where nothing tells."""
    group: str = ""
    """The linkage name that stands for all functions with its code; empty outside the server."""


T = TypeVar("T", str, At)


@dataclass
class _Seen:
    """What was sampled of one function in one server."""

    total: int = 0
    own: int = 0
    inlined: int = 0
    lines: Counter[str] = field(default_factory=Counter)
    callers: Counter[At] = field(default_factory=Counter)


def expanded(stack: Stack, shown: Mapping[str, str], lines: Mapping[int, tuple[Line, ...]], groups: Groups) -> list[At]:
    """A stack's functions, the innermost first, those that were inlined among them."""
    return [each for frame in stack for each in _expanded(frame, shown, lines, groups)]


def focus(
    names: Iterable[str],
    stacks: tuple[Mapping[Stack, int], Mapping[Stack, int]],
    us_a_sample: tuple[float, float],
    tables: tuple[SymbolTable, SymbolTable],
    shown: Mapping[str, str],
    lines: tuple[Mapping[int, tuple[Line, ...]], Mapping[int, tuple[Line, ...]]],
    common: Noise,
    groups: Groups,
    callers_known: tuple[bool, bool] = (True, True),
    inlined_known: tuple[bool, bool] = (True, True),
) -> tuple[Focus, ...]:
    """Each function in both servers. A name stands for all functions whose name ends in it: ``find`` for ``BTree::find``, and
    for those that share their code in one of the servers, where nobody can tell them apart.

    ``common`` is what moves the counts of all rows of these servers. ``inlined_known``: whether ``lines`` tell of (nearly) all
    samples of a server which functions were inlined there.
    """
    stacks_of = [
        [(expanded(stack if whole else _innermost(stack), shown, known, groups), count) for stack, count in own.items()]
        for own, known, whole in zip(stacks, lines, callers_known, strict=True)
    ]
    found = []
    for name in names:
        meant = _meant(name, tables, shown, groups)
        sides = [
            _side(
                _seen(name, meant, own),
                us,
                own_function=has_function(table, name, shown),
                callers_known=whole,
                inlined_known=inlined,
            )
            for own, us, table, whole, inlined in zip(stacks_of, us_a_sample, tables, callers_known, inlined_known, strict=True)
        ]
        same = _same_code(name, meant, shown, groups)
        one = Focus(
            name=name, before=sides[0], after=sides[1], same_code=same[:_MOST], same_code_more=max(0, len(same) - _MOST)
        )
        found.append(_compared(one, us_a_sample[0] / us_a_sample[1], common))
    return tuple(found)


def _meant(name: str, tables: Iterable[SymbolTable], shown: Mapping[str, str], groups: Groups) -> set[str]:
    """The groups of the functions that a name means."""
    symbols = {symbol for table in tables for symbol in symbols_like(table, (name,))}
    return {groups.of(symbol) for symbol in symbols if is_named(shown.get(symbol, symbol), name)}


def _same_code(name: str, meant: Iterable[str], shown: Mapping[str, str], groups: Groups) -> tuple[str, ...]:
    """Names of the others in these groups."""
    members = {shown.get(member, member) for group in meant for member in groups.members(group)}
    return tuple(sorted(each for each in members if not is_named(each, name)))


def _compared(each: Focus, exposure: float, common: Noise) -> Focus:
    """With its ratio and interval, where both servers tell callers, or both do not, and both tell inlined copies.

    A function that was only inlined would seem to take nothing any more.
    """
    counts = Counts(each.before.samples, each.after.samples)
    inlined_known = each.before.inlined_known and each.after.inlined_known
    if each.before.callers_known != each.after.callers_known or not inlined_known or not sum(counts):
        return each
    found = intervals.ratio(counts, exposure, 1 - LEVEL, common)
    update = {
        "ratio": found.value if counts.before else None,
        "ci_low": found.low,
        "ci_high": found.high if math.isfinite(found.high) else None,
    }
    return each.model_copy(update=update)


def symbols_like(table: SymbolTable, names: Iterable[str]) -> set[str]:
    """Source names of a server's functions that may be one of these: linkage names hold the last part of the source's name."""
    last = tuple(_last_word(name) for name in names)
    return {source_name(symbol) for part in table.parts for symbol in part.symbols if any(each in symbol for each in last)}


def _last_word(name: str) -> str:
    """What linkage names have of a name: ``THD`` of ``THD::~THD``; empty, which all have, of an operator that is no method, and
    of those of the standard library.
    """
    plain = plain_name(name)
    words = re.findall(r"\w+", _NOT_LINKED.sub("", plain))
    # Linkage names have abbreviations of std and of some of its classes: _ZNSolsEi is std::ostream::operator<<.
    abbreviated = plain.startswith("std::") and _NOT_LINKED.search(plain)
    return words[-1] if words and not abbreviated else ""


def has_function(table: SymbolTable, name: str, shown: Mapping[str, str]) -> bool:
    """Whether a server has a function of its own by this name."""
    return any(is_named(shown.get(symbol, symbol), name) for symbol in symbols_like(table, (name,)))


def is_named(shown: str, name: str) -> bool:
    """Whether a function is meant by a name. Nothing but brackets means none, nor is a frame without a name meant."""
    meant = plain_name(name)
    return bool(meant) and f"::{plain_name(shown)}".endswith(f"::{meant}")


def _innermost(stack: Stack) -> Stack:
    """A stack up to its first frame in the server: without frame pointers what follows is not to be believed."""
    own = next((number for number, frame in enumerate(stack) if not frame.home), len(stack))
    return stack[: own + 1]


def _expanded(frame: Frame, shown: Mapping[str, str], lines: Mapping[int, tuple[Line, ...]], groups: Groups) -> list[At]:
    if frame.home:
        return [At("", False, "")]
    known = lines.get(frame.address, ())

    def at(symbol: str, line: str, *, inlined: bool) -> At:
        return At(_named(symbol, shown), inlined, line, groups.of(source_name(symbol)))

    outer = at(frame.symbol, _line(known[-1]) if known else "", inlined=False)
    return [*(at(each.function, _line(each), inlined=True) for each in known[:-1]), outer]


def _named(symbol: str, shown: Mapping[str, str]) -> str:
    return shown.get(source_name(symbol), symbol)


def _line(each: Line) -> str:
    return f"{each.file}:{each.line}" if each.file and each.line else ""


def _seen(name: str, meant: Collection[str], stacks: Iterable[tuple[list[At], int]]) -> _Seen:
    """The innermost of a recursion counts. ``meant`` are the groups of the functions of this name."""

    def it(each: At) -> bool:
        return each.group in meant or is_named(each.name, name)

    seen = _Seen()
    for stack, count in stacks:
        at = next((number for number, each in enumerate(stack) if it(each)), None)
        if at is None:
            continue
        seen.total += count
        seen.own += count if at == 0 else 0
        seen.inlined += count if stack[at].inlined else 0
        seen.lines[stack[at].line] += count
        caller = next((each for each in stack[at + 1 :] if each.name and not it(each)), None)
        if caller:
            seen.callers[caller._replace(inlined=stack[at].inlined, group="")] += count
    return seen


def _side(seen: _Seen, us: float, *, own_function: bool, callers_known: bool, inlined_known: bool) -> FocusSide:
    return FocusSide(
        own_function=own_function,
        callers_known=callers_known,
        inlined_known=inlined_known,
        samples=seen.total,
        us=seen.total * us,
        own_us=seen.own * us,
        inlined_us=seen.inlined * us,
        lines=tuple(FocusLine(line=line, us=count * us) for line, count in _most(seen.lines) if line),
        callers=tuple(
            FocusCaller(name=each.name, line=each.line, inlined=each.inlined, us=count * us)
            for each, count in _most(seen.callers)
        ),
    )


def _most(counts: Counter[T]) -> list[tuple[T, int]]:
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:_MOST]
