"""Tables of `upshift stack drivers`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import table_rows as table

from upshift.stack.driver_matrix.model import DriversResult, Figure
from upshift.stack.driver_matrix.operations import OPERATIONS
from upshift.stack.driver_matrix.rows import FIGURES, checks, failures, lines, servers


def drivers(result: dict[str, Any]) -> Iterator[str]:
    """When, where and on which servers, as a list."""
    found = DriversResult.model_validate(result)
    yield f"- {found.began[:10]}, `{found.command}`"
    yield f"- {table.machine(result)}"
    yield f"- servers: {', '.join(servers(found))}"
    for each in found.left_out:
        yield f"- left out: {each.what}: {each.why}"
    for said in failures(found):
        yield f"- no figures: {said}"


def driver_round_trips(result: dict[str, Any]) -> Iterator[str]:
    """A table a server, a row a driver and setting: round trips of each operation."""
    yield from _tables(DriversResult.model_validate(result), "round_trips")


def driver_packets(result: dict[str, Any]) -> Iterator[str]:
    """The same of packets, both ways."""
    yield from _tables(DriversResult.model_validate(result), "packets")


def driver_bytes(result: dict[str, Any]) -> Iterator[str]:
    """The same of bytes, both ways."""
    yield from _tables(DriversResult.model_validate(result), "bytes")


def driver_checks(result: dict[str, Any]) -> Iterator[str]:
    """A row a driver: its basic tests through the proxy, on each server."""
    found = DriversResult.model_validate(result)
    names = servers(found)
    by_server = {server: dict(checks(found, server)) for server in names}
    yield from table.head("driver", *names)
    for driver in dict.fromkeys(each.driver for each in found.checked):
        yield table.row(driver, *(by_server[server].get(driver, "") for server in names))


def driver_updates(result: dict[str, Any]) -> Iterator[str]:
    """A row a setting of Connector/J: what a batch of 100 updates is on the wire."""
    found = DriversResult.model_validate(result)
    yield from table.head("server", "setting", "requests of 10 batches", "round trips a batch", "most statements in one text")
    for each in found.counted:
        if (each.driver, each.operation) == ("connector-j", "batch_update") and not each.error:
            requests = ", ".join(f"{count} {kind}" for kind, count in each.traffic.exchanges.items())
            trips = f"{each.each('round_trips'):.1f}"
            yield table.row(each.server, each.setting, requests, trips, each.traffic.statements_in_text)


def _tables(found: DriversResult, figure: Figure) -> Iterator[str]:
    for server in servers(found):
        yield f"{server}, {FIGURES[figure]}:"
        yield ""
        yield from table.head("driver", "setting", "", *(f"{each.title}, a {each.unit}" for each in OPERATIONS.values()))
        for line in lines(found, server, figure):
            yield table.row(f"{line.driver} {line.version}", line.setting, line.kind, *line.cells)
        yield ""


KINDS = (drivers, driver_round_trips, driver_packets, driver_bytes, driver_checks, driver_updates)
