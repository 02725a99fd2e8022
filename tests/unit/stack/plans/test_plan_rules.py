"""Each rule about plans fires on what it looks for and is silent beside it."""

from __future__ import annotations

from typing import Any

import pytest
import recordings
import shop

from upshift.stack.plans.asked import Asked
from upshift.stack.plans.model import Access, Family, Node, Notice, Plan
from upshift.stack.plans.mysql_tree import parse_mysql_tree
from upshift.stack.plans.postgres import parse_postgres
from upshift.stack.plans.rules import RULES, judged
from upshift.stack.plans.walks import taken
from upshift.stack.suspects.model import Finding, Innocent, Unseen
from upshift.stack.suspects.thresholds import Thresholds

LIMITS = Thresholds()


def asked(tree: Node, other: Node | None = None, family: Family = "mysql", **known: Any) -> Asked:
    executed = tree.loops is not None or any(each.loops is not None for each in tree.children)
    plan = Plan(family=family, tree=tree, executed=executed, **known)
    beside = None if other is None else Plan(family=family, tree=other, executed=executed)
    return Asked(statement="0" * 16, text="SELECT", share=0.5, plan=plan, other=beside)


def found(name: str, each: Asked, limits: Thresholds = LIMITS) -> Finding | Innocent | Unseen:
    (outcome,) = [outcome for outcome in judged((each,), limits) if outcome.suspect == name]
    return outcome


def fires(name: str, each: Asked, status: str = "counted") -> str:
    outcome = found(name, each)
    assert isinstance(outcome, Finding), outcome
    assert outcome.status == status
    assert outcome.fixes and outcome.limits and outcome.statements[0].statement == each.statement
    return outcome.said


def silent(name: str, each: Asked) -> None:
    assert isinstance(found(name, each), Innocent)


def scan(access: Access = "full_scan", **fields: Any) -> Node:
    return Node.model_validate({"operation": "access", "alias": "t", "access": access, **fields})


def recorded(family: shop.Family, name: str, form: str) -> Asked:
    each = asked(recordings.tree(family, name, form), family=family)
    return each.model_copy(update={"plan": each.plan.model_copy(update={"executed": "analyze" in form})})


EXECUTED: tuple[tuple[shop.Family, str], ...] = (
    ("mysql", "analyze_json2"),
    ("mysql", "analyze_tree"),
    ("mariadb", "analyze_json"),
    ("postgres", "analyze_json"),
)


@pytest.mark.parametrize(("family", "form"), EXECUTED)
def test_p2_a_scan_of_which_little_is_wanted(family: shop.Family, form: str) -> None:
    assert "20,000 rows read" in fires("P2", recorded(family, "full", form))
    silent("P2", recorded(family, "range", form))
    silent("P2", recorded(family, "sort_limit", form))


@pytest.mark.parametrize(("family", "form"), [("mysql", "json2"), ("mysql", "tree"), ("postgres", "json")])
def test_p2_without_an_execution_is_inferred_from_estimates(family: shop.Family, form: str) -> None:
    fires("P2", recorded(family, "full", form), "inferred")
    silent("P2", recorded(family, "ref", form))


@pytest.mark.parametrize(
    ("read", "left", "loops", "fire"),
    [(1000, 100, 1, True), (999, 9, 1, False), (1000, 101, 1, False), (10, 1, 100, True), (10, 1, 99, False)],
)
def test_p2_at_its_thresholds(read: float, left: float, loops: float, fire: bool) -> None:
    each = asked(scan(filter="a = 1", actual_read=read, actual_rows=left, loops=loops))
    assert isinstance(found("P2", each), Finding) == fire


def under_a_limit(matching: float, *between: dict[str, Any], **limit: Any) -> Node:
    """The first ten rows of those that match in a scan of 20,000."""
    tree = scan(filter="a = 1", estimated_read=20_000, estimated_rows=matching, estimated_cost=400)
    for each in between:
        tree = Node.model_validate({"operation": "other", "estimated_rows": tree.estimated_rows, **each, "children": (tree,)})
    top = {"operation": "limit", "said": "Limit", "estimated_rows": min(matching, 10), **limit}
    return Node.model_validate({**top, "children": (tree,)})


