"""Functions that were asked for: found by name, as functions of their own and where they were inlined."""

from __future__ import annotations

from collections import Counter

import pytest

from upshift.explain.focus import focus, has_function, is_named, symbols_like
from upshift.explain.inline_frames import Line
from upshift.explain.intervals import Noise
from upshift.explain.model import Focus
from upshift.explain.script import KERNEL, Frame, Stack
from upshift.explain.symbols import Groups, Part, SymbolTable

SHOWN = {"_Z6commitv": "commit", "_ZN3log4waitEv": "log::wait", "_Z5writev": "write"}
WITH_WAIT = SymbolTable([Part(0x10, 0x20, ("_Z6commitv",)), Part(0x20, 0x30, ("_ZN3log4waitEv.cold.0",))], [])
WITHOUT = SymbolTable([Part(0x10, 0x20, ("_Z6commitv",))], [])
TABLES = (WITH_WAIT, WITHOUT)
BEFORE: Counter[Stack] = Counter(
    {
        (Frame("", "_ZN3log4waitEv", 0x21), Frame("", "_Z6commitv", 0x12)): 6,
        (
            Frame(KERNEL, "schedule", 0),
            Frame("libc.so.6", "wait", 0),
            Frame("", "_ZN3log4waitEv", 0x22),
            Frame("", "_Z6commitv", 0x12),
        ): 2,
        (Frame("", "_Z6commitv", 0x13),): 5,
    }
)
AFTER: Counter[Stack] = Counter({(Frame("", "_Z6commitv", 0x14),): 3, (Frame("", "_Z6commitv", 0x15),): 5})
LINES_BEFORE = {
    0x21: (Line("_ZN3log4waitEv", "/src/log.cc", 30),),
    0x22: (Line("_ZN3log4waitEv", "/src/log.cc", 31),),
    0x12: (Line("_Z6commitv", "/src/trx.cc", 7),),
}
LINES_AFTER = {
    0x14: (
        Line("_ZN3log4waitEv", "/src/log.cc", 30),
        Line("_Z5writev", "/src/log.cc", 50),
        Line("_Z6commitv", "/src/trx.cc", 7),
    ),
    0x15: (Line("_Z6commitv", "/src/trx.cc", 9),),
}


def found(name: str, *, lines: bool = True) -> Focus:
    known = (LINES_BEFORE, LINES_AFTER) if lines else ({}, {})
    (one,) = focus((name,), (BEFORE, AFTER), (0.5, 0.25), TABLES, SHOWN, known, Noise(), Groups(), inlined_known=(lines, lines))
    return one


def test_a_function_is_told_with_its_lines_and_callers_before() -> None:
    before = found("log::wait").before
    assert before.own_function
    assert (before.samples, before.us, before.own_us, before.inlined_us) == (8, 4.0, 3.0, 0.0)
    assert [(each.line, each.us) for each in before.lines] == [("/src/log.cc:30", 3.0), ("/src/log.cc:31", 1.0)]
    ((caller),) = before.callers
    assert (caller.name, caller.line, caller.inlined, caller.us) == ("commit", "/src/trx.cc:7", False, 4.0)


def test_after_it_was_inlined_it_is_told_from_line_tables() -> None:
    after = found("wait").after
    assert not after.own_function
    assert (after.samples, after.us, after.own_us, after.inlined_us) == (3, 0.75, 0.75, 0.75)
    ((caller),) = after.callers
    assert (caller.name, caller.line, caller.inlined) == ("write", "/src/log.cc:50", True)


def test_without_line_tables_what_was_inlined_is_seen_nowhere() -> None:
    one = found("wait", lines=False)
    assert one.before.samples == 8 and one.before.lines == () and one.before.callers[0].line == ""
    assert one.after.samples == 0 and one.after.callers == ()


@pytest.mark.parametrize("known", [(False, False), (True, False), (False, True)])
def test_a_function_whose_inlined_copies_have_no_names_is_not_said_to_take_nothing(known: tuple[bool, bool]) -> None:
    lines = (LINES_BEFORE if known[0] else {}, LINES_AFTER if known[1] else {})
    (one,) = focus(("wait",), (BEFORE, AFTER), (0.5, 0.25), TABLES, SHOWN, lines, Noise(), Groups(), inlined_known=known)
    assert (one.before.inlined_known, one.after.inlined_known) == known and one.before.samples == 8
    assert (one.ratio, one.ci_low, one.ci_high) == (None, None, None)


