"""What one server's stacks and code show."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest
from explained_example import block, in_call, on
from fakes import FakeProgress, FakeShell

from upshift.explain import evidence
from upshift.explain.code import Code
from upshift.explain.inline_frames import Line
from upshift.explain.inlining import Examined, families, inlined
from upshift.explain.rows import sampled
from upshift.explain.script import Frame
from upshift.explain.symbols import Groups, Part, SymbolTable
from upshift.explain.tools import Tools
from upshift.workbench import Workbench

TABLE = SymbolTable([Part(0x10, 0x20, ("outer", "twin")), Part(0x20, 0x30, ("leaf",))], [])
TOOLS = Tools(objdump=Path("/bin/objdump"), symbolizer=None, demangler=None)


def code(*calls: str, jumps: tuple[str, ...] = (), frame_pointer: bool = True) -> Code:
    return Code(calls=Counter((*calls, *jumps)), tail_calls=set(jumps), frame_pointer=frame_pointer)


@pytest.fixture
def examine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):  # type: ignore[no-untyped-def]
    def run(found: Mapping[str, Code], stacks: evidence.Stacks) -> Examined:
        monkeypatch.setattr(evidence, "disassemble", lambda *_given: found)
        bench = Workbench(tmp_path, FakeShell(), tmp_path / "log", FakeProgress())
        one = sampled([block(stacks)], Groups())
        return evidence.examine(bench, TOOLS, Path("/server"), TABLE, set(found), one, stacks, Groups())

    return run


def test_callers_are_counted_once_a_stack_and_not_through_the_kernel(examine) -> None:  # type: ignore[no-untyped-def]
    stacks = Counter({on("leaf", "outer", "leaf", "outer"): 4, in_call("futex"): 3})
    found = examine({"outer": code("leaf"), "leaf": code("outer")}, stacks)
    assert found.callers == {"leaf": {"outer": 4}, "outer": {"leaf": 4}}


def test_what_came_through_a_library_did_not_come_through_another_caller(examine) -> None:  # type: ignore[no-untyped-def]
    """90 samples of a comparison come through qsort, 10 through the caller whose call is gone."""
    sorting = (*on("leaf"), Frame("libc.so.6", "qsort", 0), *on("main"))
    stacks = Counter({sorting: 90, on("leaf", "outer"): 10, on("outer"): 10})
    before = examine({"outer": code("leaf"), "leaf": code()}, stacks)
    assert before.callers == {"leaf": {"": 90, "outer": 10}}
    after = examine({"outer": code(), "leaf": code()}, Counter({on("outer"): 20, on("leaf"): 90}))
    (call,) = inlined(before, after, Groups())
    us = before.us_a_sample
    assert call.callee_us_before == pytest.approx(10 * us) and call.under_us_before == pytest.approx(10 * us)
    (family,) = families((call,), before, after)
    assert family.before_us == pytest.approx(20 * us)


def test_a_function_that_calls_itself_came_through_who_called_it_first(examine) -> None:  # type: ignore[no-untyped-def]
    stacks = Counter({on("leaf", "leaf", "leaf", "outer"): 100, on("outer"): 10})
    before = examine({"outer": code("leaf"), "leaf": code()}, stacks)
    assert before.callers == {"leaf": {"outer": 100}}
    after = examine({"outer": code(), "leaf": code()}, Counter({on("outer"): 110}))
    (call,) = inlined(before, after, Groups())
    us = before.us_a_sample
    assert call.callee_us_before == pytest.approx(100 * us) and call.under_us_before == pytest.approx(100 * us)
    (family,) = families((call,), before, after)
    assert family.before_us == pytest.approx(110 * us)


def test_a_function_that_calls_itself_is_not_taken_for_one_that_jumped(examine) -> None:  # type: ignore[no-untyped-def]
    """Calls of a function by itself are in no list of calls, so that a jump back to it would look like the only way."""
    stacks = Counter({on("leaf", "leaf", "outer"): 5})
    found = examine({"outer": code("leaf"), "leaf": code("jumper"), "jumper": code(jumps=("leaf",))}, stacks)
    assert found.callers == {"leaf": {"outer": 5}}


def test_a_function_that_jumped_away_left_no_frame_and_is_put_between(examine) -> None:  # type: ignore[no-untyped-def]
    stacks = Counter({on("leaf", "outer"): 5})
    found = examine({"outer": code("jumper"), "jumper": code(jumps=("leaf",)), "leaf": code()}, stacks)
    assert found.callers == {"leaf": {"jumper": 5}, "jumper": {"outer": 5}}
    # Two that could have been it: the stack stays as it is.
    two = {"outer": code("jumper", "other"), "jumper": code(jumps=("leaf",)), "other": code(jumps=("leaf",)), "leaf": code()}
    assert examine(two, stacks).callers == {"leaf": {"outer": 5}}
    # A call through a pointer is in no code.
    assert examine({"outer": code("far"), "far": code("leaf"), "leaf": code()}, stacks).callers == {"leaf": {"outer": 5}}


def test_without_frame_pointers_stacks_tell_no_callers(examine) -> None:  # type: ignore[no-untyped-def]
    bare = {"outer": code("leaf", frame_pointer=False), "leaf": code(frame_pointer=False)}
    assert examine(bare, Counter({on("leaf", "outer"): 5})).callers == {}


def test_what_was_hardly_seen_is_not_read() -> None:
    stacks = Counter({on("leaf.cold", "outer"): 3, on("rare"): 2})
    assert evidence.wanted(stacks) == {"leaf", "outer"}


def test_a_line_of_code_that_several_functions_share_is_each_ones() -> None:
    lines = {0x12: (Line("outer", "/src/a.cc", 3),), 0x14: (Line("outer", "/src/a.cc", 4),), 0x22: (Line("leaf", "", 0),)}
    assert evidence.files(TABLE, lines) == {"outer": "/src/a.cc:3", "twin": "/src/a.cc:3"}


def test_groups_take_the_name_that_was_sampled_most() -> None:
    groups = evidence.groups_of([TABLE], [Counter({on("twin"): 2})])
    assert groups.of("outer") == "twin"


def test_addresses_are_those_of_innermost_frames_in_the_server() -> None:
    stacks = Counter({on("leaf", "outer"): 2, in_call("futex"): 3, (Frame("libc.so.6", "memcpy", 0), *on("outer")): 4})
    assert evidence.addresses(stacks) == {0x1000: 2}