@pytest.mark.parametrize(("matching", "read"), [(2000, None), (201, None), (200, 1000), (20, 10_000), (10, 20_000)])
def test_p2_without_an_execution_postgres_says_when_a_limit_ends_a_scan(matching: float, read: float | None) -> None:
    each = asked(under_a_limit(matching), family="postgres")
    if read is None:
        silent("P2", each)
    else:
        assert fires("P2", each, "inferred").startswith(f"t: {read:,.0f} rows read")


def test_p2_what_reads_all_rows_before_a_limit_is_not_ended_by_it() -> None:
    for between in ({"operation": "sort"}, {"operation": "aggregate"}, {"said": "Unknown"}):
        assert "20,000 rows read" in fires("P2", asked(under_a_limit(2000, between), family="postgres"), "inferred")
    for between in ({"said": "Gather"}, {"operation": "filter"}, {"operation": "rows", "said": "Result"}):
        silent("P2", asked(under_a_limit(2000, between), family="postgres"))
    # A filter above that leaves one in a hundred rows.
    filtered = under_a_limit(2000, {"operation": "filter", "estimated_rows": 20})
    assert "10,000 rows read" in fires("P2", asked(filtered, family="postgres"), "inferred")


def test_p2_a_limit_in_what_may_run_for_each_row_of_another_step_ends_nothing() -> None:
    limited = under_a_limit(2000)
    subquery = Node.model_validate({**scan().model_dump(), "children": (Node(operation="subquery", children=(limited,)),)})
    loop = {"operation": "join", "join": {"kind": "inner", "method": "nested_loop"}, "children": (scan(alias="u"), limited)}
    for tree in (subquery, Node.model_validate(loop)):
        assert "20,000 rows read" in fires("P2", asked(tree, family="postgres"), "inferred")


def test_p2_a_limit_with_an_offset_reads_more() -> None:
    """PostgreSQL's plan shows it in the costs alone: those of the first half of the rows."""
    assert "10,000 rows read" in fires("P2", asked(under_a_limit(2000, estimated_cost=200), family="postgres"), "inferred")
    silent("P2", asked(under_a_limit(2000, estimated_cost=2), family="postgres"))
    mysql = under_a_limit(2000, said="Limit/Offset: 10/20 row(s)", limit=10)
    assert [most for _node, most in taken(mysql)] == [None, 30]


def test_p2_mysqls_estimate_of_a_filter_does_not_say_when_a_limit_ends_a_scan() -> None:
    """It is a tenth, also of a value that is there once."""
    said = fires("P2", asked(under_a_limit(2000, said="Limit: 10 row(s)", limit=10)), "inferred")
    assert said.startswith("t: at most 20,000 rows read without an index")


def test_p2_takes_its_threshold_from_the_options() -> None:
    each = asked(scan(filter="a = 1", actual_read=1000, actual_rows=1, loops=1))
    assert isinstance(found("P2", each, Thresholds(changed={"P2.rows": 1001})), Innocent)


@pytest.mark.parametrize(("family", "form"), EXECUTED)
def test_p3_a_large_sort(family: shop.Family, form: str) -> None:
    assert "20,000 rows" in fires("P3", recorded(family, "sort_all", form))
    silent("P3", recorded(family, "window", form))
    silent("P3", recorded(family, "group", form))


def test_p3_on_disk_whatever_its_size() -> None:
    sort = Node.model_validate({"operation": "sort", "sort": {"rows": 10, "on_disk": True}, "loops": 1})
    assert "on disk" in fires("P3", asked(sort))
    small = Node.model_validate({"operation": "sort", "sort": {"rows": 10, "on_disk": False}, "loops": 1})
    silent("P3", asked(small))
    assert "on disk" in fires("P3", asked(small, sort_merge_passes=2))
    silent("P3", asked(small, disk_tables=2))
    grouped = Node(operation="aggregate", temporary=True, actual_rows=5, loops=1)
    assert "on disk" in fires("P3", asked(grouped, disk_tables=1))
    silent("P3", asked(grouped, disk_tables=0))


def test_p3_a_temporary_table_counts_what_it_keeps() -> None:
    fires("P3", asked(Node(operation="materialize", temporary=True, actual_rows=1000, loops=1)))
    silent("P3", asked(Node(operation="materialize", temporary=True, actual_rows=999, loops=1)))


