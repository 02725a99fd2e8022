"""The server's own tests on the optimised server and, for what fails there, on the plain one, too."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from upshift.errors import NotTested, VerifyFailed
from upshift.server.kind import TestOutcome
from upshift.values import Value

_OUTSIDE, _MOST_LOST = 0.01, 0.1
"""Shares of the levels: what frames outside of the expression may take, and what larger frames of the expression may."""
_DEFAULT_STACK_KIB, _STACK_STEP_KIB = 1024, 64
"""MySQL's default thread_stack, at which levels are counted, and the step in which another one is advised."""

Run = Callable[[str], TestOutcome]
"""Runs a suite, or tests named with commas between them, on one server. Raises NotTested."""


class Compared(Value):
    """Tests of one server, and of another what failed on the first."""

    run: int
    passed: int
    failed_on_both: tuple[str, ...]
    passed_again: tuple[str, ...] = ()
    """Failed in the suite and passed when the same server ran what had failed there."""
    failed_alone: tuple[str, ...] = ()
    """Failed on the first server each time, and not on the other."""
    repeated: tuple[str, ...] = ()
    """Failed on the first server, and passed when the suite itself repeated them."""


def compare_tests(optimised: Run, plain: Run, suite: str) -> Compared:
    """As ``compare_outcomes``. Raises VerifyFailed with the names of the tests that fail on the optimised server alone, and
    NotTested when most fail on both: that the two fail alike proves nothing.
    """
    found = compare_outcomes(optimised, plain, suite)
    if alone := found.failed_alone:
        raise VerifyFailed(
            f"{len(alone)} of {found.run} tests fail on the optimised server alone: {', '.join(alone)}",
            "the log of this stage has what they expected and got",
        )
    if unproven := failing_alike(found, "plain"):
        raise unproven
    return found


def failing_alike(found: Compared, other: str) -> NotTested | None:
    """The error for tests most of which fail on both servers: that the two fail alike proves nothing. ``other`` is what it
    calls the second. None where most pass.
    """
    alike = found.failed_on_both
    if len(alike) <= found.passed:
        return None
    return NotTested(
        f"{len(alike)} of {found.run} tests fail on the {other} server, too, {alike[0]} first: they prove nothing here",
        "the log of the tests says why; the usual reasons are a full disk and little room in /dev/shm",
    )


def compare_outcomes(first: Run, other: Run, suite: str, *, names: tuple[str, str] = ("optimised", "plain")) -> Compared:
    """Run ``suite`` on the first server, and what fails there on the other one, too. Where the first server alone crashes, the
    two fail differently: the test counts as one that fails on the first alone.

    What passes on the other server then runs on the first one again, in the same way: among fewer tests, one that hangs
    on load or on its neighbours can pass on either server. ``names`` are what messages call the two.

    Raises VerifyFailed when only the other server can be tested at all; NotTested when neither can.
    """
    try:
        outcome = first(suite)
    except NotTested as error:
        other(suite)
        message = f"the tests run on the {names[1]} server, and not on the {names[0]} one: {error.message}"
        raise VerifyFailed(message, error.hint) from error
    on_both = set(outcome.failed)
    if outcome.failed:
        theirs = other(_asked(outcome.failed, suite))
        # A crash is another failure than a result that differs.
        crashed = set(outcome.crashed) - set(theirs.crashed)
        on_both = {name for name in on_both & set(theirs.failed) if name.split()[0] not in crashed}
    suspected = tuple(name for name in outcome.failed if name not in on_both)
    again = _passing(first, _asked(suspected, suite)) if suspected else set()
    return Compared(
        run=outcome.run,
        passed=outcome.passed,
        failed_on_both=tuple(name for name in outcome.failed if name in on_both),
        passed_again=tuple(name for name in suspected if name in again),
        failed_alone=tuple(sorted(set(suspected) - again)),
        repeated=outcome.repeated,
    )


def _passing(server: Run, tests: str) -> set[str]:
    """Of tests that failed, those that pass now: one that does not run when it is asked for alone still has failed."""
    try:
        return set(server(tests).passing)
    except NotTested:
        return set()


def _asked(failed: tuple[str, ...], suite: str) -> str:
    """A test can fail in one combination of options alone ("main.ps 'ps-protocol'"), but is asked for by its name. What is no
    test, such as MTR's report on shutdowns, needs the whole suite."""
    named = [name.split()[0] for name in failed]
    return ",".join(dict.fromkeys(named)) if all("." in name for name in named) else suite


def compare_nesting(plain: Mapping[str, int], optimised: Mapping[str, int]) -> tuple[tuple[str, int, int], ...]:
    """Each shape of expression with the levels that either takes. Raises VerifyFailed when the optimised one takes fewer than
    nine tenths.

    What is inlined into a function makes its frame larger, so that a workload that parses or resolves a lot costs some levels.
    A loss beyond that has another cause, such as a stack check that looks from the wrong frame.
    """
    compared = tuple((shape, levels, optimised.get(shape, 0)) for shape, levels in plain.items())
    if fewer := _fewer(compared, _MOST_LOST):
        raise VerifyFailed(
            f"the optimised server accepts less deeply nested expressions: {fewer}",
            "its stack frames are larger: look at the recipe's flags",
        )
    return compared


def nesting_warnings(compared: Sequence[tuple[str, int, int]]) -> tuple[str, ...]:
    """What to set where the optimised server takes fewer levels.

    One level in a hundred may go to the frames between the thread's start and the expression, which are a few hundred bytes
    larger or smaller in another build.
    """
    fewer = _fewer(compared, _OUTSIDE)
    if not fewer:
        return ()
    larger = max(before / after for _shape, before, after in compared)
    stack_kib = math.ceil(_DEFAULT_STACK_KIB * larger / _STACK_STEP_KIB) * _STACK_STEP_KIB
    told = f"the optimised server accepts less deeply nested expressions: {fewer}"
    return (f"{told}; thread_stack = {stack_kib}K in place of {_DEFAULT_STACK_KIB}K restores the limit",)


def _fewer(compared: Sequence[tuple[str, int, int]], tolerance: float) -> str:
    return ", ".join(f"{shape} ({before} -> {after})" for shape, before, after in compared if after < before * (1 - tolerance))
