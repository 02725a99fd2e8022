"""What functions execute for a query, before and after: rows that add up to all of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from explained_example import inlined

from upshift.explain import counted
from upshift.explain.symbols import Groups
from upshift.instructions.model import Count, FunctionCount

SERVERS = (Path("/a/mysqld"), Path("/b/mysqld.1"))


def count(program: str, *functions: tuple[str, str, float, float]) -> Count:
    found = tuple(
        FunctionCount(program=where or program, symbol=symbol, instructions=instructions, calls=calls)
        for where, symbol, instructions, calls in functions
    )
    total = sum(each.instructions for each in found)
    return Count(arm=program, workload="w", instructions_per_query=total, calls_per_query=None, queries=10, functions=found)


BEFORE = count(
    "mysqld", ("", "_Z3runv", 6000, 1), ("", "_Z4leafv", 3000, 20), ("libc.so.6", "malloc", 900, 3), ("", "_Z4tinyv", 1, 1)
)
AFTER = count(
    "mysqld.1",
    ("", "_Z3runv.llvm.7", 5500, 1),
    ("", "_Z3runv.cold.1", 100, 0),
    ("libc.so.6", "malloc", 850, 3),
    ("", "_Z3offv", 2, 1),
)


def test_copies_and_cold_parts_are_their_functions_and_what_was_inlined_is_called_no_more() -> None:
    found = counted.rows(counted.works((BEFORE, AFTER), SERVERS, Groups()), {"_Z4leafv": "leaf"})
    leaf, run, malloc, other = found
    assert (leaf.name, leaf.instructions_after, leaf.calls_before, leaf.calls_after) == ("leaf", 0, 20, 0)
    assert (run.name, run.instructions_before, run.instructions_after, run.calls_after) == ("_Z3runv", 6000, 5600, 1)
    assert (malloc.name, malloc.home) == ("malloc (libc.so.6)", "library")
    assert (other.name, other.functions, other.calls_before) == ("other functions of the server", 2, 1)
    assert [each.rest for each in found] == [False, False, False, True]


def test_rows_add_up_to_all_instructions() -> None:
    found = counted.rows(counted.works((BEFORE, AFTER), SERVERS, Groups()), {})
    assert sum(row.instructions_before for row in found) == BEFORE.instructions_per_query
    assert sum(row.instructions_after for row in found) == AFTER.instructions_per_query


def test_functions_that_share_their_code_count_as_one() -> None:
    groups = Groups({"_Z3runv": 5})
    groups.join(("_Z3runv", "_Z4leafv"))
    first, *_rest = counted.rows(counted.works((BEFORE, AFTER), SERVERS, groups), {})
    assert (first.name, first.instructions_before, first.calls_before) == ("_Z3runv", 9000, 21)


@pytest.mark.parametrize("counts", [None, (BEFORE, count("mysqld.1"))])
def test_without_counts_of_both_there_are_no_rows(counts: tuple[Count, Count] | None) -> None:
    assert counted.rows(counted.works(counts, SERVERS, Groups()), {}) == ()


def test_a_call_that_is_gone_has_how_often_a_query_made_it() -> None:
    gone = [inlined("_Z4leafv", "_Z3runv"), inlined("_Z5nevermet", "_Z3runv")]
    leaf, never = counted.with_calls(gone, counted.works((BEFORE, AFTER), SERVERS, Groups()))
    assert (leaf.calls_per_query_before, leaf.calls_per_query_after) == (20, 0)
    assert (never.calls_per_query_before, never.calls_per_query_after) == (0, 0)
    assert counted.with_calls(gone, counted.works(None, SERVERS, Groups())) == tuple(gone)
