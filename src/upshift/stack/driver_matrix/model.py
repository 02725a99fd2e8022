"""What `upshift stack drivers` finds: frozen values that survive as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from upshift.machine import Machine
from upshift.stack.driver_matrix.matrix import Kind
from upshift.values import Value

Figure = Literal["round_trips", "packets", "bytes"]


class Traffic(Value):
    """What passed the proxy between a login and the end of its connection, in whole numbers."""

    round_trips: int = 0
    packets_sent: int = 0
    packets_received: int = 0
    bytes_sent: int = 0
    bytes_received: int = 0
    exchanges: Mapping[str, int] = {}
    """Requests by kind and verb: ``execute select``."""
    statements_in_text: int = 0
    """The most statements that one text held."""
    connections: int = 0

    def less(self, other: Traffic) -> Traffic:
        """Without what ``other``, which only connected, sent and got."""
        names = ("round_trips", "packets_sent", "packets_received", "bytes_sent", "bytes_received")
        exchanges = {name: count - other.exchanges.get(name, 0) for name, count in self.exchanges.items()}
        return Traffic(
            **{name: getattr(self, name) - getattr(other, name) for name in names},
            exchanges={name: count for name, count in exchanges.items() if count},
            statements_in_text=self.statements_in_text,
            connections=self.connections,
        )

    def figure(self, name: Figure) -> int:
        if name == "round_trips":
            return self.round_trips
        return int(getattr(self, f"{name}_sent") + getattr(self, f"{name}_received"))


class Counted(Value):
    """One operation of one driver with one setting on one server."""

    driver: str
    version: str
    server: str
    setting: str
    kind: Kind
    operation: str
    unit: str
    units: int
    traffic: Traffic
    login: Traffic
    """What a run that only connects has, after the login itself."""
    error: str = ""
    """Why there are no figures."""

    def each(self, name: Figure) -> float:
        """A unit's share."""
        return self.traffic.figure(name) / self.units


class Checked(Value):
    """One of a driver's basic tests, through the proxy."""

    driver: str
    version: str
    server: str
    check: str
    ok: bool
    why: str = ""


class LeftOut(Value):
    """A driver or a server that is not there, and how to get it."""

    what: str
    why: str
    hint: str


class DriversResult(Value):
    """The matrix as far as it was counted."""

    schema_version: Literal[1] = 1
    command: str
    began: str
    upshift_version: str
    machine: Machine
    counted: tuple[Counted, ...] = ()
    checked: tuple[Checked, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
