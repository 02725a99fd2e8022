"""MySQL's EXPLAIN FORMAT=JSON with ``explain_json_format_version = 2``, also with ANALYZE."""

from __future__ import annotations

from typing import Any

from upshift.stack.plans import mysql_words, text
from upshift.stack.plans.members import PlanUnreadable, loaded, number, objects, rest, word, words
from upshift.stack.plans.model import Node

_INPUTS = ("inputs", "inputs_from_select_list")
_KNOWN = (
    *_INPUTS,
    "operation",
    "heading",
    "table_name",
    "alias",
    "index_name",
    "key_columns",
    "ranges",
    "covering",
    "access_type",
    "index_access_type",
    "join_type",
    "join_algorithm",
    "condition",
    "lookup_condition",
    "pushed_index_condition",
    "sort_fields",
    "limit",
    "per_chunk_limit",
    "estimated_rows",
    "estimated_total_cost",
    "actual_rows",
    "actual_loops",
    "actual_last_row_ms",
    "used_columns",
    "filter_columns",
    "join_columns",
    "hash_condition",
    "functions",
    "schema_name",
    "subquery",
    "dependent",
    "cacheable",
    "subquery_location",
    "estimated_first_row_cost",
    "actual_first_row_ms",
    "lookup_references",
)


def parse_mysql_json2(answer: str | dict[str, Any]) -> Node:
    """The canonical tree. Raises PlanUnreadable where the JSON has no ``query_plan``."""
    whole = loaded(answer)
    plan = whole.get("query_plan") if isinstance(whole, dict) else None
    if not isinstance(plan, dict):
        raise PlanUnreadable("the server's JSON has no query_plan", "explain_json_format_version = 2 makes it")
    return _step(plan)


def _step(members: dict[str, Any]) -> Node:
    children = tuple(_step(each) for name in _INPUTS for each in objects(members.get(name)))
    known: dict[str, Any] = {
        "estimated_rows": number(members.get("estimated_rows")),
        "estimated_cost": number(members.get("estimated_total_cost")),
        "actual_rows": number(members.get("actual_rows")),
        "total_ms": number(members.get("actual_last_row_ms")),
        # A step that is never reached has null here.
        "loops": number(members["actual_loops"]) or 0.0 if "actual_loops" in members else None,
    }
    more = rest(members, _KNOWN)
    made = mysql_words.node(word(members.get("operation")) or "", children, **known)
    made = made.model_copy(update={"more": {**made.more, **more}, **_named(members, made)})
    if made.sort and (keys := words(members.get("sort_fields"))):
        made = made.model_copy(update={"sort": made.sort.model_copy(update={"keys": keys})})
    heading = word(members.get("heading")) or ""
    return mysql_words.subquery(heading, (made,)) if heading.startswith("Select #") else made


def _named(members: dict[str, Any], made: Node) -> dict[str, Any]:
    """What JSON says of an access more exactly than its words do."""
    table = word(members.get("table_name"))
    if table is None or made.operation not in ("access", "write"):
        return {}
    named: dict[str, Any] = {"table": table, "alias": word(members.get("alias")) or table}
    if columns := words(members.get("key_columns")):
        named["key_columns"] = columns
    if each := words(members.get("ranges")):
        named["bounds"] = text.ranges(list(each))
    return named
