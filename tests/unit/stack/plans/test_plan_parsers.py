"""Every server's plans become one canonical tree; recordings of real servers are what is read."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest
import recordings
import shop

from upshift.stack.plans.asked import Asked
from upshift.stack.plans.compare import compare
from upshift.stack.plans.looked import Compared, Told
from upshift.stack.plans.members import DEEPEST, PlanUnreadable
from upshift.stack.plans.model import Node, Plan, accesses, nodes, rows_examined
from upshift.stack.plans.mysql import joined
from upshift.stack.plans.mysql_json2 import parse_mysql_json2
from upshift.stack.plans.mysql_tree import parse_mysql_tree
from upshift.stack.plans.postgres import parse_postgres
from upshift.stack.plans.query_block import parse_mariadb, parse_mysql_json1
from upshift.stack.plans.rules import judged
from upshift.stack.plans.terminal import lines
from upshift.stack.suspects.thresholds import Thresholds

MYSQL = sorted(recordings.answers("mysql"))
EXECUTED = sorted(name for name, each in recordings.answers("mysql").items() if "analyze_tree" in each)


def expected(family: shop.Family) -> dict[str, list[str]]:
    """Of a statement and form, the lines of its tree."""
    parts = (recordings.FOLDER / f"{family}.txt").read_text().split("## ")[1:]
    return {each.splitlines()[0]: each.splitlines()[1:] for each in parts}


@pytest.mark.parametrize(("family", "name", "form"), recordings.forms())
def test_a_recorded_plan_becomes_its_canonical_tree(family: shop.Family, name: str, form: str) -> None:
    wanted = [line for line in expected(family)[f"{name} {form}"] if line]
    assert list(lines(recordings.tree(family, name, form))) == wanted


def test_every_expected_tree_was_recorded() -> None:
    for family in ("mysql", "mariadb", "postgres"):
        recorded = {f"{name} {form}" for each, name, form in recordings.forms() if each == family}
        assert recorded == set(expected(family))


def shape(tree: Node) -> Any:
    """What TREE and JSON version 2 both say; TREE rounds its figures and has no table behind an alias."""
    kept = (tree.operation, tree.access, tree.name, tree.index, tree.bounds, tree.covering, tree.filter)
    return (*kept, tree.index_filter, tree.join, tree.sort and tree.sort.keys, tree.limit, tree.temporary, tree.loops), tuple(
        map(shape, tree.children)
    )


@pytest.mark.parametrize("name", MYSQL)
def test_mysqls_tree_and_json_say_the_same(name: str) -> None:
    assert shape(recordings.tree("mysql", name, "tree")) == shape(recordings.tree("mysql", name, "json2"))
    if name in EXECUTED:
        assert shape(recordings.tree("mysql", name, "analyze_tree")) == shape(recordings.tree("mysql", name, "analyze_json2"))


@pytest.mark.parametrize("name", MYSQL)
def test_both_json_versions_access_the_same_tables_in_the_same_way_and_order(name: str) -> None:
    version1 = recordings.tree("mysql", name, "json1")
    both = joined(recordings.tree("mysql", name, "json2"), version1)
    one, two = accesses(version1), accesses(both)
    assert [(each.name, each.access, each.index, each.covering) for each in one] == [
        (each.name, each.access, each.index, each.covering) for each in two
    ]


@pytest.mark.parametrize("name", ["point", "email", "join_const", "join_three", "lost_bound", "update", "delete"])
def test_what_only_version_1_shows_comes_into_the_tree(name: str) -> None:
    steps, version1 = recordings.tree("mysql", name, "json2"), recordings.tree("mysql", name, "json1")
    assert len(accesses(joined(steps, version1))) > len(accesses(steps))


def test_a_constant_table_is_read_below_what_works_on_the_joins_rows() -> None:
    steps = parse_mysql_tree("-> Limit: 3 row(s)\n    -> Sort: o.total\n        -> Table scan on o  (cost=1 rows=9)\n")
    tree = joined(steps, recordings.tree("mysql", "join_const", "json1"))
    assert [each.operation for each in nodes(tree)] == ["limit", "sort", "join", "access", "access"]
    assert [each.name for each in accesses(tree)] == ["c", "o"]


@pytest.mark.parametrize(
    ("family", "form", "name", "rows"),
    [
        (family, form, name, rows)
        for family, form in (
            ("mysql", "analyze_tree"),
            ("mysql", "analyze_json2"),
            ("mariadb", "analyze_json"),
            ("postgres", "analyze_json"),
        )
        for name, rows in {"full": 20000, "range": 80, "ref": 10, "join_unique": 12, "join_hash": 197, "scalar": 44}.items()
    ],
)
def test_rows_examined_are_those_that_were_read_in_all_loops(family: shop.Family, form: str, name: str, rows: float) -> None:
    assert rows_examined(recordings.tree(family, name, form)) == pytest.approx(rows)


@pytest.mark.parametrize(
    ("family", "form"), [("mysql", "json2"), ("mysql", "json1"), ("mariadb", "json"), ("postgres", "json")]
)
def test_a_plan_that_was_not_executed_has_no_rows_examined(family: shop.Family, form: str) -> None:
    assert rows_examined(recordings.tree(family, "full", form)) is None


UNKNOWN: dict[str, Any] = {"new member": {"of": ["a", "later", "version"]}, "another": None, "third": 4}


def test_unknown_members_are_kept_as_text() -> None:
    table = {"table_name": "t", "access_type": "something new", **UNKNOWN}
    block = parse_mysql_json1({"query_block": {"table": table}})
    maria = parse_mariadb({"query_block": {"nested_loop": [{"table": table}], **UNKNOWN}})
    steps = parse_mysql_json2({"query_plan": {"operation": "Teleport rows", **UNKNOWN}})
    post = parse_postgres([{"Plan": {"Node Type": "Teleport", **UNKNOWN}}])
    for tree in (block, maria, steps, post):
        assert json.loads(tree.more["new member"]) == UNKNOWN["new member"]
        assert tree.more["third"] == "4"
    assert (block.access, steps.operation, post.operation) == ("unknown", "other", "other")
    assert parse_mysql_tree("-> Teleport rows  (cost=1.5 rows=2)").said == "Teleport rows"


@pytest.mark.parametrize("parse", [parse_mysql_json1, parse_mysql_json2, parse_mariadb, parse_postgres])
@pytest.mark.parametrize(
    "answer", ["", "no JSON", "[]", "{}", "3", '{"query_block": 3}', '[{"Plan": []}]', '{"query_plan": null}']
)
def test_what_is_no_plan_is_refused_with_a_hint(parse: Any, answer: str) -> None:
    with pytest.raises(PlanUnreadable) as refused:
        parse(answer)
    assert refused.value.hint


def test_a_text_without_steps_is_refused() -> None:
    with pytest.raises(PlanUnreadable):
        parse_mysql_tree("nothing to see\n")


@pytest.mark.parametrize("parse", [parse_mysql_json1, parse_mysql_json2, parse_mariadb, parse_postgres])
@pytest.mark.parametrize("value", [None, 3, "text", [], [3, None], {}, {"a": 1}, True])
@pytest.mark.parametrize(
    "member",
    [
        "nested_loop",
        "table",
        "filesort",
        "key",
        "used_key_parts",
        "ref",
        "cost_info",
        "inputs",
        "operation",
        "ranges",
        "actual_loops",
        "Plans",
        "Index Cond",
        "Sort Key",
        "Node Type",
        "index_merge",
        "r_loops",
        "windows",
        "query_specifications",
    ],
)
def test_a_member_of_another_type_never_ends_in_a_crash(parse: Any, member: str, value: Any) -> None:
    members = {
        "table_name": "t",
        "access_type": "ref",
        "operation": "Table scan on t",
        "Node Type": "Index Scan",
        member: value,
    }
    whole = {"query_block": {**members, "table": {**members}}, "query_plan": members}
    for answer in (whole, [{"Plan": members}]):
        try:
            tree = parse(answer)
        except PlanUnreadable as refused:
            assert refused.hint
        else:
            assert all(each.operation for each in nodes(tree))


def test_a_tree_that_is_nested_too_deep_or_has_headings_alone_is_refused() -> None:
    for text in ("\n".join(f"{'    ' * level}-> Stream results" for level in range(5000)), "-> Hash", "    -> Hash\n"):
        with pytest.raises(PlanUnreadable):
            parse_mysql_tree(text)


def test_the_deepest_plan_that_is_read_is_shown_compared_and_becomes_json() -> None:
    plan: dict[str, Any] = {"operation": "Stream results"}
    for _level in range(DEEPEST - 2):
        plan = {"operation": "Stream results", "inputs": [plan]}
    text = "\n".join(f"{'    ' * level}-> Stream results" for level in range(DEEPEST))
    for tree in (parse_mysql_json2({"query_plan": plan}), parse_mysql_tree(text)):
        assert len(list(nodes(tree))) == len(list(lines(tree))) and not compare(tree, tree)
        told = Told(plan=Plan(family="mysql", tree=tree))
        each = Compared(statement="", text="", share=1, executions=1, a=told, b=told, same_answer=None, differences=())
        assert json.loads(each.model_dump_json())["b"]["plan"]["tree"]["children"]


@pytest.mark.parametrize("parse", [parse_mysql_json2, parse_postgres])
def test_a_plan_that_is_nested_too_deep_is_refused(parse: Any) -> None:
    mysql: dict[str, Any] = {"operation": "Stream results"}
    post: dict[str, Any] = {"Node Type": "Result"}
    for _level in range(5000):
        mysql, post = {"operation": "Stream results", "inputs": [mysql]}, {"Node Type": "Result", "Plans": [post]}
    with pytest.raises(PlanUnreadable):
        parse({"query_plan": mysql} if parse is parse_mysql_json2 else [{"Plan": post}])


def test_a_literal_with_a_line_feed_stays_in_its_step() -> None:
    tree = parse_mysql_tree("-> Filter: (t.a = 'x\ny')  (cost=1 rows=1)\n    -> Table scan on t  (cost=1 rows=5)\n")
    assert (tree.operation, tree.access, tree.estimated_read) == ("access", "full_scan", 5.0)


def test_a_step_that_was_never_reached_has_no_loops() -> None:
    tree = parse_mysql_tree("-> Table scan on t  (cost=1.5 rows=2) (never executed)")
    assert (tree.loops, tree.actual_rows, tree.estimated_rows) == (0.0, None, 2.0)


@pytest.mark.parametrize(("cost", "last"), [("1.5", 1.5), ("4.45..5.71", 5.71), ("0..1.2e+6", 1.2e6)])
def test_the_cost_of_a_step_is_that_of_its_last_row(cost: str, last: float) -> None:
    tree = parse_mysql_tree(f"-> Sort: t.a  (cost={cost} rows=2)")
    assert (tree.estimated_cost, tree.estimated_rows) == (last, 2.0)


CONST = {"table_name": "t", "access_type": "const", "key": "PRIMARY", "used_key_parts": ["id"], "ref": ["const"]}
RANGE = {"table_name": "t", "access_type": "range", "key": "a", "used_key_parts": ["a"], "rows": 5}


@pytest.mark.parametrize(
    ("block", "operations"),
    [
        # (SELECT ... LIMIT 5) ORDER BY ... LIMIT 3
        ({"unary_result": {"query_specifications": [{"query_block": {"table": CONST}}]}}, ["union", "access"]),
        # INSERT INTO u VALUES ((SELECT ...)), and ON DUPLICATE KEY UPDATE a = (SELECT ...)
        (
            {
                "table": {"insert": True, "table_name": "u", "access_type": "ALL"},
                "insert_values_subqueries": [{"query_block": {"table": CONST}}],
                "insert_update_subqueries": [{"query_block": {"table": CONST}}],
            },
            ["write", "subquery", "access", "subquery", "access"],
        ),
    ],
)
def test_no_part_of_a_mysql_plan_is_dropped(block: dict[str, Any], operations: list[str]) -> None:
    assert [each.operation for each in nodes(parse_mysql_json1({"query_block": block}))] == operations


def test_an_update_of_the_column_that_finds_its_rows_is_read_from_a_buffer() -> None:
    """MariaDB: the rows are found first, and then changed."""
    tree = parse_mariadb({"query_block": {"select_id": 1, "buffer": {"table": {"update": 1, **RANGE}}}})
    assert [(each.operation, each.name) for each in nodes(tree)] == [("write", "t"), ("access", "t")]
    assert accesses(tree)[0].access == "range"


def test_what_a_hash_join_reads_first_comes_first_also_beside_a_subquery() -> None:
    tree = parse_mysql_tree(
        "-> Inner hash join (probed.a = (select #2))  (cost=1 rows=1)\n"
        "    -> Table scan on probed  (cost=1 rows=1)\n"
        "    -> Hash\n"
        "        -> Table scan on hashed  (cost=1 rows=1)\n"
        "    -> Select #2 (subquery in condition; run only once)\n"
        "        -> Table scan on t3  (cost=1 rows=1)\n"
    )
    assert [each.name for each in accesses(tree)] == ["hashed", "probed", "t3"]


@pytest.mark.parametrize("heading", ["Batch input rows", "Disable deduplication", "Limit table size: 5 unique row(s)"])
def test_a_heading_of_a_tree_is_no_step(heading: str) -> None:
    tree = parse_mysql_tree(
        f"-> Batched key access inner join\n    -> {heading}\n        -> Table scan on t  (cost=1 rows=9)\n"
        "    -> Multi-range index lookup on u using b (b = t.b)  (cost=1 rows=2)\n"
    )
    assert [each.operation for each in nodes(tree)] == ["join", "access", "access"]


def test_keys_of_a_sort_are_not_cut_at_the_commas_of_a_function() -> None:
    step = {"operation": "Sort: concat(t.a, t.b), t.c DESC", "sort_fields": ["concat(t.a, t.b)", "t.c DESC"]}
    tree = parse_mysql_json2({"query_plan": {**step, "inputs": [{"operation": "Table scan on t", "table_name": "t"}]}})
    assert tree.sort and tree.sort.keys == ("concat(t.a, t.b)", "t.c DESC")


def test_a_table_whose_rows_are_only_counted_does_not_tell_how_many_it_read() -> None:
    """MySQL's SELECT count(*): the step has one row, the count."""
    said = "-> Count rows in t  (cost=1 rows=1) (actual time=1..1 rows=1 loops=1)"
    key = {"access_type": "index", "key": "a", "using_index": True, "rows_examined_per_scan": 20000, "filtered": "100.00"}
    tree = joined(parse_mysql_tree(said), parse_mysql_json1({"query_block": {"table": {"table_name": "t", **key}}}))
    assert (tree.access, tree.index, tree.covering, tree.estimated_read) == ("index_scan", "a", True, 20000)
    assert rows_examined(tree) is None