def test_without_frame_pointers_only_what_runs_in_the_function_is_its_own() -> None:
    both = (LINES_BEFORE, LINES_AFTER)
    (one,) = focus(("commit",), (BEFORE, AFTER), (0.5, 0.25), TABLES, SHOWN, both, Noise(), Groups(), (False, True))
    assert (one.before.callers_known, one.before.samples, one.before.own_us) == (False, 5, 2.5)
    (one,) = focus(("wait",), (BEFORE, AFTER), (0.5, 0.25), TABLES, SHOWN, both, Noise(), Groups(), (False, False))
    assert one.before.samples == 8 and one.before.callers == ()
    assert [each.name for each in one.after.callers] == ["write"]


def test_its_time_is_compared_with_an_interval() -> None:
    """Three samples of 0.25 µs beside eight of 0.5 µs: the limits are Clopper and Pearson's on 3 of 11."""
    one = found("wait")
    assert one.ratio == pytest.approx(3 * 0.25 / (8 * 0.5))
    assert [one.ci_low, one.ci_high] == pytest.approx([0.0320, 0.7812], abs=1e-4)
    both = (LINES_BEFORE, LINES_AFTER)
    shaken = Noise(shared_error=0.2, freedom=4)
    (wider,) = focus(("wait",), (BEFORE, AFTER), (0.5, 0.25), TABLES, SHOWN, both, shaken, Groups())
    assert wider.ci_low and wider.ci_high and one.ci_low and one.ci_high
    assert wider.ci_low < one.ci_low and wider.ci_high > one.ci_high


@pytest.mark.parametrize(
    ("names", "known", "compared"),
    [
        (("nosuch",), (True, True), (None, None, None)),
        (("wait",), (False, True), (None, None, None)),
        (("write",), (True, True), (None, pytest.approx(0.2066, abs=1e-4), None)),
    ],
)
def test_what_cannot_be_compared_has_no_ratio(
    names: tuple[str, ...], known: tuple[bool, bool], compared: tuple[object, ...]
) -> None:
    """A function that nobody ran, one whose callers one server alone tells, and one that ran after alone."""
    lines = (LINES_BEFORE, LINES_AFTER)
    (one,) = focus(names, (BEFORE, AFTER), (0.5, 0.25), TABLES, SHOWN, lines, Noise(), Groups(), known)
    assert (one.ratio, one.ci_low, one.ci_high) == compared


def test_a_function_that_nobody_has_is_told_as_such() -> None:
    one = found("nosuch")
    assert not one.before.own_function and not one.after.own_function and one.before.samples == 0


def test_recursion_counts_a_stack_once_and_names_who_began_it() -> None:
    stack = (Frame("", "_Z6commitv", 0x12), Frame("", "_Z6commitv", 0x12), Frame("", "_Z5writev", 0x40))
    stacks: tuple[Counter[Stack], Counter[Stack]] = (Counter({stack: 4}), Counter())
    (one,) = focus(("commit",), stacks, (1.0, 1.0), TABLES, SHOWN, ({}, {}), Noise(), Groups())
    assert one.before.samples == 4 and [each.name for each in one.before.callers] == ["write"]


def test_a_function_that_shares_its_code_in_one_server_is_counted_with_the_others_in_both() -> None:
    """After BOLT folded two functions, samples of both have the first name in the symbol table."""
    shown = {"_Z3endv": "end", "_Z4stopv": "stop", "_Z4mainv": "main"}
    before = SymbolTable([Part(0x10, 0x20, ("_Z4stopv",)), Part(0x20, 0x30, ("_Z3endv",))], [])
    after = SymbolTable([Part(0x10, 0x20, ("_Z3endv", "_Z4stopv"))], [])
    groups = Groups()
    groups.join(("_Z3endv", "_Z4stopv"))
    outer = Frame("", "_Z4mainv", 0x40)
    stacks_before: Counter[Stack] = Counter({(Frame("", "_Z4stopv", 0x11), outer): 5, (Frame("", "_Z3endv", 0x21), outer): 3})
    stacks_after: Counter[Stack] = Counter({(Frame("", "_Z3endv", 0x11), outer): 8, (outer,): 9})
    stacks, tables = (stacks_before, stacks_after), (before, after)
    (one,) = focus(("stop",), stacks, (1.0, 1.0), tables, shown, ({}, {}), Noise(), groups)
    assert (one.before.samples, one.after.samples, one.ratio, one.same_code) == (8, 8, 1.0, ("end",))
    assert [(each.name, each.us) for each in one.after.callers] == [("main", 8.0)] and one.after.own_function
    # Inlined code has its own name, and is of the group as well.
    inlined = {0x40: (Line("_Z3endv", "/src/end.cc", 2), Line("_Z4mainv", "/src/main.cc", 5))}
    (one,) = focus(("stop",), stacks, (1.0, 1.0), tables, shown, ({}, inlined), Noise(), groups)
    assert one.after.samples == 17 and one.after.inlined_us == 9.0
    (one,) = focus(("stop",), stacks, (1.0, 1.0), tables, shown, ({}, {}), Noise(), Groups())
    assert (one.before.samples, one.after.samples, one.same_code) == (5, 0, ())


