"""The ranges that MariaDB's optimizer chose: its trace has them, its plan does not."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from upshift.stack.plans import text
from upshift.stack.plans.members import loaded, word, words

Ranges = Mapping[tuple[str, str], tuple[str, ...]]
"""By a table's name in the statement and an index: the bounds of its ranges."""


def chosen_ranges(trace: str) -> Ranges:
    """The ranges of each table and index; what cannot be read is left out. Raises PlanUnreadable for what is no trace."""
    # Bytes of texts stand in it as \\0, which is no escape of JSON.
    objects = list(_objects(loaded(re.sub(r"\\(.)", _escaped, trace)), ""))
    columns = {str(each.get("index")): words(each.get("key_parts")) for _table, each in objects if "key_parts" in each}
    found: dict[tuple[str, str], tuple[str, ...]] = {}
    for table, each in objects:
        plan = each.get("range_access_plan")
        index = word(plan.get("index")) if isinstance(plan, dict) else None
        if isinstance(plan, dict) and index and (ranges := words(plan.get("ranges"))):
            found[table, index] = text.ranges([range_as_mysql_writes_it(one, columns.get(index, ())) for one in ranges])
    return found


def _objects(value: Any, table: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every object of a trace with the table that it is about."""
    waiting = [(value, table)]
    while waiting:
        each, of = waiting.pop()
        if isinstance(each, list):
            waiting.extend((inner, of) for inner in each)
        elif isinstance(each, dict):
            of = word(each.get("table")) or of
            yield of, each
            waiting.extend((inner, of) for inner in each.values())


def _escaped(found: re.Match[str]) -> str:
    return found[0] if found[1] in '"\\/bfnrtu' else ""


def range_as_mysql_writes_it(written: str, columns: Sequence[str]) -> str:
    """``(42,1000) <= (customer_id,created) < (42,9000)`` as the bounds of its columns, which are some of an index's."""
    pieces = re.split(r"(?<=\)) (<=?) (?=\()", written)
    sides = [[cell.strip() for cell in text.unwrapped(side).split(",")] for side in pieces[::2]]
    at = next((at for at, cells in enumerate(sides) if cells == list(columns[: len(cells)])), None)
    # A text may have commas: it stands there without quotes.
    if at is None or len(sides) > 3 or any(len(side) > len(sides[at]) for side in sides):
        return written
    low, high = (sides[0] if at else []), (sides[-1] if at < len(sides) - 1 else [])
    texts: list[str] = []
    for place, column in enumerate(sides[at]):
        lower, upper = (each[place] if place < len(each) else None for each in (low, high))
        if lower is not None and lower == upper:
            texts.append(f"{column} = {lower}")
        elif lower not in (None, "NULL") and upper is not None:
            texts.append(f"{lower} {pieces[1]} {column} {pieces[-2]} {upper}")
        elif upper is not None:
            texts.append(f"{column} {pieces[-2]} {upper}")
        elif lower not in (None, "NULL"):
            texts.append(f"{column} {'>=' if pieces[1] == '<=' else '>'} {lower}")
    return " AND ".join(texts)
