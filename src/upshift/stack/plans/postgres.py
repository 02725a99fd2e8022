"""PostgreSQL's EXPLAIN (FORMAT JSON), with ANALYZE and BUFFERS where the statement was executed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from upshift.stack.plans import text
from upshift.stack.plans.members import PlanUnreadable, loaded, number, objects, rest, word, words
from upshift.stack.plans.model import Access, Join, JoinKind, Method, Node, Operation, Sort
from upshift.stack.plans.postgres_index import Catalog, Index, bitmaps_of, by_bitmaps, found_by
from upshift.stack.plans.walks import processes

_OPERATIONS: Mapping[str, Operation] = {
    "Result": "rows",
    "ProjectSet": "rows",
    "ModifyTable": "write",
    "Append": "union",
    "Merge Append": "union",
    "Recursive Union": "union",
    "SetOp": "union",
    "Materialize": "materialize",
    "Memoize": "materialize",
    "Sort": "sort",
    "Incremental Sort": "sort",
    "Group": "aggregate",
    "Aggregate": "aggregate",
    "WindowAgg": "window",
    "Unique": "distinct",
    "Limit": "limit",
}
_SCANS: Mapping[str, Access] = {
    "Seq Scan": "full_scan",
    "Sample Scan": "full_scan",
    "Index Scan": "range",
    "Index Only Scan": "range",
    "Bitmap Heap Scan": "range",
    "Tid Scan": "ref",
    "Tid Range Scan": "range",
    "Subquery Scan": "intermediate",
    "Function Scan": "intermediate",
    "Table Function Scan": "intermediate",
    "Values Scan": "intermediate",
    "CTE Scan": "intermediate",
    "WorkTable Scan": "intermediate",
    "Named Tuplestore Scan": "intermediate",
    "Foreign Scan": "unknown",
}
_METHODS: Mapping[str, Method] = {"Nested Loop": "nested_loop", "Hash Join": "hash", "Merge Join": "merge"}
_KINDS: Mapping[str, JoinKind] = {
    "Inner": "inner",
    "Left": "left",
    "Right": "right",
    "Full": "full",
    "Semi": "semi",
    "Anti": "anti",
    "Right Semi": "semi",
    "Right Anti": "anti",
}
_CONDITIONS = ("Hash Cond", "Merge Cond", "Join Filter", "Filter", "One-Time Filter")
_KNOWN = (
    *_CONDITIONS,
    "Node Type",
    "Plans",
    "Parent Relationship",
    "Parallel Aware",
    "Async Capable",
    "Relation Name",
    "Schema",
    "Alias",
    "Index Name",
    "Startup Cost",
    "Total Cost",
    "Plan Rows",
    "Plan Width",
    "Actual Startup Time",
    "Actual Total Time",
    "Actual Rows",
    "Actual Loops",
    "Rows Removed by Filter",
    "Rows Removed by Index Recheck",
    "Rows Removed by Join Filter",
    "Index Cond",
    "Recheck Cond",
    "Join Type",
    "Sort Key",
    "Heap Fetches",
    "Output",
    "Scan Direction",
    "Group Key",
    "Subplan Name",
    "Inner Unique",
)


def parse_postgres(answer: str | list[Any], catalog: Catalog | None = None) -> Node:
    """The canonical tree. Without a catalog no lookup is known to be unique. Raises PlanUnreadable."""
    whole = objects(loaded(answer))
    plan = whole[0].get("Plan") if whole else None
    if not isinstance(plan, dict):
        raise PlanUnreadable("the server's JSON has no Plan", "the answer of EXPLAIN (FORMAT JSON) is needed")
    try:
        return _step(plan, catalog or Catalog(), 1.0)
    except (AttributeError, TypeError) as error:
        raise PlanUnreadable(
            f"a member of the plan has another type than expected: {error}",
            "Upshift does not know this form of a plan: report it as a defect, with the plan",
        ) from error


def execution_ms(answer: str | list[Any]) -> float | None:
    whole = objects(loaded(answer))
    return number(whole[0].get("Execution Time")) if whole else None


def planning_ms(answer: str | list[Any]) -> float | None:
    """Beside ``execution_ms``, which does not hold it."""
    whole = objects(loaded(answer))
    return number(whole[0].get("Planning Time")) if whole else None


def _step(members: dict[str, Any], catalog: Catalog, shared_by: float) -> Node:
    """``shared_by``: how many processes share the rows of a parallel scan."""
    kind = word(members.get("Node Type")) or ""
    if workers := number(members.get("Workers Planned")):
        shared_by = processes(workers)
    below, beside, bitmaps = [], [], bitmaps_of(members)
    for each in objects(members.get("Plans")):
        if each in bitmaps:
            continue
        if each.get("Parent Relationship") in ("SubPlan", "InitPlan"):
            named = word(each.get("Subplan Name")) or "subquery"
            beside.append(Node(operation="subquery", said=named, children=(_step(each, catalog, shared_by),)))
        else:
            below.append(_step(each, catalog, shared_by))
    known = _figures(members)
    known |= {"said": kind, "filter": _condition(members), "more": _more(members)}
    if kind == "Hash" and len(below) == 1:
        # The table that a hash join looks up: the join tells of it.
        return below[0].model_copy(update={"more": {**below[0].more, **_hash_table(members)}})
    children = (*below, *beside)
    if kind in _SCANS:
        return _scan(kind, members, catalog, children, known, shared_by if members.get("Parallel Aware") is True else 1.0)
    if kind in _METHODS:
        return _joined(kind, members, (*below,), (*beside,), known)
    operation = _OPERATIONS.get(kind, "other")
    if operation == "write":
        name = word(members.get("Relation Name"))
        said = word(members.get("Operation")) or kind
        return Node(operation="write", table=name, alias=name, children=children, **{**known, "said": said.lower()})
    if operation == "rows" and not below:
        known["access"] = "none"
    if operation == "sort":
        known["sort"] = _sort(members, below)
    hashed = members.get("Strategy") in ("Hashed", "Mixed")
    if operation == "materialize" or hashed or kind == "Recursive Union":
        known |= {"temporary": True, "temporary_on_disk": _spilled(members)}
    return Node(operation=operation, children=children, **known)


def _condition(members: dict[str, Any]) -> str | None:
    """All that is checked on its rows, a join's own conditions first."""
    found = [text.plain(each) for name in _CONDITIONS if (each := word(members.get(name)))]
    return found[0] if len(found) == 1 else " and ".join(f"({each})" for each in found) or None