@pytest.mark.parametrize("family", ["mysql", "mariadb"])
def test_p4_the_servers_own_warning(family: shop.Family) -> None:
    plain, told = (recorded(family, name, "json2" if family == "mysql" else "json") for name in ("email", "conversion"))
    warned = told.plan.model_copy(update={"notices": recordings.notices(family, "conversion")})
    assert "customers_phone" in fires("P4", told.model_copy(update={"plan": warned}))
    silent("P4", plain)


def test_p4_other_warnings_are_none() -> None:
    silent(
        "P4", asked(scan(), notices=(Notice(code=1276, text="Field or reference"), Notice(code=1105, text="Something else")))
    )


def test_p4_postgres_converts_the_column() -> None:
    members = {"Node Type": "Seq Scan", "Relation Name": "t", "Alias": "t", "Plan Rows": 5, "Total Cost": 1.0}
    converted = parse_postgres([{"Plan": {**members, "Filter": "((id)::numeric = 5.5)"}}])
    assert "id" in fires("P4", asked(converted, family="postgres"), "inferred")
    kept = parse_postgres([{"Plan": {**members, "Filter": "((name)::text = 'x::numeric'::text)"}}])
    silent("P4", asked(kept, family="postgres"))


def test_p5_an_index_that_covers_on_one_server() -> None:
    covering = scan("ref", index="i", covering=True, actual_read=500, actual_rows=500, loops=1)
    looking = scan("ref", index="j", covering=False, actual_read=100, actual_rows=100, loops=1)
    assert "on B 100 rows are looked up" in fires("P5", asked(covering, looking))
    assert "on A 100 rows are looked up" in fires("P5", asked(looking, covering))
    silent("P5", asked(covering, looking.model_copy(update={"actual_read": 99.0})))
    silent("P5", asked(covering, covering))
    silent("P5", asked(covering, looking.model_copy(update={"index": "PRIMARY"})))


def test_p5_postgres_looks_rows_up_until_vacuum() -> None:
    covering = scan("ref", index="i", covering=True, actual_read=500, actual_rows=500, loops=1, heap_fetches=0)
    fetching = covering.model_copy(update={"heap_fetches": 400.0})
    fires("P5", asked(covering, fetching, family="postgres"))
    silent("P5", asked(covering, covering, family="postgres"))


def test_p5_recorded() -> None:
    both = recorded("mariadb", "window", "analyze_json")
    other = recorded("postgres", "window", "analyze_json").plan
    each = both.model_copy(update={"other": other})
    silent("P5", each)
    assert "40 rows" in found("P5", each, Thresholds(changed={"P5.rows": 40})).said  # type: ignore[union-attr]


def test_p6_another_plan_that_examines_more() -> None:
    left = recorded("mariadb", "join_left", "analyze_json")
    each = left.model_copy(update={"other": recorded("postgres", "join_left", "analyze_json").plan})
    assert fires("P6", each).startswith("B examines 20,019 rows, the other 209")
    same = recorded("mariadb", "full", "analyze_json")
    silent("P6", same.model_copy(update={"other": recorded("postgres", "full", "analyze_json").plan}))


@pytest.mark.parametrize(("rows", "fire"), [((3000, 1000), True), ((2999, 1000), False), ((999, 1), False), ((3000, 0), True)])
def test_p6_at_its_thresholds(rows: tuple[float, float], fire: bool) -> None:
    a = scan("range", index="i", actual_read=rows[0], actual_rows=1, loops=1)
    b = scan("range", index="j", actual_read=rows[1], actual_rows=1, loops=1)
    assert isinstance(found("P6", asked(a, b)), Finding) == fire
    assert isinstance(found("P6", asked(a, b.model_copy(update={"index": "i"}))), Innocent)


def test_p6_without_an_execution_is_inferred_from_estimates() -> None:
    outer = scan("range", index="i", estimated_rows=200, estimated_read=200)
    inner = scan("full_scan", alias="u", estimated_rows=50, estimated_read=50)
    loop = Node.model_validate(
        {"operation": "join", "join": {"kind": "inner", "method": "nested_loop"}, "children": (outer, inner)}
    )
    hashed = loop.model_copy(update={"join": loop.join and loop.join.model_copy(update={"method": "hash"})})
    assert "A examines 10,200 rows, the other 250" in fires("P6", asked(loop, hashed), "inferred")


