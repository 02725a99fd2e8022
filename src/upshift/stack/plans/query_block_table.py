"""The object ``table`` of a ``query_block``: one access to a table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from upshift.stack.plans import text
from upshift.stack.plans.mariadb_trace import Ranges
from upshift.stack.plans.members import number, objects, rest, word, words
from upshift.stack.plans.model import Access, Node

_ACCESS: Mapping[str, Access] = {
    "system": "const",
    "const": "const",
    "eq_ref": "unique",
    "unique_subquery": "unique",
    "ref": "ref",
    "ref_or_null": "ref",
    "index_subquery": "ref",
    "range": "range",
    "index_merge": "index_merge",
    "index": "index_scan",
    "ALL": "full_scan",
    "hash_ALL": "full_scan",
    "hash_index": "index_scan",
    "hash_range": "range",
    "fulltext": "fulltext",
}
WRITES = ("insert", "replace", "update", "delete")
SUBQUERIES = (
    "select_list_subqueries",
    "attached_subqueries",
    "having_subqueries",
    "group_by_subqueries",
    "order_by_subqueries",
    "insert_values_subqueries",
    "insert_update_subqueries",
    "update_value_subqueries",
    "optimized_away_subqueries",
    "subqueries",
)
MATERIALIZED = ("materialized_from_subquery", "materialized")
_COVERS = ("using_index", "using_index_for_group_by")
_TABLE_KNOWN = (
    *_COVERS,
    *WRITES,
    *SUBQUERIES,
    *MATERIALIZED,
    "table_name",
    "access_type",
    "possible_keys",
    "key",
    "key_length",
    "used_key_parts",
    "ref",
    "rows",
    "rows_examined_per_scan",
    "rows_produced_per_join",
    "filtered",
    "r_rows",
    "r_filtered",
    "r_loops",
    "r_table_time_ms",
    "r_other_time_ms",
    "r_total_time_ms",
    "cost_info",
    "cost",
    "used_columns",
    "attached_condition",
    "index_condition",
    "using_join_buffer",
    "index_merge",
    "r_engine_stats",
)


def access_of(name: str, members: dict[str, Any], ranges: Ranges) -> Node:
    """The access to a table; ``ranges`` are those that the members do not tell."""
    said = word(members.get("access_type")) or ""
    index = word(members.get("key")) or _merged(members.get("index_merge"))
    intermediate = name.startswith("<") or any(key in members for key in MATERIALIZED)
    access: Access = "intermediate" if intermediate else _ACCESS.get(said, "unknown")
    if "range_checked_for_each_record" in members:
        access = "range"
    filtered, r_filtered = number(members.get("filtered")), number(members.get("r_filtered"))
    read = number(members.get("rows_examined_per_scan", members.get("rows")))
    loops, r_rows = number(members.get("r_loops")), number(members.get("r_rows"))
    times = [number(members.get(key)) for key in ("r_table_time_ms", "r_other_time_ms")]
    spent = sum(each for each in times if each is not None)
    condition, index_condition = word(members.get("attached_condition")), word(members.get("index_condition"))
    found = access not in ("index_scan", "full_scan")
    bounds = _bounds(access, members, ranges.get((name, index or "")))
    if access == "range" and bounds is not None and text.all_equal(bounds):
        access = "ref"
    cost = members.get("cost_info")
    return Node(
        operation="access",
        said=said,
        table=name,
        alias=name,
        access=access,
        index=index.replace(", ", ",").replace(",", ", ") if index else None,
        key_columns=words(members.get("used_key_parts")) if found else (),
        bounds=bounds,
        covering=None if index is None else any(members.get(name) is True for name in _COVERS),
        index_filter=text.plain(index_condition) if index_condition else None,
        filter=text.plain(condition) if condition else None,
        estimated_read=read,
        estimated_rows=read * filtered / 100 if read is not None and filtered is not None else read,
        estimated_cost=number(cost.get("prefix_cost")) if isinstance(cost, dict) else number(members.get("cost")),
        actual_read=r_rows,
        actual_rows=r_rows * r_filtered / 100 if r_rows is not None and r_filtered is not None else r_rows,
        loops=loops,
        total_ms=spent / loops if loops else None,
        more={**rest(members, _TABLE_KNOWN), **_buffer(members)},
    )


def _buffer(members: dict[str, Any]) -> dict[str, str]:
    using = word(members.get("using_join_buffer"))
    return {"join_type": using} if using else {}


def _bounds(access: Access, members: dict[str, Any], chosen: tuple[str, ...] | None) -> tuple[str, ...] | None:
    if access in ("index_scan", "full_scan"):
        return ()
    if chosen is not None:
        return chosen
    references = words(members.get("ref"))
    # MySQL calls it a range when UPDATE and DELETE look one value up.
    if access not in ("const", "unique", "ref", "range") or not references:
        return None
    columns = words(members.get("used_key_parts"))
    return tuple(f"{column} = {'.'.join(value.split('.')[-2:])}" for column, value in zip(columns, references, strict=False))


def _merged(members: Any) -> str | None:
    """``union(a, b)`` from MariaDB's nested ranges."""
    if not isinstance(members, dict):
        return None
    for how, each in members.items():
        if how == "range" and isinstance(each, dict):
            return str(each.get("key", ""))
        inner = [found for found in map(_merged, objects(each)) if found]
        if inner:
            return f"{how.removeprefix('sort_')}({', '.join(inner)})"
    return None