def test_a_join_of_postgresql_keeps_all_of_its_conditions() -> None:
    scan = {"Node Type": "Seq Scan", "Plan Rows": 1}
    plans = [{**scan, "Alias": "a"}, {"Node Type": "Hash", "Plans": [{**scan, "Alias": "b"}]}]
    conditions = {"Hash Cond": "(a.id = b.id)", "Join Filter": "(a.x < b.x)", "Filter": "(b.id IS NULL)"}
    tree = parse_postgres([{"Plan": {"Node Type": "Hash Join", "Join Type": "Left", **conditions, "Plans": plans}}])
    assert tree.filter == "(a.id = b.id) and (a.x < b.x) and (b.id IS NULL)"


@pytest.mark.parametrize(
    ("step", "on_disk"),
    [
        ({"Sort Space Type": "Memory"}, False),
        ({"Sort Space Type": "Memory", "Workers": [{"Worker Number": 0, "Sort Space Type": "Disk"}]}, True),
        ({"Workers": [{"Worker Number": 0, "Sort Space Type": "Memory"}]}, False),
        ({"Full-sort Groups": {"Sort Space Memory": {}}, "Pre-sorted Groups": {"Sort Space Disk": {}}}, True),
        ({"Full-sort Groups": {"Sort Space Memory": {}}}, False),
        ({}, None),
    ],
)
def test_a_sort_of_postgresql_on_disk_is_seen_wherever_it_is_told(step: dict[str, Any], on_disk: bool | None) -> None:
    tree = parse_postgres([{"Plan": {"Node Type": "Sort", **step, "Plans": [{"Node Type": "Seq Scan"}]}}])
    assert tree.sort and tree.sort.on_disk is on_disk


