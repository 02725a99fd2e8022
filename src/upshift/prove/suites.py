"""MySQL's own tests as parts of a proof: what passes on stock passes on the patched server, its switches on and off."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from upshift.build.cmake import source_of
from upshift.build.steps import TREE
from upshift.control_groups import usable_cpus
from upshift.errors import NotTested, UsageError, VerifyFailed
from upshift.prove.allowed import differing_tests
from upshift.prove.model import Asked, Mode, Part
from upshift.server import mtr
from upshift.server.kind import TestOutcome
from upshift.shell import Shell
from upshift.verify.compare import compare_outcomes, failing_alike
from upshift.workbench import Workbench

_NAMED_MOST = 8
"""Of tests in a title."""


@dataclass
class _Saying:
    """Progress as lines."""

    say: Callable[[str], None]

    def update(self, done: float, total: float, detail: str = "") -> None:
        if done % 100 == 0:
            self.say(f"{done:.0f} tests, {detail}")

    def note(self, text: str) -> None:
        self.say(text)


def refuse(asked: Asked) -> None:
    """Raises UsageError for tests that are not there, and for a stock server outside of a build folder."""
    if asked.statements_of:
        source = source_of_tests(asked)
        if missing := [suite for suite in asked.statements_of if mtr.tests_folder(suite, source) is None]:
            raise UsageError(
                f"--mtr-statements: {source} has no suite {', '.join(missing)}",
                "suites: main, and the folders of mysql-test/suite",
            )
    if not asked.suites:
        return
    source = _source(asked)
    if unknown := [name for tests in asked.suites for name in mtr.unknown_tests(tests, source)]:
        raise UsageError(
            f"--mtr: MySQL has no tests {', '.join(unknown)}", f"suites: {', '.join(mtr.SUITES)}; or SUITE.TEST,SUITE.TEST"
        )


def parts(
    shell: Shell,
    asked: Asked,
    switches: tuple[str, ...],
    folder: Path,
    *,
    tests_of_patches: Collection[str] = (),
    say: Callable[[str], None],
) -> Iterator[Part]:
    """A part for each suite and mode, as it ends. Raises NotTested when the tests cannot run, and after the last part when most
    tests of one fail on stock, too.

    ``tests_of_patches`` are about what stock does not have: that they fail there, too, excuses nothing.
    """
    # Settings come last: one that names a switch holds in every mode.
    settings = tuple(_option(name, value) for name, value in asked.settings.items())
    unproven: list[NotTested] = []
    for number, (suite, mode) in enumerate(itertools.product(asked.suites, asked.modes), start=1):
        title = title_of(suite, mode)
        say(f"mtr: {title}")
        protocol = ("--ps-protocol",) if mode.startswith("ps-") else ()
        given = tuple(_option(name, "ON" if mode.endswith("on") else "OFF") for name in switches)
        bench = Workbench(folder / f"mtr-{number}", shell, folder / f"mtr-{number}.log", _Saying(say))
        part, error = _part(bench, asked, suite, (*protocol, *given, *settings), title, tests_of_patches)
        yield part
        unproven += [error] if error else []
    if unproven:
        raise unproven[0]


def title_of(suite: str, mode: Mode) -> str:
    """What a part is called."""
    protocol = ("--ps-protocol",) if mode.startswith("ps-") else ()
    names = suite.split(",")
    tests = suite if len(names) <= _NAMED_MOST else f"{len(names)} tests from {names[0]} to {names[-1]}"
    return " ".join((tests, *protocol, f"with all switches {'ON' if mode.endswith('on') else 'OFF'}"))


def _option(name: str, value: str) -> str:
    """For every server that MTR starts; stock passes over what it does not know."""
    return f"--mysqld=--loose-{name.replace('_', '-')}={value}"


def _part(
    bench: Workbench, asked: Asked, suite: str, options: tuple[str, ...], title: str, tests_of_patches: Collection[str]
) -> tuple[Part, NotTested | None]:
    """The part, and the error that it ends with where most of its tests fail on stock, too."""
    source = _source(asked)
    declared = {each.name for each in differing_tests(asked.allow)}

    def run(server: Path) -> Callable[[str], TestOutcome]:
        jobs, tree = usable_cpus(), tree_of(server) or _tree(asked.stock)
        return lambda tests: mtr.run_tests(bench, source, tree, server, tests, jobs=jobs, options=options)

    started = time.monotonic()
    detail: Mapping[str, Any] = {"tests": title, "options": options}
    try:
        found = compare_outcomes(run(asked.patched), run(asked.stock), suite, names=("patched", "stock"))
    except VerifyFailed as error:
        failed = (f"{error.message}; see {bench.log}",)
        return Part(name="mtr", statements=0, wall_s=time.monotonic() - started, wrong=failed, detail=detail), None
    # A test may come in several combinations of options: ``main.ps 'ps-protocol'``.
    purposely = tuple(name for name in found.failed_alone if name.split()[0] in declared)
    of_patches = tuple(name for name in found.failed_on_both if name.split()[0] in {*tests_of_patches} - declared)
    alike = tuple(name for name in found.failed_on_both if name.split()[0] not in {*tests_of_patches} | declared)
    wrong = (
        *(f"{name} fails on the patched server alone; see {bench.log}" for name in found.failed_alone if name not in purposely),
        *(f"{name}, a patch's own test, fails; see {bench.log}" for name in of_patches),
    )
    part = Part(
        name="mtr",
        statements=found.run,
        wall_s=time.monotonic() - started,
        wrong=wrong,
        unsteady=(*found.passed_again, *found.repeated),
        failed_on_both=tuple(name for name in found.failed_on_both if name not in of_patches),
        differ_on_purpose=purposely,
        detail={**detail, "passed": found.passed},
    )
    return part, failing_alike(found.model_copy(update={"failed_on_both": alike}), "stock")


def source_of_tests(asked: Asked) -> Path:
    """Where the scripts of the tests lie: stock's, which name no variable of a patch. Raises UsageError when nobody says it."""
    found = source_of(_tree(asked.stock)) or asked.source
    if found is None:
        raise UsageError(f"{asked.stock} is not in the folder in which it was built", "name the source with --mtr-source")
    return found


def tree_of(server: Path) -> Path | None:
    """The build folder with the plugins of a server: beside a patched server, else the one that it lies in."""
    return next((tree for tree in (server.parent / TREE, _tree(server)) if source_of(tree)), None)


def _tree(stock: Path) -> Path:
    return stock.parent.parent


def _source(asked: Asked) -> Path:
    """Where the tests lie. Raises UsageError for a stock server without the programs that they need."""
    built_from = source_of(_tree(asked.stock))
    if built_from is None:
        raise UsageError(
            f"--mtr: {asked.stock} is not in the folder in which it was built",
            "MySQL's tests need the programs beside it: name the server of `upshift build plain`",
        )
    return asked.source or built_from
