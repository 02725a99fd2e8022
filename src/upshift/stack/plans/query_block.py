"""Plans as ``query_block``: MySQL's EXPLAIN FORMAT=JSON version 1, and MariaDB's EXPLAIN and ANALYZE FORMAT=JSON.

Both list the tables of a join in the order in which they are read; MariaDB adds what an execution counted (``r_...``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from upshift.stack.plans import text
from upshift.stack.plans.mariadb_trace import Ranges, chosen_ranges
from upshift.stack.plans.members import PlanUnreadable, loaded, number, objects, rest, word, words
from upshift.stack.plans.model import Join, JoinKind, Method, Node, Sort
from upshift.stack.plans.query_block_table import MATERIALIZED, SUBQUERIES, WRITES, access_of


class _Reader:
    """One plan being read."""

    def __init__(self, ranges: Ranges) -> None:
        self._ranges = ranges
        self._made: list[str] = []
        """Tables of which a block being read makes the rows: a recursive one reads them again."""
        self._structures: Mapping[str, Callable[[Any], Node]] = {
            "query_block": self.block,
            "union_result": self._union,
            "intersect_result": self._union,
            "except_result": self._union,
            "unary_result": self._union,
            "recursive_union": self._union,
            "ordering_operation": self._ordered,
            "grouping_operation": self._grouped,
            "duplicates_removal": self._distinct,
            "windowing": self._window,
            "window_functions_computation": self._window,
            "filesort": self._filesort,
            "read_sorted_file": self.block,
            "temporary_table": self._temporary,
            "buffer_result": self._temporary,
            "buffer": self.block,
            "expression_cache": self.block,
            "materialization": self._temporary,
            "range-checked-for-each-record": self._checked_each_time,
            "block-nl-join": self._buffered,
            "insert_from": self.block,
            "nested_loop": self._nested,
            "table": self._table,
        }

    def block(self, members: Any) -> Node:
        """What stands in a block: its one structure, and the subqueries beside it."""
        if isinstance(members, list):
            return self._nested(members)
        below = self._subqueries(members)
        written = [self._structures[name](members[name]) for name in self._structures if name in members]
        if not written:
            message = word(members.get("message")) or ""
            return Node(
                operation="rows",
                access="none",
                said=message,
                more=rest(members, (*SUBQUERIES, "message", "select_id")),
                children=below,
            )
        # A write is named beside what it writes from.
        written.sort(key=lambda each: each.operation != "write")
        first, others = written[0], written[1:]
        having = word(members.get("having_condition"))
        made = first.model_copy(update={"children": (*first.children, *others, *below)})
        return Node(operation="filter", filter=text.plain(having), said="having", children=(made,)) if having else made

    def _subqueries(self, members: dict[str, Any]) -> tuple[Node, ...]:
        found = [each for name in SUBQUERIES for each in objects(members.get(name))]
        return tuple(Node(operation="subquery", said="subquery", children=(self.block(each),)) for each in found)

    def _nested(self, listed: Any) -> Node:
        steps = [self.block(each) for each in objects(listed)]
        if not steps:
            return Node(operation="rows", access="none")
        # The table that is written stands among those that are read.
        write = next((each for each in steps if each.operation == "write"), None)
        reads = [each.children[0] if each.operation == "write" and each.children else each for each in steps]
        made = reads[0]
        for step in reads[1:]:
            made = _join(made, step)
        return write.model_copy(update={"children": (made,)}) if write and len(steps) > 1 else steps[0] if write else made

    def _union(self, members: dict[str, Any]) -> Node:
        children = tuple(self.block(each) for each in objects(members.get("query_specifications")))
        kept = members.get("using_temporary_table") is True or "table_name" in members
        return Node(operation="union", said=word(members.get("table_name")) or "union", temporary=kept, children=children)

    def _ordered(self, members: dict[str, Any]) -> Node:
        return self._sorted_first(members, self.block(members))

    def _grouped(self, members: dict[str, Any]) -> Node:
        child = self._sorted_first(members, self.block(members))
        kept = members.get("using_temporary_table") is True
        return Node(operation="aggregate", said="grouping_operation", temporary=kept, children=(child,))

    def _distinct(self, members: Any) -> Node:
        child = self.block(members)
        kept = isinstance(members, dict) and members.get("using_temporary_table") is True
        return Node(operation="distinct", said="duplicates_removal", temporary=kept, children=(child,))

    def _sorted_first(self, members: dict[str, Any], child: Node) -> Node:
        if members.get("using_filesort") is not True:
            return child
        keys = tuple(map(text.plain, words(members.get("filesort_key"))))
        sort = Sort(keys=keys, rows=_rows_out(child))
        return Node(operation="sort", said="filesort", sort=sort, estimated_rows=child.estimated_rows, children=(child,))

    def _window(self, members: dict[str, Any]) -> Node:
        child = self.block(members)
        for each in objects(members.get("windows")):
            child = self._sorted_first(each, child)
        for each in objects(members.get("sorts")):
            child = _sort(each.get("filesort", {}), child)
        return Node(operation="window", said="window functions", children=(child,))

    def _filesort(self, members: dict[str, Any]) -> Node:
        return _sort(members, self.block(members))

    def _temporary(self, members: Any) -> Node:
        return Node(operation="materialize", said="temporary table", temporary=True, children=(self.block(members),))

    def _checked_each_time(self, members: dict[str, Any]) -> Node:
        made = self.block(members)
        known = {"access": "range", "bounds": None, "more": {**made.more, **rest(members, ("table",))}}
        return made.model_copy(update=known if made.operation == "access" else {})

    def _buffered(self, members: dict[str, Any]) -> Node:
        made = self.block(members)
        condition = word(members.get("attached_condition"))
        more = {**made.more, **rest(members, ("table",)), "attached_condition": text.plain(condition) if condition else ""}
        return made.model_copy(update={"more": more})

    def _table(self, members: dict[str, Any]) -> Node:
        name = word(members.get("table_name"))
        if name is None:
            return self.block({key: value for key, value in members.items() if key != "table"})
        below = self._subqueries(members)
        again = name in self._made
        self._made.append(name)
        made = [
            Node(operation="materialize", said="materialized", temporary=True, children=(self.block(members[key]),))
            for key in MATERIALIZED
            if isinstance(members.get(key), dict)
        ]
        self._made.pop()
        access = access_of(name, members, self._ranges).model_copy(update={"children": (*made, *below)})
        if again:
            access = access.model_copy(update={"access": "intermediate", "bounds": None})
        write = next((each for each in WRITES if members.get(each) in (True, 1)), None)
        if write is None:
            # MariaDB says of INSERT ... VALUES no more than the table.
            if "access_type" in members or made:
                return access
            return Node(operation="write", said="insert", table=name, alias=name)
        source = () if write in ("insert", "replace") else (access,)
        return Node(operation="write", said=write, table=name, alias=name, children=source)


def _sort(members: Any, child: Node) -> Node:
    members = members if isinstance(members, dict) else {}
    loops, passes, limit = number(members.get("r_loops")), number(members.get("r_sort_passes")), number(members.get("r_limit"))
    key, output = word(members.get("sort_key")), number(members.get("r_output_rows"))
    rows = _rows_out(child)
    sort = Sort(
        keys=tuple(text.plain(each) for each in key.split(", ")) if key else (),
        rows=output if rows is None and limit is None else rows,
        on_disk=(passes or 0) > 0 if loops else None,
        limit=int(limit) if limit is not None else None,
    )
    return Node(
        operation="sort",
        said="filesort",
        sort=sort,
        estimated_rows=child.estimated_rows,
        actual_rows=output,
        loops=loops,
        total_ms=number(members.get("r_total_time_ms")),
        children=(child,),
    )


def _rows_out(child: Node) -> float | None:
    """Rows that go into a sort in one loop: those of a temporary table's groups are not known."""
    if child.operation not in ("access", "join"):
        return None
    return child.actual_rows if child.loops and child.actual_rows is not None else child.estimated_rows