def test_of_many_functions_with_the_same_code_some_are_named() -> None:
    names = [f"f{number:02}" for number in range(20)]
    groups = Groups()
    groups.join(tuple(names))
    table = SymbolTable([Part(0x10, 0x20, tuple(names))], [])
    stacks: Counter[Stack] = Counter({(Frame("", "f00", 0x11),): 5})
    (one,) = focus(("f07",), (stacks, stacks), (1.0, 1.0), (table, table), {}, ({}, {}), Noise(), groups)
    assert one.same_code == tuple(each for each in names if each != "f07")[:12] and one.same_code_more == 7


@pytest.mark.parametrize(
    ("shown", "name", "meant"),
    [
        ("log_wait_for_flush", "log_wait_for_flush", True),
        ("small::BTree::find", "find", True),
        ("small::BTree::find", "BTree::find", True),
        ("small::BTree::refind", "find", False),
        ("(anonymous namespace)::run", "run", True),
        ("bool os_event_wait_for<log_wait(log_t const&)::$_0>", "os_event_wait_for", True),
        ("log_wait(log_t const&)::$_0::operator()", "log_wait", False),
        ("Vector<int>::push<long>(long)", "Vector::push", True),
        ("std::operator<< <std::char_traits<char> >", "operator<<", True),
        ("std::operator<< <std::char_traits<char> >", "std::operator<< <std::char_traits<char> >", True),
        ("std::operator< <char>", "operator<<", False),
        # A frame of the kernel or a library has no name here.
        ("", "std::operator<< <std::char_traits<char> >", False),
        ("", "<int>", False),
        ("run", "<int>", False),
    ],
)
def test_which_functions_a_name_means(shown: str, name: str, meant: bool) -> None:
    assert is_named(shown, name) == meant


def test_only_symbols_that_may_be_it_are_looked_at() -> None:
    assert symbols_like(WITH_WAIT, ("log::wait",)) == {"_ZN3log4waitEv"}
    assert symbols_like(WITH_WAIT, ()) == set()


@pytest.mark.parametrize(
    ("name", "there"),
    [
        ("~THD", True),
        ("THD::~THD", True),
        ("find<int>", True),
        ("operator==", True),
        ("THD::operator bool", True),
        ("run()::{lambda()#1}::operator()", True),
        ("~Other", False),
        ("operator!=", False),
        ("operator<<", True),
        ("std::operator<<", True),
        ("std::ostream::operator<<", True),
        ("std::istream::operator>>", False),
        ("Other::operator bool", False),
    ],
)
def test_a_destructor_an_operator_and_a_templates_function_are_found(name: str, there: bool) -> None:
    shown = {
        "_ZN3THDD2Ev": "THD::~THD",
        "_Z4findIiEvv": "void find<int>",
        "_ZeqRK3FooS1_": "operator==",
        "_ZNK3THDcvbEv": "THD::operator bool",
        "_ZZ3runvENKUlvE_clEv": "run()::{lambda()#1}::operator()",
        "_ZStlsISt11char_traitsIcEERSt13basic_ostreamIcT_ES5_c": "std::operator<< <std::char_traits<char> >",
        "_ZNSolsEi": "std::ostream::operator<<",
    }
    table = SymbolTable([Part(16 * number, 16 * number + 16, (symbol,)) for number, symbol in enumerate(shown)], [])
    assert has_function(table, name, shown) == there