LOST = (
    "-> Filter: ((t2.a >= (t1.b - 20)) and (t2.a < 100))  (cost=10 rows=20)\n"
    "    -> Covering index range scan on t2 using a over ({over})  (cost=10 rows={rows})\n"
)
"""The plan of the talk: `select * from t1, t2 where t1.a = 100 and t2.a >= t1.b - 20 and t2.a < t1.b`."""


def test_p7_the_range_that_lost_its_lower_bound() -> None:
    lost = asked(parse_mysql_tree(LOST.format(over="NULL < a < 100", rows=5000)))
    assert "without the lower bound of a" in fires("P7", lost, "inferred")
    silent("P7", asked(parse_mysql_tree(LOST.format(over="80 <= a < 100", rows=5000))))
    silent("P7", asked(parse_mysql_tree(LOST.format(over="NULL < a < 100", rows=99))))


def test_p7_counts_what_the_bound_would_have_left_out() -> None:
    node = {
        "index": "i",
        "bounds": ("a = 1", "b < 9"),
        "key_columns": ("a", "b"),
        "filter": "(t.b > 3) and (t.b < 9)",
        "loops": 1,
    }
    assert "lower bound of b" in fires("P7", asked(scan("range", **node, actual_read=900, actual_rows=800)))
    silent("P7", asked(scan("range", **node, actual_read=900, actual_rows=801)))
    silent("P7", asked(scan("range", **{**node, "filter": "t.b < 9"}, actual_read=900, actual_rows=1)))
    # In each of its loops.
    often = {**node, "loops": 50}
    assert "lower bound of b" in fires("P7", asked(scan("range", **often, actual_read=9, actual_rows=7)))
    silent("P7", asked(scan("range", **often, actual_read=9, actual_rows=8)))


def test_p7_takes_no_estimate_for_what_an_execution_counted() -> None:
    """A LIMIT ends it early. But rows are counted after a condition on the index's entries."""
    node = {"index": "i", "bounds": ("b < 9",), "key_columns": ("b",), "loops": 1, "actual_read": 11, "actual_rows": 10}
    condition = "(t.b > 3) and (t.b < 9)"
    silent("P7", asked(scan("range", **node, estimated_read=10_000, filter=condition)))
    fires("P7", asked(scan("range", **node, estimated_read=10_000, index_filter=condition)), "inferred")


def test_p7_a_filter_that_leaves_out_what_the_index_finds() -> None:
    """As PostgreSQL's do."""
    node = {"index": "i", "bounds": ("a < 400",), "key_columns": ("a",), "loops": 1, "actual_read": 1600, "actual_rows": 60}
    postgres = [asked(scan("range", **node, filter=each), family="postgres") for each in ("a >= 380", "a < 390", "b >= 380")]
    assert "without the lower bound of a" in fires("P7", postgres[0])
    silent("P7", postgres[1])
    silent("P7", postgres[2])


def test_p7_another_tables_column_of_that_name_is_no_bound() -> None:
    node = {"index": "i", "bounds": ("b < 9",), "key_columns": ("b",), "loops": 1, "actual_read": 900, "actual_rows": 1}
    silent("P7", asked(scan("range", **node, filter="(u.b > 3) and (t.b < 9)")))
    fires("P7", asked(scan("range", **node, filter="(shop.t.b > 3) and (t.b < 9)")))
    fires("P7", asked(scan("range", **node, filter="trigcond(t.b > 3 and t.b < 9)")))


@pytest.mark.parametrize("family", ["mysql", "mariadb", "postgres"])
def test_p7_is_silent_where_both_bounds_are_used(family: shop.Family) -> None:
    form = {"mysql": "json2", "mariadb": "json", "postgres": "json"}[family]
    silent("P7", recorded(family, "lost_bound", form))
    silent("P7", recorded(family, "ref_range", form))


def test_p7_says_where_a_plan_does_not_tell_its_ranges() -> None:
    assert isinstance(found("P7", recorded("mysql", "range", "json1")), Unseen)


@pytest.mark.parametrize(("family", "form"), EXECUTED)
def test_p8_an_estimate_that_is_far_off(family: shop.Family, form: str) -> None:
    fires("P8", recorded(family, "stale_join", form))
    for name in ("full", "ref_range", "join_unique", "sort_limit", "index_scan"):
        silent("P8", recorded(family, name, form))