def _join(outer: Node, inner: Node) -> Node:
    said = " ".join(inner.more.get(name, "") for name in ("join_type", "using_join_buffer"))
    method: Method = "nested_loop"
    if "hash" in said.lower() or "BNLH" in said or "BKAH" in said:
        method = "hash"
    elif said.strip():
        method = "buffered"
    condition = inner.filter or inner.more.get("attached_condition", "")
    kind: JoinKind = "inner"
    if "first_match" in inner.more:
        kind = "semi"
    elif "not_exists" in inner.more:
        kind = "anti"
    elif "trigcond" in condition or "is_not_null_compl" in condition:
        kind = "left"
    # Of an outer join the plan does not count the rows that find no partner.
    counted = method == "nested_loop" and kind == "inner" and inner.loops is not None and inner.actual_rows is not None
    estimates = (outer.estimated_rows, inner.estimated_rows)
    return Node(
        operation="join",
        said=said.strip() or "nested_loop",
        join=Join(kind=kind, method=method),
        estimated_rows=estimates[0] * estimates[1] if estimates[0] is not None and estimates[1] is not None else None,
        actual_rows=inner.actual_rows * inner.loops if counted and inner.actual_rows is not None and inner.loops else None,
        loops=1.0 if counted and inner.loops else None,
        children=(outer, inner),
    )


def _parsed(answer: str | dict[str, Any], ranges: Ranges) -> tuple[Node, dict[str, Any]]:
    whole = loaded(answer)
    members = whole.get("query_block") if isinstance(whole, dict) else None
    if not isinstance(members, dict):
        raise PlanUnreadable("the server's JSON has no query_block", "the answer of EXPLAIN FORMAT=JSON is needed")
    try:
        return _Reader(ranges).block(members), members
    except (AttributeError, TypeError) as error:
        raise PlanUnreadable(
            f"a member of the plan has another type than expected: {error}",
            "Upshift does not know this form of a plan: report it as a defect, with the plan",
        ) from error


def parse_mysql_json1(answer: str | dict[str, Any]) -> Node:
    """The canonical tree of MySQL's version 1. Raises PlanUnreadable."""
    return _parsed(answer, {})[0]


def parse_mariadb(answer: str | dict[str, Any], trace: str | None = None) -> Node:
    """The canonical tree of MariaDB's; ``trace`` is the optimizer trace of the same EXPLAIN, whose ranges the plan lacks.

    Raises PlanUnreadable.
    """
    return _parsed(answer, chosen_ranges(trace) if trace else {})[0]
