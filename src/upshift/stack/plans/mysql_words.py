"""What MySQL's iterator executor says of a step, as a node: the words of FORMAT=TREE, which FORMAT=JSON version 2 repeats.

The words are those of ``sql/join_optimizer/explain_access_path.cc`` of MySQL 9.7.4.
"""

from __future__ import annotations

import re
from typing import Any

from upshift.stack.plans import text
from upshift.stack.plans.model import Access, Join, JoinKind, Method, Node, Operation, Sort

_INDEX = re.compile(
    r"(?P<prefix>Single-row |Multi-range |Full-text )?(?P<covering>[Cc]overing )?[Ii]ndex "
    r"(?P<how>lookup|scan|range scan|skip scan|distance scan|search)(?: \(Multi-Range Read\))?(?: for [a-z ]+)? "
    r"on (?P<alias>\S+) using (?P<index>\S+)(?P<rest>.*)",
    re.S,
)
_TABLE = re.compile(r"(?:Table|Sample) scan on (?P<alias><[^>]+>|\S+)")
_CONDITION = ", with index condition: "
_HASH = re.compile(r"(?P<kind>Inner|Left|Right|Full|Semi|Anti)?\s*hash (?P<what>join|semijoin|antijoin)", re.I)
_LOOP = re.compile(r"(?:Nested loop|Batched key access)\s+(?P<kind>inner|left|right)?\s*(?P<what>join|semijoin|antijoin)", re.I)
_SORT = re.compile(
    r"Sort(?: row IDs)?(?: with duplicate removal)?: (?P<keys>.*?)"
    r"(?:, limit input to (?P<limit>\d+) row\(s\) per chunk)?$",
    re.S,
)
COUNTS = "Count rows in "
_LIMIT = re.compile(r"(?:Limit|Limit/Offset): (\d+)")
_WRITE = re.compile(r"(?:Insert into|Replace into|Update|Delete from) (\S+)")
_HEADING = re.compile(
    r"Select #\d+ \(|Hash$|Batch input rows$|Clustered primary key \(scanned separately\)"
    r"|Repeat until convergence$|Disable deduplication|Limit table size: "
)

_STARTS: tuple[tuple[str, Operation, bool], ...] = (
    ("Aggregate using temporary table", "aggregate", True),
    ("Aggregate", "aggregate", False),
    ("Group", "aggregate", False),
    ("Window", "window", False),
    ("Union materialize", "union", True),
    ("Intersect materialize", "union", True),
    ("Except materialize", "union", True),
    ("Materialize", "materialize", True),
    ("Temporary table", "materialize", True),
    ("Append", "union", False),
    ("Remove duplicate", "distinct", False),
    ("Stream results", "rows", False),
    ("Invalidate materialized tables", "rows", False),
)


def is_heading(said: str) -> bool:
    """Whether a line of a tree names what follows and is no step itself."""
    return _HEADING.match(said) is not None


def node(said: str, children: tuple[Node, ...], **known: Any) -> Node:
    """A step from the server's words. ``known`` are members that the caller has figures for; children are complete already."""
    for read in (_index, _table, _replanned, _counted, _merged, _joined, _filtered, _sorted, _written):
        if (made := read(said, children, known)) is not None:
            return made
    if limit := _LIMIT.match(said):
        return Node(operation="limit", said=said, limit=int(limit[1]), children=children, **known)
    if said.startswith(("Rows fetched before execution", "Zero rows", "Zero input rows")):
        return Node(operation="rows", said=said, access="none", children=children, **known)
    for start, operation, temporary in _STARTS:
        if said.startswith(start):
            kept = temporary or "using temporary table" in said or "with buffering" in said
            return Node(operation=operation, said=said, temporary=kept, children=children, **known)
    return Node(operation="other", said=said, children=children, **known)


def subquery(said: str, children: tuple[Node, ...]) -> Node:
    return Node(operation="subquery", said=said, children=children)


def _access(said: str, access: Access, known: dict[str, Any], **fields: Any) -> Node:
    name = fields.pop("alias", None)
    given = {
        "table": name,
        "alias": name,
        "estimated_read": known.get("estimated_rows"),
        "actual_read": known.get("actual_rows"),
    }
    return Node(**{"operation": "access", "said": said, "access": access, **given, **fields, **known})


def _index(said: str, children: tuple[Node, ...], known: dict[str, Any]) -> Node | None:
    found = _INDEX.match(said)
    if found is None:
        return None
    how, rest, found_bounds = found["how"], found["rest"], None
    rest, _, condition = rest.partition(_CONDITION)
    if rest.startswith(" (") and not rest.startswith(" (reverse)"):
        lookup, rest = text.leading_parenthesis(rest[1:])
        found_bounds = tuple(each for part in re.split(r", (?=[\w$`]+ ?=)", lookup) for each in text.bounds(part))
    elif rest.startswith(" over "):
        found_bounds = text.ranges([rest.removeprefix(" over ").removesuffix(" (reverse)")])
    elif how == "scan":
        found_bounds = ()
    access: Access = {"scan": "index_scan", "lookup": "ref", "search": "fulltext"}.get(how, "range")  # type: ignore[assignment]
    if access == "range" and text.all_equal(found_bounds or ()):
        access = "ref"
    if found["prefix"] == "Single-row ":
        access = "unique"
    if found["alias"].startswith("<") or found["index"].startswith("<auto"):
        access = "intermediate"
    return _access(
        said,
        access,
        known,
        alias=found["alias"],
        index=found["index"],
        bounds=found_bounds,
        key_columns=text.columns(found_bounds or ()),
        covering=found["covering"] is not None,
        index_filter=text.plain(condition) if condition else None,
        children=children,
    )


