"""A workload as users write it (TOML) and as the rest of Upshift uses it."""

from __future__ import annotations

from collections.abc import Mapping
from string import Formatter
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from upshift.server.kind import one_spelling
from upshift.values import Value

PLACEHOLDERS = ("socket", "database", "tools", "programs", "connections", "seconds", "seed")


def _fillable(command: tuple[str, ...]) -> tuple[str, ...]:
    for part in command:
        try:
            fields = [(name, how or conversion) for _, name, how, conversion in Formatter().parse(part) if name is not None]
        except ValueError as error:
            raise ValueError(f"'{part}' has an unclosed placeholder ({error}); {_HOW}") from error
        for name, how in fields:
            if how or name not in PLACEHOLDERS:
                raise ValueError(f"'{part}' has an unknown placeholder; {_HOW}")
    return command


_HOW = f"there are {', '.join('{' + name + '}' for name in PLACEHOLDERS)}; write {{{{ or }}}} for a brace itself"


CommandLine = Annotated[tuple[str, ...], Field(min_length=1), AfterValidator(_fillable)]
"""A program and its arguments, without a shell, with placeholders."""


class Fill(Value):
    """The command that fills the database.

    ``{socket}``, ``{database}``, ``{connections}``, ``{tools}`` (the folder of the server's own client programs) and
    ``{programs}`` (that of Upshift's own, ``upshift-load`` among them) are replaced in it.
    """

    command: CommandLine


class LoadCommand(Value):
    """The command that loads the server.

    ``{socket}``, ``{database}``, ``{tools}``, ``{programs}``, ``{connections}``, ``{seconds}`` (whole) and ``{seed}`` are
    replaced in it; it must end by itself.
    """

    command: CommandLine
    latency: Literal["none", "sysbench", "upshift-load", "json"] = "none"
    """How the driver reports latency: sysbench's histogram, what ``upshift-load --json`` prints, or a last line of JSON:
    latency_ms_p50, _p95, _p99, errors."""


class Workload(Value):
    """A way to fill a database and a command that loads it."""

    name: str
    description: str = ""
    server: str = "mysql"
    fill: Fill
    load: LoadCommand
    connections: int = Field(default=8, ge=1)
    """Client connections while training."""
    weight: float = Field(default=1.0, gt=0)
    """Share of the merged profile, relative to the other workloads trained on."""
    settings: Annotated[Mapping[str, str], AfterValidator(one_spelling)] = {}
    """Server configuration that this workload needs, on top of the server kind's own."""

    @property
    def needs_programs(self) -> bool:
        """Whether a command of it is one of Upshift's own programs."""
        return any("{programs}" in part for part in (*self.fill.command, *self.load.command))
