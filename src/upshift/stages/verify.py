"""The stage that asks whether the optimised server is still the same server."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

from upshift.build.model import Build
from upshift.errors import CommandFailed, ServerFailed, VerifyFailed
from upshift.report.result import VerifySummary
from upshift.source.model import Source
from upshift.stages.lab import Lab
from upshift.stages.names import Stage
from upshift.stages.post_link import PostLinked
from upshift.values import Value
from upshift.verify import hardening
from upshift.verify.compare import Run, compare_nesting, compare_tests, nesting_warnings
from upshift.workbench import Workbench

VERSION = 9
"""Raised when what a server is put through changes, or how that is judged: no key holds it."""


class Verified(Value):
    """The build that passed, and what it was put through."""

    build: Build
    post_link: str
    """What the post-link step applied to it; empty when it was left out or did not pass."""
    summary: VerifySummary
    warnings: tuple[str, ...]


def verify(
    lab: Lab, source: Source, plain: Build, optimised: Build, post_linked: PostLinked, suite: str, baseline: Path | None
) -> Verified:
    """The kind's tests and the binary's hardening; a post-linked server that fails is given up for the one before it,
    unless that is the plain one.

    Hardening that the server in use, ``baseline``, has beyond the plain one's is a warning: it comes from the flags that its
    packager compiled it with.

    Raises VerifyFailed when the optimised server itself fails a test that the plain one passes, or lost hardening;
    NotTested when the tests cannot run, or most fail on the plain server, too.
    """

    def action(bench: Workbench) -> Verified:
        weaker = _weaker_than(in_use, plain)
        if not post_linked.applied:
            return _verified(lab, bench, source, plain, optimised, "", suite, (*weaker, *_why_without(post_linked)))
        try:
            return _verified(lab, bench, source, plain, post_linked.build, post_linked.applied, suite, weaker)
        except VerifyFailed as error:
            if optimised == plain:
                raise
            warning = f"the post-linked server did not pass and was given up: {error.message}"
            bench.progress.note(warning)
            return _verified(lab, bench, source, plain, optimised, "", suite, (*weaker, warning))

    in_use = hardening.examine(baseline) if baseline else {}
    inputs = {
        "plain": plain,
        "optimised": optimised,
        "post_linked": post_linked,
        "suite": suite,
        "tests": lab.kind.suites.get(suite),
        "in_use": in_use,
    }
    # That a post-linked server was given up is judged anew each time: a test can fail for a reason that passes.
    return lab.stages.run(
        Stage.VERIFY,
        Verified,
        action,
        inputs=inputs,
        version=VERSION,
        lasts=lambda made: made.post_link == post_linked.applied,
    )


def _verified(
    lab: Lab,
    bench: Workbench,
    source: Source,
    plain: Build,
    build: Build,
    applied: str,
    suite: str,
    warnings: tuple[str, ...],
) -> Verified:
    before, after = hardening.examine(plain.server), hardening.examine(build.server)
    hardening.compare(before, after)

    def test(server: Path) -> Run:
        return lambda tests: lab.kind.verify(source.path, plain.tree, server, tests, bench, lab.jobs, {})

    compared = compare_tests(test(build.server), test(plain.server), suite)
    if compared.failed_on_both:
        bench.progress.note(f"these tests fail on the plain server, too: {', '.join(compared.failed_on_both)}")
    if compared.passed_again:
        again = ", ".join(compared.passed_again)
        warnings += (f"tests of the optimised server that failed, and passed when run again: {again}",)
    taken = _nesting(lab, bench, source, plain, plain.server)
    try:
        nesting = compare_nesting(taken, _nesting(lab, bench, source, plain, build.server))
    except (CommandFailed, ServerFailed) as error:
        raise VerifyFailed(error.message, error.hint) from error
    warnings += nesting_warnings(nesting)
    summary = VerifySummary(
        tests_run=compared.run,
        tests_passed=compared.passed,
        failed_on_both=compared.failed_on_both,
        passed_again=compared.passed_again,
        suite=suite,
        nesting=nesting,
        hardening=tuple((name, before[name], after.get(name, "")) for name in before),
    )
    return Verified(build=build, post_link=applied, summary=summary, warnings=warnings)


def _nesting(lab: Lab, bench: Workbench, source: Source, plain: Build, server: Path) -> Mapping[str, int]:
    data = bench.folder / "nesting"
    try:
        return lab.kind.nesting(lab.kind.program(source.path, plain.tree, server), data, bench)
    finally:
        shutil.rmtree(data, ignore_errors=True)


def _weaker_than(in_use: dict[str, str], plain: Build) -> tuple[str, ...]:
    lost = hardening.lacking(in_use, hardening.examine(plain.server))
    return (f"the server in use has hardening that this one lacks: {', '.join(lost)}",) if lost else ()


def _why_without(post_linked: PostLinked) -> tuple[str, ...]:
    return (f"without a post-link step: {post_linked.reason}",)
