"""What follows from calls that one server's code has and the other's lacks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from upshift.explain.code import Code
from upshift.explain.inlining import Examined, causes, changes, families, inlined
from upshift.explain.symbols import Groups


def code(
    calls: Mapping[str, int] = {}, cold: Mapping[str, int] = {}, *, named: set[str] | None = None, length: int = 10
) -> Code:
    return Code(
        calls=Counter(calls),
        cold_calls=Counter(cold),
        instructions=length,
        mnemonics=Counter({"mov": length}),
        named=named or set(),
    )


def examined(
    functions: Mapping[str, Code],
    self_us: Mapping[str, float],
    callers: Mapping[str, Mapping[str, int]] = {},
    *,
    more: tuple[str, ...] = (),
) -> Examined:
    return Examined(functions, {*functions, *more}, self_us, callers, 0.01)


BEFORE = examined(
    {"outer": code({"middle": 1}), "middle": code({"leaf": 1, "own": 1}), "leaf": code()},
    {"outer": 1.0, "middle": 2.0, "leaf": 4.0},
    {"middle": {"outer": 600}, "leaf": {"middle": 300, "elsewhere": 100}},
)


def test_a_vanished_call_names_callee_and_caller_and_its_calls() -> None:
    after = examined({"outer": code({"own": 1, "leaf": 1}, length=15), "leaf": code()}, {"outer": 2.0, "leaf": 4.0})
    (found,) = inlined(BEFORE, after, Groups())
    assert (found.callee, found.caller, found.calls_before, found.calls_after) == ("middle", "outer", 1, 0)
    assert found.symbol_gone and found.moved_calls == ("leaf", "own") and found.proof == "code"
    assert (found.callee_us_before, found.callee_us_after, found.under_us_before) == (2.0, 0.0, 6.0)


def test_nothing_follows_where_the_code_is_the_same() -> None:
    assert inlined(BEFORE, BEFORE, Groups()) == ()


def test_a_call_that_moved_to_the_cold_part_was_not_inlined() -> None:
    after = examined({**BEFORE.code, "outer": code(cold={"middle": 1})}, BEFORE.self_us)
    assert inlined(BEFORE, after, Groups()) == ()


def test_calls_that_the_cold_part_had_before_did_not_move_there() -> None:
    before = examined({**BEFORE.code, "outer": code({"middle": 1}, {"middle": 2})}, BEFORE.self_us)
    (found,) = inlined(before, examined({**BEFORE.code, "outer": code(cold={"middle": 2})}, BEFORE.self_us), Groups())
    assert (found.callee, found.calls_after, found.cold_calls_after) == ("middle", 0, 2)
    assert inlined(before, examined({**BEFORE.code, "outer": code(cold={"middle": 3})}, BEFORE.self_us), Groups()) == ()


def test_a_call_of_a_function_that_was_never_sampled_is_no_explanation() -> None:
    before = examined({"outer": code({"middle": 1})}, {"outer": 1.0})
    assert inlined(before, examined({"outer": code()}, {"outer": 1.0}), Groups()) == ()


def test_a_name_that_is_another_functions_in_one_server_is_no_vanished_call() -> None:
    groups = Groups({"middle": 1})
    groups.join(("middle", "twin"))
    after = examined({**BEFORE.code, "outer": code({"twin": 1})}, BEFORE.self_us)
    assert inlined(BEFORE, after, groups) == ()


def test_of_several_calls_some_may_go_when_stacks_show_that_they_ran() -> None:
    before = examined({"outer": code({"leaf": 3}), "leaf": code()}, {"leaf": 4.0}, {"leaf": {"outer": 400}})
    left = {"outer": code({"leaf": 1}), "leaf": code()}
    (found,) = inlined(before, examined(left, {"outer": 2.0}, {"leaf": {"outer": 4}}), Groups())
    assert (found.calls_before, found.calls_after) == (3, 1)
    assert inlined(before, examined(left, {"outer": 2.0}, {"leaf": {"outer": 350}}), Groups()) == ()
    assert inlined(examined(before.code, before.self_us), examined(left, {"outer": 2.0}), Groups()) == ()


def test_a_call_that_is_left_and_runs_no_more_needs_the_callees_own_calls_as_evidence() -> None:
    before = examined({"outer": code({"middle": 1}), "middle": code({"own": 1})}, {"middle": 4.0}, {"middle": {"outer": 400}})
    left = {"outer": code({"middle": 2, "own": 1}), "middle": code({"own": 1})}
    (found,) = inlined(before, examined(left, {"outer": 2.0}), Groups())
    assert (found.calls_before, found.calls_after, found.moved_calls) == (1, 2, ("own",))
    left["outer"] = code({"middle": 2})
    assert inlined(before, examined(left, {"outer": 2.0}), Groups()) == ()


def test_a_promoted_call_is_told_by_the_address_that_the_caller_learnt() -> None:
    before = examined({"outer": code(), "leaf": code()}, {"leaf": 4.0}, {"leaf": {"outer": 100}})
    learnt = {"outer": code(named={"leaf"}), "leaf": code()}
    (found,) = inlined(before, examined(learnt, {"outer": 1.0}), Groups())
    assert found.indirect and found.calls_before == 0 and found.proof == "samples"
    # Promoted and not inlined: it calls by name now.
    called = {"outer": code({"leaf": 1}, named={"leaf"}), "leaf": code()}
    assert inlined(before, examined(called, {"outer": 1.0, "leaf": 4.0}), Groups()) == ()
    # The address alone proves nothing: stacks never saw the two together.
    apart = examined(before.code, before.self_us, {"leaf": {"other": 100}})
    assert inlined(apart, examined(learnt, {"outer": 1.0}), Groups()) == ()


def test_a_family_has_the_time_of_what_it_took_in_by_its_callers_share() -> None:
    after = examined({"outer": code(length=30), "middle": code(), "leaf": code()}, {"outer": 3.5, "leaf": 0.9})
    found = inlined(BEFORE, after, Groups())
    (outer,) = families(found, BEFORE, after)
    # All of the middle's 2 µs, and three quarters of the leaf's 4: the rest came from elsewhere.
    assert outer.name == "outer" and outer.members == ("leaf", "middle")
    assert (outer.own_before_us, outer.before_us, outer.after_us) == (1.0, 1.0 + 2.0 + 3.0, 3.5)
    blind = examined(BEFORE.code, BEFORE.self_us)
    assert families(inlined(blind, after, Groups()), blind, after) == ()


def test_what_became_of_a_functions_code() -> None:
    after = examined(
        {"outer": code(length=30), "middle": code({"own": 1}), "leaf": code(), "idle": code(), "other": code(length=8)},
        {"outer": 3.0, "middle": 1.0, "other": 2.0},
        more=("new",),
    )
    before = examined(
        {**BEFORE.code, "idle": code(), "other": code(), "removed": code()},
        {**BEFORE.self_us, "idle": 1.0, "other": 2.0, "removed": 1.0},
        BEFORE.callers,
    )
    found, changed = inlined(before, after, Groups()), changes(before, after)
    names = ("outer", "middle", "leaf", "idle", "other", "new", "removed", "unread")
    assert causes(names, before, after, found, changed) == {
        "outer": "takes in",
        "middle": "takes in",
        "leaf": "inlined",
        "idle": "seen no more",
        "other": "compiled otherwise",
        "new": "not in both",
        "removed": "not in both",
        "unread": "not examined",
    }
    assert {each.name for each in changed if each.same_instructions} == {"leaf", "idle"} | {"middle"}
