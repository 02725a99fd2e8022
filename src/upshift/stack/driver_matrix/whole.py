"""From the matrix to its result: programs built, servers started, drivers run, and what is missing named."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from upshift.errors import MissingTool, UpshiftError
from upshift.shell import Shell
from upshift.stack.driver_matrix.certificates import make_certificates
from upshift.stack.driver_matrix.checking import ENCRYPTED, check_driver
from upshift.stack.driver_matrix.ground import Ground, ground_of, tables
from upshift.stack.driver_matrix.matrix import Driver
from upshift.stack.driver_matrix.model import Checked, Counted, DriversResult, LeftOut
from upshift.stack.driver_matrix.operations import Language
from upshift.stack.driver_matrix.running import Bench, count_driver, key_of
from upshift.stack.driver_matrix.servers import Family, find_kind, running
from upshift.stack.driver_matrix.toolkit import Toolkit, Workshop, left_out, prepare

_FAMILIES: dict[Family, str] = {"mysql": "MySQL", "mariadb": "MariaDB", "postgres": "PostgreSQL"}


@dataclass(frozen=True)
class Asked:
    """What a user wants to have counted."""

    drivers: tuple[Driver, ...]
    binary: Path | None = None
    """A mysqld: MySQL's packages lack on most distributions."""
    server: str = ""
    """The URL of a server that runs already, in place of those that are started."""


class _Result:
    """Grows as results come; each is saved at once."""

    def __init__(self, begun: DriversResult, save: Callable[[DriversResult], None]) -> None:
        self.now = begun
        self._save = save

    def add(self, *, counted: Counted | None = None, checked: Checked | None = None, missing: LeftOut | None = None) -> None:
        self.now = self.now.model_copy(
            update={
                "counted": (*self.now.counted, *filter(None, [counted])),
                "checked": (*self.now.checked, *filter(None, [checked])),
                "left_out": (*self.now.left_out, *filter(None, [missing])),
            }
        )
        self._save(self.now)


def run_matrix(
    shell: Shell,
    proxy: Path,
    asked: Asked,
    begun: DriversResult,
    *,
    say: Callable[[str], None],
    save: Callable[[DriversResult], None],
) -> DriversResult:
    """Count and check what ``begun`` does not hold already.

    Raises MissingTool where nothing can be run, and whatever stops a server of the user's own.
    """
    result = _Result(begun.model_copy(update={"left_out": ()}), save)
    with _folder() as folder:
        toolkits = _toolkits(Workshop(shell, asked.binary, say), asked.drivers, result)
        drivers = [each for each in asked.drivers if each.name in toolkits]
        bench = Bench(
            shell=shell,
            proxy=proxy,
            folder=folder / "trace",
            certificates=make_certificates(shell, folder / "certificates"),
            counted=lambda each: result.add(counted=each),
            checked=lambda each: result.add(checked=each),
            has=_keys(begun, drivers),
        )
        work = _Work(bench, tuple(drivers), toolkits, say)
        if asked.server:
            work.on(ground_of(asked.server, shell), encrypted=False)
        else:
            _on_own_servers(work, asked, folder, result)
    if not (result.now.counted or result.now.checked):
        reasons = "; ".join(f"{each.what}: {each.why}" for each in result.now.left_out)
        raise MissingTool(f"nothing could be run: {reasons or 'no driver speaks that protocol'}", _first_hint(result.now))
    return result.now


def _keys(begun: DriversResult, drivers: Iterable[Driver]) -> frozenset[tuple[str, ...]]:
    """What ``begun`` has, as the matrix names it: where that pins no version, a result has the one that the driver said."""
    unpinned = {each.name for each in drivers if not each.version}
    found: tuple[Counted | Checked, ...] = (*begun.counted, *begun.checked)
    return frozenset(key_of(each.model_copy(update={"version": ""}) if each.driver in unpinned else each) for each in found)


@dataclass(frozen=True)
class _Work:
    bench: Bench
    drivers: tuple[Driver, ...]
    toolkits: dict[str, Toolkit]
    say: Callable[[str], None]

    def on(self, ground: Ground, *, encrypted: bool) -> None:
        """All drivers of the server's protocol; on one with TLS only the check of that."""
        mine = [each for each in self.drivers if each.protocol == ground.protocol]
        with tables(ground):
            server = ground.version()
            for driver in mine:
                toolkit = self.toolkits[driver.name]
                self.say(f"{server}{' with TLS' if encrypted else ''}: {driver.title} {driver.version}".rstrip())
                if not encrypted:
                    count_driver(self.bench, driver, toolkit, ground, server)
                check_driver(self.bench, driver, toolkit, ground, server, encrypted=encrypted)


def _on_own_servers(work: _Work, asked: Asked, folder: Path, result: _Result) -> None:
    shell = work.bench.shell
    protocols = {each.protocol for each in work.drivers}
    for family, name in _FAMILIES.items():
        if ("postgres" if family == "postgres" else "mysql") not in protocols:
            continue
        try:
            kind = find_kind(family, asked.binary)
            for encrypted in (False, True):
                wanted = any(ENCRYPTED in each.checks for each in work.drivers) or not encrypted
                if not wanted:
                    continue
                home = folder / f"{family}{'-tls' if encrypted else ''}"
                with running(shell, kind, home, work.bench.certificates if encrypted else None) as ground:
                    work.on(ground, encrypted=encrypted)
        except UpshiftError as error:
            result.add(missing=left_out(name, error))


def _toolkits(shop: Workshop, drivers: tuple[Driver, ...], result: _Result) -> dict[str, Toolkit]:
    """The programs of the drivers that can be run, by their names."""
    prepared: dict[Language, Toolkit | LeftOut] = {}
    ready: dict[str, Toolkit] = {}
    for driver in drivers:
        if driver.language not in prepared:
            try:
                prepared[driver.language] = prepare(driver.language, shop)
            except UpshiftError as error:
                prepared[driver.language] = left_out(driver.name, error)
        found = prepared[driver.language]
        if isinstance(found, LeftOut):
            result.add(missing=found.model_copy(update={"what": driver.name}))
        elif missing := next((each for each in found.without if each.what == driver.name), None):
            result.add(missing=missing)
        else:
            ready[driver.name] = found
    return ready


@contextmanager
def _folder() -> Iterator[Path]:
    """One that PostgreSQL's own user may enter, with a path short enough for a socket."""
    folder = Path(tempfile.mkdtemp(prefix="upshift-"))
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _first_hint(result: DriversResult) -> str:
    return next((each.hint for each in result.left_out if each.hint), "`--dry-run` names the drivers and their servers")
