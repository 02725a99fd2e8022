"""MySQL's own tests as parts of a proof: what passes on stock passes on the patched server, its switches on and off."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from upshift.build.cmake import source_of
from upshift.errors import UsageError, VerifyFailed
from upshift.prove.model import Asked, Part
from upshift.server import mtr
from upshift.server.kind import TestOutcome
from upshift.shell import Shell
from upshift.verify.compare import compare_tests
from upshift.workbench import Workbench


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
    if not asked.suites:
        return
    source = _source(asked)
    if unknown := [name for tests in asked.suites for name in mtr.unknown_tests(tests, source)]:
        raise UsageError(
            f"--mtr: MySQL has no tests {', '.join(unknown)}", f"suites: {', '.join(mtr.SUITES)}; or SUITE.TEST,SUITE.TEST"
        )


def parts(shell: Shell, asked: Asked, switches: tuple[str, ...], folder: Path, *, say: Callable[[str], None]) -> Iterator[Part]:
    """A part for each suite, protocol and state of the switches. Raises NotTested when the tests cannot run."""
    runs = itertools.product(asked.suites, ((), ("--ps-protocol",)), ("ON", "OFF"))
    for number, (suite, protocol, state) in enumerate(runs, start=1):
        title = " ".join((suite, *protocol, f"with all switches {state}"))
        say(f"mtr: {title}")
        given = tuple(f"--mysqld=--loose-{name.replace('_', '-')}={state}" for name in switches)
        bench = Workbench(folder / f"mtr-{number}", shell, folder / f"mtr-{number}.log", _Saying(say))
        yield _part(bench, asked, suite, (*protocol, *given), title)


def _part(bench: Workbench, asked: Asked, suite: str, options: tuple[str, ...], title: str) -> Part:
    source, tree = _source(asked), _tree(asked.stock)

    def run(server: Path) -> Callable[[str], TestOutcome]:
        jobs = len(os.sched_getaffinity(0))
        return lambda tests: mtr.run_tests(bench, source, tree, server, tests, jobs=jobs, options=options)

    started = time.monotonic()
    ran = 0
    unsteady: tuple[str, ...] = ()
    wrong: tuple[str, ...] = ()
    detail: Mapping[str, Any] = {}
    try:
        found = compare_tests(run(asked.patched), run(asked.stock), suite, names=("patched", "stock"))
        ran, unsteady, detail = found.run, found.passed_again, found.model_dump()
    except VerifyFailed as error:
        wrong = (f"{error.message}; see {bench.log}",)
    return Part(
        name="mtr",
        statements=ran,
        wall_s=time.monotonic() - started,
        wrong=wrong,
        unsteady=unsteady,
        detail={"tests": title, **detail},
    )


def _tree(stock: Path) -> Path:
    return stock.parent.parent


def _source(asked: Asked) -> Path:
    """Where the tests lie. Raises UsageError for a stock server without the programs that they need."""
    built_from = source_of(_tree(asked.stock))
    if built_from is None:
        raise UsageError(
            f"--mtr: {asked.stock} does not lie in the folder that it was built in",
            "MySQL's tests need the programs beside it: name the server of `upshift build plain`",
        )
    return asked.source or built_from
