"""The drivers' basic tests: what each must be able to do through the proxy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from upshift.errors import UpshiftError
from upshift.stack.driver_matrix.counting import count_traffic, read_sessions
from upshift.stack.driver_matrix.ground import Ground, reset
from upshift.stack.driver_matrix.matrix import Driver, Setting
from upshift.stack.driver_matrix.model import Checked, Traffic
from upshift.stack.driver_matrix.running import Bench, program, run
from upshift.stack.driver_matrix.toolkit import Toolkit

ENCRYPTED = "tls"
"""The one check that needs a server with TLS."""
_REFUSED = "tls_refused"
_ENDED = "tls_ended"
_COMPRESSED = "compressed"
_OF_PROXY = (ENCRYPTED, _REFUSED, _ENDED, _COMPRESSED)
_SAME = {"fetch": 2, "batch_insert": 2, "transaction": 5}
"""How often each operation is done without compression, and with it."""


def check_driver(bench: Bench, driver: Driver, toolkit: Toolkit, ground: Ground, server: str, *, encrypted: bool) -> None:
    """A driver's basic tests: those for a server with TLS, or all others."""
    for check in driver.checks:
        known = (driver.name, driver.version, server, check) in bench.has
        if known or (check == ENCRYPTED) != encrypted:
            continue
        why, said = "", driver.version
        try:
            said = _check(bench, driver, toolkit, ground, check)
        except UpshiftError as error:
            why = error.message
        version = driver.version or said
        bench.checked(Checked(driver=driver.name, version=version, server=server, check=check, ok=not why, why=why))


def _check(bench: Bench, driver: Driver, toolkit: Toolkit, ground: Ground, check: str) -> str:
    """The version that the driver says. Raises UpshiftError with what is wrong."""
    if check == _ENDED:
        return _check_ended(bench, driver, toolkit, ground)
    if check == _COMPRESSED:
        return _check_compressed(bench, driver, toolkit, ground)
    setting = _with(driver.encrypted) if check in (ENCRYPTED, _REFUSED) else _with({})
    operation = f"check_{'connect' if check == ENCRYPTED else check}"
    did = program(bench, driver, toolkit, ground, setting, operation, 1)
    if check == ENCRYPTED:
        _require_tls(bench)
    return str(did["driver_version"])


def _check_ended(bench: Bench, driver: Driver, toolkit: Toolkit, ground: Ground) -> str:
    """All basic tests over TLS that ends in the proxy. On a server without TLS nobody else can have agreed to it."""
    said = ""
    for check in (each for each in driver.checks if each not in _OF_PROXY):
        given = (bench, driver, toolkit, ground, _with(driver.encrypted), f"check_{check}", 1)
        try:
            did = program(*given, ending=bench.certificates)
            _require_tls(bench)
            if not count_traffic(bench.folder).round_trips:
                raise UpshiftError("the proxy read no statement")
        except UpshiftError as error:
            raise UpshiftError(f"{check}: {error.message}") from error
        said = str(did["driver_version"])
    return said


def _require_tls(bench: Bench) -> None:
    if not read_sessions(bench.folder).tls:
        raise UpshiftError("the proxy saw no TLS")


def _check_compressed(bench: Bench, driver: Driver, toolkit: Toolkit, ground: Ground) -> str:
    """The same is read of compressed traffic as of traffic that is not."""
    said = ""
    for operation, times in _SAME.items():
        read: list[Traffic] = []
        for options in ({}, driver.compressed):
            reset(ground)
            did, found = run(bench, driver, toolkit, ground, _with(options), operation, times)
            if read_sessions(bench.folder).compressed != bool(options):
                raise UpshiftError(f"{operation}: the proxy saw {'no' if options else 'an unasked'} compression")
            # Of a driver that sends ahead, round trips differ by chance.
            read.append(found.model_copy(update={"round_trips": 0}))
            said = str(did["driver_version"])
        if read[0] != read[1]:
            raise UpshiftError(f"{operation}: the proxy read {read[1]} with compression, and {read[0]} without")
    return said


def _with(options: Mapping[str, Any]) -> Setting:
    return Setting(name="", kind="default", says="", options=options)
