"""The server's own tests on the optimised server and, for what fails there, on the plain one, too."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from upshift.errors import NotTested, VerifyFailed
from upshift.server.kind import TestOutcome
from upshift.values import Value

_OUTSIDE = 0.01
"""The share of the levels that frames outside of the expression may take."""

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


def compare_tests(optimised: Run, plain: Run, suite: str) -> Compared:
    """As ``compare_outcomes``. Raises VerifyFailed with the names of the tests that fail on the optimised server alone."""
    found = compare_outcomes(optimised, plain, suite)
    if alone := found.failed_alone:
        raise VerifyFailed(
            f"{len(alone)} of {found.run} tests fail on the optimised server alone: {', '.join(alone)}",
            "the log of this stage has what they expected and got",
        )
    return found


def compare_outcomes(first: Run, other: Run, suite: str, *, names: tuple[str, str] = ("optimised", "plain")) -> Compared:
    """Run ``suite`` on the first server, and what fails there on the other one, too.

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
        on_both &= set(other(_asked(outcome.failed, suite)).failed)
    suspected = tuple(name for name in outcome.failed if name not in on_both)
    again = _passing(first, _asked(suspected, suite)) if suspected else set()
    return Compared(
        run=outcome.run,
        passed=outcome.passed,
        failed_on_both=tuple(name for name in outcome.failed if name in on_both),
        passed_again=tuple(name for name in suspected if name in again),
        failed_alone=tuple(sorted(set(suspected) - again)),
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
    """Each shape of expression with the levels that either takes. Raises VerifyFailed when the optimised one takes fewer.

    One level in a hundred may go to the frames between the thread's start and the expression, which are a few hundred bytes
    larger or smaller in another build.
    """
    compared = tuple((shape, levels, optimised.get(shape, 0)) for shape, levels in plain.items())
    if fewer := [f"{shape} ({before} -> {after})" for shape, before, after in compared if after < before * (1 - _OUTSIDE)]:
        raise VerifyFailed(
            f"the optimised server takes less deeply nested expressions: {', '.join(fewer)}",
            "its stack frames are larger: look at the recipe's flags",
        )
    return compared
