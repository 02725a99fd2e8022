"""What differs between two plans, and what does not count as a difference."""

from __future__ import annotations

import pytest
import recordings

from upshift.stack.plans.compare import compare
from upshift.stack.plans.model import Access, Join, JoinKind, Method, Node
from upshift.stack.plans.mysql import joined


def read(name: str, access: Access = "ref", index: str | None = "i", **fields: object) -> Node:
    return Node.model_validate({"operation": "access", "alias": name, "access": access, "index": index, **fields})


def join(*children: Node, method: Method = "nested_loop", kind: JoinKind = "inner") -> Node:
    return Node(operation="join", join=Join(kind=kind, method=method), children=children)


def differing(a: Node, b: Node) -> list[str]:
    return [each.what for each in compare(a, b)]


def test_a_plan_is_the_same_as_itself_and_figures_do_not_count() -> None:
    plan = join(read("o"), read("c", "unique"))
    other = join(read("o", estimated_rows=5, actual_rows=7, loops=1), read("c", "unique", estimated_cost=9.5))
    assert differing(plan, plan) == differing(plan, other) == []


@pytest.mark.parametrize(
    ("a", "b", "what"),
    [
        (read("o"), read("o", "full_scan", None), ["access"]),
        (read("o", index="i"), read("o", index="j"), ["index"]),
        (read("o", bounds=("a >= 1", "a < 5")), read("o", bounds=("a < 5",)), ["bounds"]),
        (read("o", covering=True), read("o", covering=False), ["covering"]),
        (join(read("o"), read("c")), join(read("c"), read("o")), ["order"]),
        (join(read("o"), read("c")), join(read("o"), read("c"), method="hash"), ["join"]),
        (join(read("o"), read("c")), read("o"), ["tables"]),
        (join(read("o"), read("o")), join(read("o"), read("o", "full_scan", None)), ["access"]),
    ],
)
def test_each_kind_of_difference_is_named_alone(a: Node, b: Node, what: list[str]) -> None:
    assert differing(a, b) == what == differing(b, a)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        # Values are written by each server in its own way.
        (read("o", bounds=("a = 5",)), read("o", bounds=("a = '5'",))),
        # What one does not say.
        (read("o", "range", bounds=None), read("o", "range", bounds=("a > 5",))),
        (read("o", bounds=("a = 5", "b is not null")), read("o", bounds=("a = 5",))),
        (read("o", "const"), read("o", "unique")),
        # A primary key has another name on PostgreSQL, and rows beside it.
        (read("o", "ref", "PRIMARY", covering=False), read("o", "ref", "orders_pkey", covering=False)),
        (read("o", "ref", "PRIMARY", key_columns=("id",)), read("o", "ref", "named", key_columns=("id",))),
        # A row that is read before all others may stand anywhere.
        (join(read("c", "const"), read("o")), join(read("o"), read("c", "const"))),
        (Node(operation="rows", access="none"), read("o", "const")),
    ],
)
def test_what_is_no_difference(a: Node, b: Node) -> None:
    assert differing(a, b) == [] == differing(b, a)


def test_a_difference_says_what_each_does() -> None:
    (found,) = compare(read("o", index="orders_customer"), read("o", "full_scan", None))
    assert str(found) == "access of o: ref using orders_customer | full_scan"


ALIKE = (
    "point",
    "ref",
    "ref_prefix",
    "range",
    "ref_range",
    "full",
    "in_list",
    "join_const",
    "join_unique",
    "sort_limit",
    "either",
)


@pytest.mark.parametrize("name", ALIKE)
def test_recorded_plans_of_three_servers_are_the_same(name: str) -> None:
    mysql = joined(recordings.tree("mysql", name, "json2"), recordings.tree("mysql", name, "json1"))
    mariadb, postgres = recordings.tree("mariadb", name, "json"), recordings.tree("postgres", name, "json")
    assert [*compare(mysql, mariadb), *compare(mysql, postgres), *compare(mariadb, postgres)] == []


@pytest.mark.parametrize(
    ("name", "what"),
    [("join_left", ["access", "join"]), ("exists", ["order", "access"]), ("ref_covering", []), ("window", ["covering"])],
)
def test_recorded_plans_that_differ_say_in_what(name: str, what: list[str]) -> None:
    assert differing(recordings.tree("mariadb", name, "json"), recordings.tree("postgres", name, "json")) == what
