"""Conditions of all servers in one form."""

from __future__ import annotations

import json

import pytest

from upshift.stack.plans import text
from upshift.stack.plans.mariadb_trace import chosen_ranges


@pytest.mark.parametrize(
    ("written", "bounds"),
    [
        ("(100 <= created < 140)", ("created >= 100", "created < 140")),
        ("(NULL < a < 100)", ("a < 100",)),
        ("(NULL < a)", ()),
        ("(a < 100)", ("a < 100",)),
        ("(5 < a)", ("a > 5",)),
        ("(customer_id = 42 AND 1000 <= created < 9000)", ("customer_id = 42", "created >= 1000", "created < 9000")),
        ("((orders.created >= 100) AND (orders.created < 140))", ("created >= 100", "created < 140")),
        ("((customers.email)::text = 'c12@shop.example'::text)", ("email = 'c12@shop.example'",)),
        ("(orders.id = '-5'::integer)", ("id = '-5'",)),
        ("(id = ANY ('{1,5,9}'::integer[]))", ("id in (1,5,9)",)),
        ("(c.id = o.customer_id)", ("id = o.customer_id",)),
        ("(created IS NOT NULL)", ("created is not null",)),
        ("(a between 1 and 5)", ("a >= 1", "a <= 5")),
        ("((at >= '2026-01-01 00:00:00'::timestamp without time zone))", ("at >= '2026-01-01 00:00:00'",)),
        ("((name)::text = 'it''s (a) and b'::text)", ("name = 'it''s (a) and b'",)),
        (r"((t.name = 'it\'s (a') and (t.a > 5) and (t.a < 9))", (r"name = 'it\'s (a'", "a > 5", "a < 9")),
        ("('a' <= name <= 'b and c')", ("name >= 'a'", "name <= 'b and c'")),
        ("(ROW(a, b) > ROW(1, 2))", ("ROW(a, b) > ROW(1, 2)",)),
    ],
)
def test_a_condition_is_its_bounds(written: str, bounds: tuple[str, ...]) -> None:
    assert text.bounds(written) == bounds


@pytest.mark.parametrize(
    ("ranges", "bounds"),
    [
        (["(id = 1) OR (id = 5)"], ("id in (1,5)",)),
        (["(id = 1)", "(id = 5)"], ("id in (1,5)",)),
        (["(1 <= a < 3)", "(7 < a)"], ("(a >= 1 and a < 3) or (a > 7)",)),
        (["(1 <= a < 3)"], ("a >= 1", "a < 3")),
    ],
)
def test_ranges_are_bounds_or_a_list(ranges: list[str], bounds: tuple[str, ...]) -> None:
    assert text.ranges(ranges) == bounds


@pytest.mark.parametrize(
    ("condition", "plain"),
    [
        ("((`shop`.`o`.`a` = 3))", "shop.o.a = 3"),
        ("('`a`' = b)", "'`a`' = b"),
        ("(a = 1) or (b = 2)", "(a = 1) or (b = 2)"),
        ("((total)::numeric > 3.5)", "total > 3.5"),
        ("(x = 'a::text')", "x = 'a::text'"),
    ],
)
def test_a_condition_loses_quotes_of_names_casts_and_outer_parentheses(condition: str, plain: str) -> None:
    assert text.plain(condition) == plain


@pytest.mark.parametrize(
    ("written", "bounds"),
    [
        ("(100) <= (created) < (140)", ("created >= 100", "created < 140")),
        ("(42,1000) <= (customer_id,created) < (42,9000)", ("customer_id = 42", "created >= 1000", "created < 9000")),
        ("(NULL) < (a) < (100)", ("a < 100",)),
        ("(7) <= (a)", ("a >= 7",)),
        ("(7) < (a)", ("a > 7",)),
        ("(a) < (9)", ("a < 9",)),
        ("(3) <= (a) <= (3)", ("a = 3",)),
        ("(name) <= (a)", ("a >= name",)),
        ("(x,y) <= (a)", ("(x,y) <= (a)",)),
    ],
)
def test_mariadbs_trace_has_the_ranges_that_its_plan_lacks(written: str, bounds: tuple[str, ...]) -> None:
    columns = ["a"] if "(a)" in written else ["created"] if "(created)" in written else ["customer_id", "created"]
    chosen = {"range_access_plan": {"index": "i", "ranges": [written]}}
    trace = json.dumps({"steps": [{"table": "t", "x": [{"index": "i", "key_parts": [*columns, "id"]}, chosen]}]})
    assert chosen_ranges(trace) == {("t", "i"): bounds}


def test_a_trace_with_bytes_in_it_is_read() -> None:
    trace = """{"table": "t", "x": {"index": "i", "key_parts": ["name"]},
        "y": {"range_access_plan": {"index": "i", "ranges": ["(c\\0\\0) <= (name) <= (c%s)"]}}}"""
    assert chosen_ranges(trace % ("\u00ff" * 20)) == {("t", "i"): ("name like 'c%'",)}
