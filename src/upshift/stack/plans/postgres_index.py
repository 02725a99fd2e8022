"""How PostgreSQL's plan finds rows by an index, or by bitmaps of several."""

from __future__ import annotations

import re
from typing import Any

from pydantic import Field

from upshift.stack.plans import text
from upshift.stack.plans.members import objects, word
from upshift.stack.plans.model import Access
from upshift.values import Value

_OF_ANOTHER_TABLE = re.compile(r"[A-Za-z_]\w*\.[A-Za-z_]|\$\d")


class Index(Value):
    """An index as the catalog has it: the plan names an index, and neither its columns nor whether it is unique."""

    columns: tuple[str, ...] = ()
    unique: bool = False


class Catalog(Value):
    """What a plan of PostgreSQL leaves out."""

    indexes: dict[str, Index] = Field(default_factory=dict)
    table_rows: dict[str, float] = Field(default_factory=dict)


def found_by(conditions: str | None, index: Index) -> tuple[Access, tuple[str, ...], tuple[str, ...]]:
    """How the conditions of an index find rows: the access, its bounds and the columns that they are about."""
    if conditions is None:
        return "index_scan", (), ()
    bounds = text.bounds(conditions)
    each = [text.bound(part) for part in bounds]
    used = {single.column for single in each if single}
    columns = tuple(column for column in index.columns if column in used) or text.columns(bounds)
    if all(single and single.operator == "is not null" for single in each):
        return "index_scan", bounds, ()
    if any(single is None or single.operator not in text.EQUAL for single in each):
        words_of_text = " @@ " in conditions
        return ("fulltext" if words_of_text else "range"), bounds, columns
    if not index.unique or set(index.columns) - used or any(single and single.operator != "=" for single in each):
        return "ref", bounds, columns
    values = [part.partition(" = ")[2] for part in text.parts(text.plain(conditions))]
    from_elsewhere = any(
        _OF_ANOTHER_TABLE.search(text.outside_strings(value, r".*'.*", "")) for value in values if value[:1] != "'"
    )
    return ("unique" if from_elsewhere else "const"), bounds, columns


def bitmaps_of(members: dict[str, Any]) -> list[dict[str, Any]]:
    """The plans of a node that make bitmaps; they are a part of how it finds its rows."""
    kinds = ("Bitmap Index Scan", "BitmapAnd", "BitmapOr")
    return [each for each in objects(members.get("Plans")) if each.get("Node Type") in kinds]


def by_bitmaps(
    plans: list[dict[str, Any]], catalog: Catalog
) -> tuple[Access, str | None, tuple[str, ...] | None, tuple[str, ...]]:
    """One index's bitmap finds rows as the index does; several together are a merge."""
    if len(plans) != 1:
        return "unknown", None, None, ()
    plan = plans[0]
    if plan.get("Node Type") == "Bitmap Index Scan":
        index = word(plan.get("Index Name")) or ""
        access, bounds, columns = found_by(word(plan.get("Index Cond")), catalog.indexes.get(index, Index()))
        return access, index, bounds, columns
    inner = [by_bitmaps([each], catalog) for each in objects(plan.get("Plans"))]
    either = plan.get("Node Type") == "BitmapOr"
    names = ", ".join(each[1] or "" for each in inner)
    found = (" or " if either else " and ").join(" and ".join(each[2] or ()) for each in inner)
    return "index_merge", f"{'union' if either else 'intersect'}({names})", (found,), ()
