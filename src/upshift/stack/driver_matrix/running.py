"""A driver's program through the proxy: each setting and operation of it, counted."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from upshift.errors import UpshiftError
from upshift.shell import Command, Shell
from upshift.stack.driver_matrix.certificates import Certificates
from upshift.stack.driver_matrix.counting import count_traffic
from upshift.stack.driver_matrix.ground import Ground, State, reset, state
from upshift.stack.driver_matrix.matrix import Driver, Setting
from upshift.stack.driver_matrix.model import Checked, Counted, Traffic
from upshift.stack.driver_matrix.operations import CONNECT, OPERATIONS, Operation
from upshift.stack.driver_matrix.proxy import captured
from upshift.stack.driver_matrix.toolkit import Toolkit

_RUN_TIMEOUT_S = 120.0


@dataclass(frozen=True)
class Bench:
    """What a run needs: the proxy's program, a folder, and what is known already."""

    shell: Shell
    proxy: Path
    folder: Path
    certificates: Certificates
    """The proxy's own, where TLS ends in it."""
    counted: Callable[[Counted], None]
    """Gets each count as it is there."""
    checked: Callable[[Checked], None]
    has: frozenset[tuple[str, ...]] = field(default_factory=frozenset)
    """Keys of an earlier run's: these are not run again."""


def key_of(found: Counted | Checked) -> tuple[str, ...]:
    """What tells one result from the others of a matrix."""
    what = (found.setting, found.operation) if isinstance(found, Counted) else (found.check,)
    return (found.driver, found.version, found.server, *what)


def count_driver(bench: Bench, driver: Driver, toolkit: Toolkit, ground: Ground, server: str) -> None:
    """All settings of a driver on a server."""
    for setting in driver.setting:
        wanted = [
            name for name in driver.about(setting) if (driver.name, driver.version, server, setting.name, name) not in bench.has
        ]
        if not wanted:
            continue
        try:
            _did, login = run(bench, driver, toolkit, ground, setting, CONNECT, 1)
            failed = ""
        except UpshiftError as error:
            login, failed = Traffic(), error.message
        for name in wanted:
            bench.counted(_counted(bench, driver, toolkit, ground, server, setting, name, login, failed))


def _counted(
    bench: Bench,
    driver: Driver,
    toolkit: Toolkit,
    ground: Ground,
    server: str,
    setting: Setting,
    name: str,
    login: Traffic,
    failed: str,
) -> Counted:
    operation = OPERATIONS[name]
    traffic, said = Traffic(), driver.version
    if not failed:
        try:
            reset(ground)
            before = state(ground)
            did, whole = run(bench, driver, toolkit, ground, setting, name, operation.times)
            _require_work(operation, did, before, state(ground))
            traffic, said = whole.less(login), str(did["driver_version"])
        except UpshiftError as error:
            failed = error.message
    return Counted(
        driver=driver.name,
        version=driver.version or said,
        server=server,
        setting=setting.name,
        kind=setting.kind,
        operation=name,
        unit=operation.unit,
        units=operation.times,
        traffic=traffic,
        login=login,
        error=failed,
    )


def run(
    bench: Bench, driver: Driver, toolkit: Toolkit, ground: Ground, setting: Setting, operation: str, times: int
) -> tuple[dict[str, Any], Traffic]:
    """What the program said, and what passed the proxy. Raises UpshiftError with why there is none."""
    said = program(bench, driver, toolkit, ground, setting, operation, times)
    return said, count_traffic(bench.folder)


def program(
    bench: Bench,
    driver: Driver,
    toolkit: Toolkit,
    ground: Ground,
    setting: Setting,
    operation: str,
    times: int,
    *,
    ending: Certificates | None = None,
) -> dict[str, Any]:
    """What the program said; what passed the proxy is in the bench's folder. Raises UpshiftError with why there is none."""
    settings = json.dumps({"options": {**driver.always, **setting.options}, "use": setting.use}, separators=(",", ":"))
    with captured(bench.shell, bench.proxy, ground.url, bench.folder, ending) as url:
        argv = (*toolkit.argv, driver.name, url, settings, operation, str(times))
        command = Command(argv, cwd=toolkit.cwd, env=toolkit.environment)
        done = bench.shell.run(command, timeout_s=_RUN_TIMEOUT_S, check=False)
    said = _said(done.stdout)
    if done.returncode != 0 or "error" in said:
        why = said.get("error") or f"its program ended with {done.returncode}: {done.stdout.strip()[-300:]}"
        raise UpshiftError(str(why).splitlines()[0])
    version = str(said.get("driver_version", ""))
    if driver.version and version != driver.version:
        raise UpshiftError(f"it says that it is {version}, and {driver.version} is pinned")
    return said


def _said(printed: str) -> dict[str, Any]:
    """The program's line of JSON; libraries may have printed before it."""
    for line in reversed(printed.splitlines()):
        if line.startswith("{"):
            found: dict[str, Any] = json.loads(line)
            return found
    return {}


def _require_work(operation: Operation, did: dict[str, Any], before: State, after: State) -> None:
    """Figures of work that was not done are none."""
    found = (int(did["rows"]), after.added - before.added, after.raised - before.raised)
    wanted = tuple(each * operation.times for each in (operation.rows, operation.added, operation.raised))
    if found != wanted:
        raise UpshiftError(f"it read {found[0]} rows, added {found[1]} and raised k by {found[2]}, and should have {wanted}")
