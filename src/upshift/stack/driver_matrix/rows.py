"""The matrix as rows of text, for the terminal and the documents."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from upshift.stack.driver_matrix.matrix import Driver
from upshift.stack.driver_matrix.model import Counted, DriversResult, Figure
from upshift.stack.driver_matrix.operations import OPERATIONS
from upshift.values import Value

FIGURES: Mapping[Figure, str] = {"round_trips": "round trips", "packets": "packets", "bytes": "bytes"}
UNITS = "a statement, a batch, a transaction"
COLUMNS: Mapping[str, str] = {
    "point_select": "point",
    "ten_rows": "10 rows",
    "fetch": "1,000",
    "batch_insert": "inserts",
    "batch_update": "updates",
    "transaction": "transact.",
    "new_order": "order",
}
"""Short names of the operations."""


class Line(Value):
    """A driver with one of its settings on one server."""

    driver: str
    version: str
    setting: str
    kind: str
    cells: tuple[str, ...]
    """A figure for each operation; empty where the setting is not about it."""


def servers(result: DriversResult) -> tuple[str, ...]:
    return tuple(dict.fromkeys(each.server for each in result.counted) | dict.fromkeys(each.server for each in result.checked))


def lines(result: DriversResult, server: str, figure: Figure) -> Iterator[Line]:
    found: dict[tuple[str, str], dict[str, Counted]] = {}
    for each in result.counted:
        if each.server == server:
            found.setdefault((each.driver, each.setting), {})[each.operation] = each
    for (driver, setting), counts in found.items():
        one = next(iter(counts.values()))
        cells = tuple(_cell(counts.get(operation), figure) for operation in OPERATIONS)
        yield Line(driver=driver, version=one.version, setting=setting, kind=one.kind, cells=cells)


def checks(result: DriversResult, server: str) -> Iterator[tuple[str, str]]:
    """A driver and what came of its basic tests."""
    for driver in dict.fromkeys(each.driver for each in result.checked if each.server == server):
        mine = [each for each in result.checked if (each.server, each.driver) == (server, driver)]
        failed = [f"{each.check} fails: {each.why}" for each in mine if not each.ok]
        yield driver, "; ".join([f"{len(mine) - len(failed)} of {len(mine)} pass", *failed])


def failures(result: DriversResult) -> Iterator[str]:
    """What has no figures, and why."""
    for each in result.counted:
        if each.error:
            yield f"{each.driver}, {each.setting}, {each.operation} on {each.server}: {each.error}"


def summary(driver: Driver) -> str:
    """A driver in a line, for what is said before anything runs."""
    runs = sum(len(driver.about(each)) + 1 for each in driver.setting)
    return f"{driver.name}: {driver.package} {driver.version}".rstrip() + f", {len(driver.setting)} settings, {runs} runs"


def _cell(counted: Counted | None, figure: Figure) -> str:
    if counted is None:
        return ""
    if counted.error:
        return "failed"
    value = counted.each(figure)
    return f"{value:.2f}" if value < 10 else f"{value:,.0f}"
