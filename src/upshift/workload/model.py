"""A workload as users write it (TOML) and as the rest of Upshift uses it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from upshift.values import Value


class Fill(Value):
    """The command that fills the database.

    ``{socket}``, ``{database}``, ``{threads}`` and ``{tools}`` (the folder of the server's own client programs) are
    replaced in it.
    """

    command: tuple[str, ...]


class LoadCommand(Value):
    """The command that loads the server.

    ``{socket}``, ``{database}``, ``{tools}``, ``{threads}``, ``{seconds}`` (whole) and ``{seed}`` are replaced in it; it must
    end by itself.
    """

    command: tuple[str, ...]
    latency: Literal["none", "sysbench", "json"] = "none"
    """How the driver reports latency: sysbench's histogram, or a last line of JSON: latency_ms_p50, _p95, _p99, errors."""


class Workload(Value):
    """A way to fill a database and a command that loads it."""

    name: str
    description: str = ""
    server: str = "mysql"
    fill: Fill
    load: LoadCommand
    threads: int = 8
    """Client threads while training."""
    weight: float = 1.0
    """Share of the merged profile, relative to the other workloads trained on."""
    settings: Mapping[str, str] = {}
    """Server configuration that this workload needs, on top of the server kind's own."""
