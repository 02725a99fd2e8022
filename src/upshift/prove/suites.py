"""MySQL's own tests as parts of a proof: what passes on stock passes on the patched server, its switches on and off."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from upshift.errors import UsageError, VerifyFailed
from upshift.prove.model import Asked, Part
from upshift.server import mtr
from upshift.server.kind import TestOutcome
from upshift.shell import Shell
from upshift.verify.compare import compare_tests
from upshift.workbench import Workbench

_HOME = re.compile(r"^CMAKE_HOME_DIRECTORY:INTERNAL=(.+)$", re.MULTILINE)


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
            f"--mtr: MySQL has no {', '.join(unknown)}", f"suites: {', '.join(mtr.SUITES)}; or SUITE.TEST,SUITE.TEST"
        )


def parts(shell: Shell, asked: Asked, switches: tuple[str, ...], folder: Path, *, say: Callable[[str], None]) -> Iterator[Part]:
    """A part for each suite, protocol and state of the switches. Raises NotTested when the tests cannot run."""
    for suite in asked.suites:
        for protocol in ((), ("--ps-protocol",)):
            for state in ("ON", "OFF"):
                given = tuple(f"--mysqld=--loose-{name.replace('_', '-')}={state}" for name in switches)
                say(f"mtr: {suite} {' '.join(protocol)} with all switches {state}")
                yield _part(shell, asked, suite, (*protocol, *given), f"{suite} {' '.join(protocol)} {state}", folder, say)


def _part(
    shell: Shell, asked: Asked, suite: str, options: tuple[str, ...], title: str, folder: Path, say: Callable[[str], None]
) -> Part:
    name = re.sub(r"\W+", "-", title)[:60]
    bench = Workbench(folder / f"mtr-{name}", shell, folder / f"mtr-{name}.log", _Saying(say))
    source, tree = _source(asked), _tree(asked.stock)

    def run(server: Path) -> Callable[[str], TestOutcome]:
        return lambda tests: mtr.run_tests(
            bench, source, tree, server, tests, jobs=len(os.sched_getaffinity(0)), options=options
        )

    started = time.monotonic()
    try:
        found = compare_tests(run(asked.patched), run(asked.stock), suite)
    except VerifyFailed as error:
        return Part(
            name="mtr", statements=0, wall_s=time.monotonic() - started, wrong=(f"{title}: {error.message}",), detail={}
        )
    return Part(
        name="mtr",
        statements=found.run,
        wall_s=time.monotonic() - started,
        wrong=(),
        unsteady=tuple(f"{title}: {each}" for each in found.passed_again),
        detail={"tests": title, **found.model_dump()},
    )


def _tree(stock: Path) -> Path:
    return stock.parent.parent


def _source(asked: Asked) -> Path:
    if asked.source:
        return asked.source
    cache = _tree(asked.stock) / "CMakeCache.txt"
    found = _HOME.search(cache.read_text()) if cache.is_file() else None
    if not found:
        raise UsageError(
            f"--mtr: {asked.stock} does not lie in the folder that it was built in",
            "MySQL's tests need the programs beside it: name the server of `upshift build plain`",
        )
    return Path(found[1])
