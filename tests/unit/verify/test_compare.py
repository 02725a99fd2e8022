"""Tests on the optimised server beside the plain one: what is its fault, what is no news, and what nobody knows."""

from __future__ import annotations

import pytest

from upshift.errors import NotTested, VerifyFailed
from upshift.server.kind import TestOutcome
from upshift.verify.compare import Compared, Run, compare_nesting, compare_tests, nesting_warnings


def fails(*names: str, asked: list[str] | None = None) -> Run:
    def run(suite: str) -> TestOutcome:
        if asked is not None:
            asked.append(suite)
        return TestOutcome(run=10, passed=10 - len(names), failed=names, passing=())

    return run


def cannot_run(_suite: str) -> TestOutcome:
    raise NotTested("no perl", "install perl")


def test_the_plain_server_is_asked_only_for_what_failed() -> None:
    asked: list[str] = []
    assert compare_tests(fails(), fails(asked=asked), "main") == Compared(run=10, passed=10, failed_on_both=())
    assert asked == []


def test_what_fails_on_both_is_no_news() -> None:
    asked: list[str] = []
    names = ("main.a", "main.b 'row'", "main.b 'mixed'")
    compared = compare_tests(fails(*names), fails(*names, asked=asked), "main")
    assert compared == Compared(run=10, passed=7, failed_on_both=names)
    assert asked == ["main.a,main.b"]


def test_servers_that_fail_alike_in_most_tests_are_not_tested() -> None:
    """Where the machine lets none pass, none fails on the optimised server alone."""
    names = tuple(f"main.{number}" for number in range(6))
    with pytest.raises(NotTested, match=r"6 of 10 tests fail on the plain server, too, main\.0 first"):
        compare_tests(fails(*names), fails(*names), "main")
    assert compare_tests(fails(*names[:5]), fails(*names[:5]), "main").passed == 5


def test_what_fails_on_the_optimised_server_alone_is_named() -> None:
    with pytest.raises(VerifyFailed, match=r"1 of 10 tests fail on the optimised server alone: main\.b 'row'"):
        compare_tests(fails("main.a", "main.b 'row'"), fails("main.a", "main.b 'mixed'"), "main")


def crashes(*names: str) -> Run:
    def run(_suite: str) -> TestOutcome:
        return TestOutcome(run=10, passed=9, failed=("main.a 'row'",), passing=(), crashed=names)

    return run


def test_a_crash_is_not_what_fails_on_the_other_server_too() -> None:
    with pytest.raises(VerifyFailed, match=r"1 of 10 tests fail on the optimised server alone: main\.a 'row'"):
        compare_tests(crashes("main.a"), crashes(), "main")
    for first, other in ((crashes("main.a"), crashes("main.a")), (crashes(), crashes("main.a"))):
        assert compare_tests(first, other, "main").failed_on_both == ("main.a 'row'",)


def test_what_fails_only_in_the_whole_suite_says_nothing() -> None:
    asked: list[str] = []

    def optimised(tests: str) -> TestOutcome:
        asked.append(tests)
        if tests == "main":
            return TestOutcome(run=10, passed=8, failed=("main.a", "main.b 'row'"), passing=())
        return TestOutcome(run=1, passed=1, failed=(), passing=("main.b 'row'",))

    compared = compare_tests(optimised, fails("main.a"), "main")
    assert compared == Compared(run=10, passed=8, failed_on_both=("main.a",), passed_again=("main.b 'row'",))
    assert asked == ["main", "main.b"]


@pytest.mark.parametrize("ran", ["main.b 'mixed'", "nothing"])
def test_what_does_not_run_again_has_failed(ran: str) -> None:
    def optimised(tests: str) -> TestOutcome:
        if tests == "main":
            return TestOutcome(run=10, passed=9, failed=("main.b 'row'",), passing=())
        if ran == "nothing":
            raise NotTested("no test ran of main.b", "")
        return TestOutcome(run=1, passed=1, failed=(), passing=(ran,))

    with pytest.raises(VerifyFailed, match=r"1 of 10 tests fail on the optimised server alone: main\.b 'row'"):
        compare_tests(optimised, fails(), "main")


def test_a_crash_at_the_end_is_looked_for_in_the_whole_suite_of_the_plain_server() -> None:
    asked: list[str] = []
    with pytest.raises(VerifyFailed, match="shutdown_report"):
        compare_tests(fails("shutdown_report"), fails(asked=asked), "main")
    assert asked == ["main"]


def test_only_the_plain_server_can_be_tested() -> None:
    with pytest.raises(VerifyFailed, match="not on the optimised one: no perl"):
        compare_tests(cannot_run, fails(), "short")


def test_neither_server_can_be_tested() -> None:
    with pytest.raises(NotTested, match="no perl"):
        compare_tests(cannot_run, cannot_run, "short")


def test_an_optimised_server_takes_about_as_much_nesting() -> None:
    compared = compare_nesting({"IF": 2080, "CASE": 5}, {"IF": 2079, "CASE": 7})
    assert compared == (("IF", 2080, 2079), ("CASE", 5, 7)) and nesting_warnings(compared) == ()
    with pytest.raises(VerifyFailed, match=r"less deeply nested expressions: CASE \(5 -> 4\)"):
        compare_nesting({"IF": 10, "CASE": 5}, {"IF": 11, "CASE": 4})
    with pytest.raises(VerifyFailed, match=r"expressions: ABS \(2000 -> 1799\)$"):
        compare_nesting({"IF": 2000, "ABS": 2000}, {"IF": 1990, "ABS": 1799})


def test_larger_frames_are_a_warning_with_the_stack_that_makes_up_for_them() -> None:
    compared = compare_nesting({"IF": 2080, "CASE": 472, "ABS": 2312}, {"IF": 1996, "CASE": 468, "ABS": 2081})
    (warning,) = nesting_warnings(compared)
    assert warning == (
        "the optimised server accepts less deeply nested expressions: IF (2080 -> 1996), ABS (2312 -> 2081); "
        "thread_stack = 1152K in place of 1024K restores the limit"
    )