def test_a_hash_table_of_postgresql_on_disk_is_seen_in_a_worker() -> None:
    worker = {"Worker Number": 0, "HashAgg Batches": 5, "Disk Usage": 900}
    step = {"Node Type": "Aggregate", "Strategy": "Hashed", "HashAgg Batches": 1, "Disk Usage": 0, "Workers": [worker]}
    assert parse_postgres([{"Plan": step}]).temporary_on_disk is True


ODD: tuple[Any, ...] = (None, 3, -1.5, "", "text (", [], [None, 3], {}, {"a": [1]}, True, "9" * 400)


def spoiled(value: Any, random: Random) -> Any:
    """The same JSON with some members gone, and some of another type."""
    if random.random() < 0.03:
        return random.choice(ODD)
    if isinstance(value, dict):
        return {key: spoiled(each, random) for key, each in value.items() if random.random() > 0.03}
    return [spoiled(each, random) for each in value] if isinstance(value, list) else value


@pytest.mark.parametrize("seed", range(25))
def test_spoiled_plans_are_read_or_refused_and_judged_without_a_crash(seed: int) -> None:
    random = Random(seed)
    read = 0
    for family, name, form in recordings.forms():
        answer = recordings.answers(family)[name][form]
        if not isinstance(answer, str):
            answer = spoiled(answer, random)
        else:
            lines_ = answer.splitlines()
            answer = "\n".join(line[random.choice((0, 0, 0, 3)) :] for line in lines_ if random.random() > 0.05)
            answer = answer.replace(random.choice("()=<>'"), random.choice("()'"), random.randrange(3))
        try:
            tree = recordings.parsed(family, form, answer)
        except PlanUnreadable as refused:
            assert refused.hint
            continue
        read += 1
        plan = Plan(family=family, tree=tree, executed="analyze" in form)
        beside = Plan(family=family, tree=recordings.tree(family, name, form), executed=plan.executed)
        judged((Asked(statement="0" * 16, text="", share=1.0, plan=plan, other=beside),), Thresholds())
        assert list(lines(tree))
    assert read > 100