def _table(said: str, children: tuple[Node, ...], known: dict[str, Any]) -> Node | None:
    found = _TABLE.match(said)
    if found is None:
        return None
    # What is scanned with steps below it was made by them.
    made = bool(children) or found["alias"].startswith("<")
    return _access(
        said,
        "intermediate" if made else "full_scan",
        known,
        alias=found["alias"],
        bounds=() if not made else None,
        children=children,
    )


def _replanned(said: str, children: tuple[Node, ...], known: dict[str, Any]) -> Node | None:
    found = re.match(r"Index range scan on (\S+) \(re-planned for each iteration\)", said)
    if found is None:
        return None
    condition = said.partition(_CONDITION)[2]
    return _access(
        said, "range", known, alias=found[1], index_filter=text.plain(condition) if condition else None, children=children
    )


def _counted(said: str, children: tuple[Node, ...], known: dict[str, Any]) -> Node | None:
    if found := re.match(r"Constant row from (\S+)", said):
        return _access(said, "const", known, alias=found[1], children=children)
    if found := re.match(r"Scan new records on (\S+)", said):
        return _access(said, "intermediate", known, alias=found[1], children=children)
    if found := re.match(rf"{COUNTS}(\S+)", said):
        # Its one row is the result: how many rows the engine read for it is not told.
        told = {name: value for name, value in known.items() if name not in ("estimated_rows", "actual_rows")}
        return _access(said, "index_scan", told, alias=found[1], bounds=(), children=children)
    return None


def _merged(said: str, children: tuple[Node, ...], known: dict[str, Any]) -> Node | None:
    """Several indexes of one table: one access, which has what its parts found."""
    how = {"Sort-deduplicate by row ID": "union", "Deduplicate rows": "union", "Intersect rows": "intersect"}
    word = next((word for start, word in how.items() if said.startswith(start)), None)
    if word is None or not children:
        return None
    indexes = ", ".join(child.index or "" for child in children)
    found = [" and ".join(child.bounds or ()) for child in children]
    merged = Node(
        operation="access",
        said=said,
        access="index_merge",
        table=children[0].table,
        alias=children[0].alias,
        index=f"{word}({indexes})",
        bounds=((" or " if word == "union" else " and ").join(found),) if all(found) else None,
        covering=all(child.covering for child in children),
    )
    return merged.model_copy(
        update={**known, "estimated_read": known.get("estimated_rows"), "actual_read": known.get("actual_rows")}
    )


def _joined(said: str, children: tuple[Node, ...], known: dict[str, Any]) -> Node | None:
    method: Method = "hash"
    found = _HASH.match(said)
    if found is None:
        method, found = ("buffered" if said.startswith("Batched") else "nested_loop"), _LOOP.match(said)
    if found is None:
        return None
    kinds: dict[str, JoinKind] = {"semijoin": "semi", "antijoin": "anti"}
    kind: JoinKind = kinds.get(found["what"].lower()) or (found["kind"] or "inner").lower()  # type: ignore[assignment]
    # MySQL prints the side that probes first, and below it the one that was read first into the hash table.
    order = (*reversed(children[:2]), *children[2:]) if method == "hash" else children
    return Node(operation="join", said=said, join=Join(kind=kind, method=method), children=order, **known)


def _filtered(said: str, children: tuple[Node, ...], known: dict[str, Any]) -> Node | None:
    """A filter above an access belongs to it: its rows are what the access leaves."""
    if not said.startswith("Filter: "):
        return None
    condition = text.plain(said.removeprefix("Filter: "))
    if children and children[0].operation == "access":
        first, others = children[0], children[1:]
        condition = f"({first.filter}) and ({condition})" if first.filter else condition
        left = {name: known[name] for name in ("estimated_rows", "actual_rows", "total_ms") if known.get(name) is not None}
        return first.model_copy(update={"filter": condition, **left, "children": (*first.children, *others)})
    return Node(operation="filter", said=said, filter=condition, children=children, **known)


def _sorted(said: str, children: tuple[Node, ...], known: dict[str, Any]) -> Node | None:
    found = _SORT.match(said)
    if found is None:
        return None
    child = children[0] if children else None
    read = None if child is None else (child.actual_rows if child.loops else child.estimated_rows)
    keys = tuple(part.strip() for part in found["keys"].split(", "))
    sort = Sort(keys=keys, rows=read, limit=int(found["limit"]) if found["limit"] else None)
    return Node(operation="sort", said=said, sort=sort, children=children, **known)


def _written(said: str, children: tuple[Node, ...], known: dict[str, Any]) -> Node | None:
    found = _WRITE.match(said)
    if found is None:
        return None
    return Node(operation="write", said=said, table=found[1], alias=found[1], children=children, **known)
