"""Rows of steps that run often, once, or never."""

from __future__ import annotations

from typing import Any

import pytest
import recordings
import shop

from upshift.stack.plans.asked import Asked
from upshift.stack.plans.engine import incomparable
from upshift.stack.plans.model import Node, Plan, rows_examined
from upshift.stack.plans.mysql_tree import parse_mysql_tree
from upshift.stack.plans.postgres import parse_postgres
from upshift.stack.plans.postgres_index import Catalog
from upshift.stack.plans.rules import judged
from upshift.stack.plans.terminal import lines
from upshift.stack.plans.walks import estimated_examined, processes
from upshift.stack.suspects.model import Finding
from upshift.stack.suspects.thresholds import Thresholds


def found(*trees: Node, executed: bool = True) -> dict[str, Finding]:
    """What is found in one plan, or beside another."""
    plan, *others = (Plan(family="postgres", tree=each, executed=executed) for each in trees)
    asked = Asked(statement="0" * 16, text="", share=1.0, plan=plan, other=others[0] if others else None)
    return {each.suspect: each for each in judged((asked,), Thresholds()) if isinstance(each, Finding)}


def step(kind: str, *plans: dict[str, Any], rows: float = 1, loops: float = 1, **members: Any) -> dict[str, Any]:
    counted = {"Plan Rows": rows, "Actual Rows": rows, "Actual Loops": loops}
    named = {key.replace("_", " "): each for key, each in members.items()}
    return {"Node Type": kind, **counted, **named, "Plans": list(plans)}


def scan(table: str, rows: float, loops: float = 1, **members: Any) -> dict[str, Any]:
    return step("Seq Scan", rows=rows, loops=loops, Relation_Name=table, Alias=table, **members)


def tree(plan: dict[str, Any], **table_rows: float) -> Node:
    return parse_postgres([{"Plan": plan}], Catalog(table_rows=table_rows))


@pytest.mark.parametrize(
    ("family", "plain", "executed"),
    [("mysql", "json2", "analyze_json2"), ("mysql", "tree", "analyze_tree"), ("mariadb", "json", "analyze_json")],
)
@pytest.mark.parametrize("name", ["exists", "not_in"])
def test_a_materialized_subquery_is_estimated_to_be_read_once(
    family: shop.Family, plain: str, executed: str, name: str
) -> None:
    counted = rows_examined(recordings.tree(family, name, executed))
    assert counted and estimated_examined(recordings.tree(family, name, plain)) == pytest.approx(counted, rel=0.1)


@pytest.mark.parametrize(
    ("said", "rows"),
    [
        ("Materialize", 100 + 50),
        ("Materialize CTE c if needed", 100 + 50),
        ("Temporary table", 100 + 100 * 50),
        ("Materialize (invalidate on row from a)", 100 + 100 * 50),
    ],
)
def test_what_is_filled_anew_for_each_row_is_read_as_often(said: str, rows: float) -> None:
    plan = (
        "-> Nested loop inner join  (cost=1 rows=1)\n"
        "    -> Table scan on a  (cost=1 rows=100)\n"
        "    -> Table scan on d  (cost=1 rows=5)\n"
        f"        -> {said}  (cost=1 rows=5)\n"
        "            -> Table scan on b  (cost=1 rows=50)\n"
    )
    assert estimated_examined(parse_mysql_tree(plan)) == rows


def test_reading_kept_rows_again_does_not_make_them_more() -> None:
    """The inner side of PostgreSQL's nested loop: kept once, read for each row of the outer one."""

    def kept(rows: float) -> Node:
        inner = step("Materialize", scan("b", rows), rows=rows, loops=5000)
        return tree(step("Nested Loop", scan("a", 5000), inner))

    assert "P3" not in found(kept(999))
    assert "of 1,000 rows" in found(kept(1000))["P3"].said
    again = step("Materialize", scan("b", 400, loops=3), rows=400, loops=3)
    assert "of 1,200 rows" in found(tree(step("Nested Loop", scan("a", 3), again)))["P3"].said
    sort = step("Sort", scan("b", 1000), rows=1000, loops=50, Sort_Key=["x"])
    assert "of 1,000 rows" in found(tree(step("Nested Loop", scan("a", 50), sort)))["P3"].said


def test_a_step_that_was_never_reached_accuses_nobody() -> None:
    never = scan("a", 50_000, loops=0, Filter="(x = 1)")
    never["Actual Rows"] = 0
    sort = step("Sort", never, rows=50_000, loops=0, Sort_Key=["x"])
    sort["Actual Rows"] = 0
    plan = tree(step("Append", scan("b", 5), sort), a=50_000)
    assert not found(plan)
    assert [each for each in lines(plan) if "never executed" in each] == [
        "  sort by x; never executed",
        "    full_scan a; filter x = 1; never executed",
    ]
    # EXPLAIN alone does not know what will be reached.
    assert {"P2", "P3"} <= set(found(_unexecuted(plan, filtered=10), executed=False))


def _unexecuted(node: Node, filtered: float) -> Node:
    told: dict[str, Any] = {"loops": None, "actual_rows": None, "actual_read": None}
    told["children"] = tuple(_unexecuted(each, filtered) for each in node.children)
    return node.model_copy(update=told | ({"estimated_rows": filtered} if node.filter else {}))


def test_a_parallel_scan_is_shared() -> None:
    """PostgreSQL's estimates below Gather are those of one process: 2 workers and 0.4 of the leader."""
    assert (processes(1), processes(2), processes(4)) == (1.7, 2.4, 4)

    def shared(left: float) -> Node:
        below = scan("t", left / 2.4, Filter="(x = 1)", Parallel_Aware=True)
        return tree(step("Gather", below, rows=left, Workers_Planned=2), t=24_000)

    (below,) = shared(6000).children
    assert (below.estimated_rows, below.estimated_read) == (2500, 10_000)
    assert estimated_examined(shared(6000)) == 24_000
    assert "P2" not in found(_unexecuted(shared(6000), 2500), executed=False)
    assert "P2" in found(_unexecuted(shared(2400), 1000), executed=False)


def test_what_is_not_counted_is_no_difference_in_rows() -> None:
    counts = parse_mysql_tree("-> Count rows in t  (cost=1 rows=1) (actual time=1..1 rows=1 loops=1)")
    reads = tree(scan("t", 20_000)).model_copy(update={"access": "index_scan", "index": None})
    a, b = Plan(family="mysql", tree=counts, executed=True), Plan(family="postgres", tree=reads, executed=True)
    assert incomparable(a, b, True, Thresholds()) == "one server does not say how many rows it examines"
    assert incomparable(a, a, True, Thresholds()) is None