def _more(members: dict[str, Any]) -> dict[str, str]:
    """What has no place of its own; counters that counted nothing are left out."""
    return {name: value for name, value in rest(members, _KNOWN).items() if value != "0"}


def _figures(members: dict[str, Any]) -> dict[str, Any]:
    return {
        "estimated_rows": number(members.get("Plan Rows")),
        "estimated_cost": number(members.get("Total Cost")),
        "actual_rows": number(members.get("Actual Rows")),
        "loops": number(members.get("Actual Loops")),
        "total_ms": number(members.get("Actual Total Time")),
    }


def _scan(
    kind: str,
    members: dict[str, Any],
    catalog: Catalog,
    children: tuple[Node, ...],
    known: dict[str, Any],
    shared_by: float,
) -> Node:
    table = word(members.get("Relation Name"))
    access, index, conditions = _SCANS[kind], word(members.get("Index Name")), word(members.get("Index Cond"))
    bounds: tuple[str, ...] | None = () if access == "full_scan" else None
    columns: tuple[str, ...] = ()
    if kind == "Bitmap Heap Scan":
        access, index, bounds, columns = by_bitmaps(bitmaps_of(members), catalog)
    elif index is not None:
        access, bounds, columns = found_by(conditions, catalog.indexes.get(index, Index()))
    elif table is None and access == "range":
        access = "unknown"
    removed = sum(number(members.get(f"Rows Removed by {each}")) or 0.0 for each in ("Filter", "Index Recheck"))
    rows, estimated = known["actual_rows"], known["estimated_rows"]
    in_table = catalog.table_rows.get(table or "")
    whole = in_table / shared_by if in_table is not None and access in ("full_scan", "index_scan") else None
    read = estimated if known["filter"] is None else whole
    return Node(
        operation="access",
        table=table or word(members.get("CTE Name")) or word(members.get("Function Name")),
        alias=word(members.get("Alias")),
        access=access,
        index=index,
        key_columns=columns,
        bounds=bounds,
        covering=None if index is None else kind == "Index Only Scan",
        estimated_read=read,
        actual_read=rows + removed if rows is not None else None,
        converted=text.converted(word(members.get("Filter")) or ""),
        heap_fetches=number(members.get("Heap Fetches")),
        children=children,
        **known,
    )


def _joined(
    kind: str, members: dict[str, Any], below: tuple[Node, ...], beside: tuple[Node, ...], known: dict[str, Any]
) -> Node:
    method = _METHODS[kind]
    if method == "hash" and len(below) == 2:
        # PostgreSQL prints the side that probes first; the hashed side is read before it.
        hashed = below[1]
        batches = number(hashed.more.get("Hash Batches"))
        known |= {"temporary_on_disk": batches > 1 if batches is not None else None}
        below = (hashed, below[0])
    join = Join(kind=_KINDS.get(word(members.get("Join Type")) or "", "inner"), method=method)
    return Node(operation="join", join=join, children=(*below, *beside), **known)


def _hash_table(members: dict[str, Any]) -> dict[str, str]:
    return {
        name: str(value) for name, value in members.items() if name in ("Hash Batches", "Hash Buckets", "Peak Memory Usage")
    }


def _sort(members: dict[str, Any], below: list[Node]) -> Sort:
    child = below[0] if below else None
    rows = None if child is None else (child.actual_rows if child.loops else child.estimated_rows)
    spaces = [kind for each in _by_process(members) if (kind := word(each.get("Sort Space Type")))]
    # An incremental sort has spaces of its groups.
    for group in objects(members.get("Full-sort Groups")) + objects(members.get("Pre-sorted Groups")):
        spaces += [space for space in ("Memory", "Disk") if f"Sort Space {space}" in group]
    return Sort(
        keys=tuple(text.plain(each) for each in words(members.get("Sort Key"))),
        rows=rows,
        on_disk="Disk" in spaces if spaces else None,
    )


def _by_process(members: dict[str, Any]) -> list[dict[str, Any]]:
    """A step's figures of the leader, and those of each worker beside it."""
    return [members, *objects(members.get("Workers"))]


def _spilled(members: dict[str, Any]) -> bool | None:
    told = [(number(each.get("Disk Usage")), number(each.get("HashAgg Batches"))) for each in _by_process(members)]
    if all(usage is None and batches is None for usage, batches in told):
        return None
    return any((usage or 0) > 0 or (batches or 0) > 1 for usage, batches in told)