def test_p8_postgres_knows_values() -> None:
    assert "1 rows estimated, 20,001 counted" in fires("P8", recorded("postgres", "stale_page", "analyze_json"))


@pytest.mark.parametrize(
    ("estimated", "counted", "fire"),
    [(100, 1000, True), (101, 1000, False), (99, 999, False), (10000, 1000, True), (9999, 1000, False)],
)
def test_p8_at_its_thresholds(estimated: float, counted: float, fire: bool) -> None:
    each = asked(scan("ref", index="i", estimated_read=estimated, actual_read=counted, loops=1))
    assert isinstance(found("P8", each), Finding) == fire


def test_p8_what_is_checked_in_an_index_is_not_counted() -> None:
    """MySQL's count of an index's rows is of those that its condition leaves."""
    node = {"index": "i", "estimated_read": 20000, "loops": 1}
    silent("P8", asked(scan("range", **node, actual_read=10, index_filter="a >= 380")))
    fires("P8", asked(scan("range", **node, actual_read=10)))
    fires("P8", asked(scan("range", **{**node, "estimated_read": 10}, actual_read=20000, index_filter="a >= 380")))


def test_p8_what_a_limit_cut_short_was_not_wrong() -> None:
    node = scan("index_scan", index="i", estimated_read=20000, actual_read=10, loops=1)
    fires("P8", asked(node))
    silent("P8", asked(Node(operation="limit", limit=10, loops=1, children=(node,))))
    silent("P8", asked(node, family="mariadb"))
    sorted_ = Node(operation="sort", loops=1, children=(node,))
    fires("P8", asked(Node(operation="limit", limit=10, loops=1, children=(sorted_,))))


@pytest.mark.parametrize(
    ("planning", "whole", "fire"),
    [(2.0, 8.0, True), (2.0, 10.0, False), (2.1, 10.0, True), (0.5, 1.0, True), (0.49, 1.0, False)],
)
def test_p9_planning_takes_a_large_part_of_the_statement(planning: float, whole: float, fire: bool) -> None:
    each = asked(scan(loops=1), planning_ms=planning, whole_ms=whole)
    outcome = found("P9", each)
    assert isinstance(outcome, Finding) == fire
    if isinstance(outcome, Finding):
        assert outcome.status == "measured"
        # The statement's share is half of the time.
        assert outcome.share == outcome.statements[0].share == pytest.approx(0.5 * planning / whole)


def test_p9_of_two_servers_the_one_that_plans_longer_is_named() -> None:
    each = asked(scan(loops=1), scan(loops=1), planning_ms=3.0, whole_ms=10.0)
    assert each.other
    other = each.other.model_copy(update={"planning_ms": 4.0, "whole_ms": 10.0})
    assert "on B took 4,000" in fires("P9", each.model_copy(update={"other": other}), "measured")


def test_p9_says_what_it_needs() -> None:
    unexecuted, untimed = found("P9", asked(scan())), found("P9", asked(scan(loops=1)))
    assert isinstance(unexecuted, Unseen) and "--execute" in unexecuted.why
    assert isinstance(untimed, Unseen) and "does not say how long it planned" in untimed.why


@pytest.mark.parametrize("name", ["P5", "P6"])
def test_rules_about_two_servers_do_not_judge_one(name: str) -> None:
    assert isinstance(found(name, asked(scan())), Unseen)


def test_p8_needs_an_execution() -> None:
    outcome = found("P8", asked(scan(estimated_rows=5)))
    assert isinstance(outcome, Unseen) and "--execute" in outcome.why


def test_every_rule_speaks_of_no_plans_at_all() -> None:
    outcomes = judged((), LIMITS)
    assert {each.suspect for each in outcomes} == set(RULES) and all(isinstance(each, Unseen) for each in outcomes)


def test_shares_of_several_statements_add_up_and_the_largest_comes_first() -> None:
    slow = asked(scan(filter="a = 1", actual_read=5000, actual_rows=1, loops=1))
    less = slow.model_copy(update={"statement": "1" * 16, "share": 0.2})
    outcome = judged((less, slow), LIMITS)[0]
    assert isinstance(outcome, Finding)
    assert outcome.share == pytest.approx(0.7)
    assert [each.statement for each in outcome.statements] == ["0" * 16, "1" * 16]
