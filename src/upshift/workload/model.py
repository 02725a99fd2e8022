"""A workload as users write it (TOML) and as the rest of Upshift uses it."""

from __future__ import annotations

from collections.abc import Mapping
from string import Formatter
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field, FiniteFloat, field_serializer

from upshift.server.kind import Unit, one_spelling
from upshift.values import Value

PLACEHOLDERS = ("url", "socket", "database", "tools", "programs", "connections", "seconds", "seed")
_LONGEST_NAME = 100
TRANSACTIONS = "{transactions}"
"""The placeholder that a command of a fixed length has and others have not."""


def _all(named: object) -> object:
    return (named,) if isinstance(named, str) else named


def _fillable(command: tuple[str, ...]) -> tuple[str, ...]:
    return _filled_with(command, PLACEHOLDERS)


def _of_fixed_length(command: tuple[str, ...]) -> tuple[str, ...]:
    if not any(TRANSACTIONS in part for part in command):
        raise ValueError(f"no word of it has {TRANSACTIONS}; it must end after that many transactions")
    return _filled_with(command, (*PLACEHOLDERS, TRANSACTIONS.strip("{}")))


def _filled_with(command: tuple[str, ...], placeholders: tuple[str, ...]) -> tuple[str, ...]:
    listed = ", ".join("{" + name + "}" for name in placeholders)
    hint = f"there are {listed}; write {{{{ or }}}} for a brace itself"
    for part in command:
        try:
            fields = [(name, how or conversion) for _, name, how, conversion in Formatter().parse(part) if name is not None]
        except ValueError as error:
            raise ValueError(f"'{part}' has an unclosed placeholder ({error}); {hint}") from error
        for name, how in fields:
            if how or name not in placeholders:
                raise ValueError(f"'{part}' has an unknown placeholder; {hint}")
    return command


def _names_files(name: str) -> str:
    """Data, logs and profiles are named after a workload; LLVM's run-time library reads a percent sign in a path as its own."""
    if (
        not name
        or name.startswith(".")
        or not name.isprintable()
        or set("/%") & set(name)
        or len(name.encode()) > _LONGEST_NAME
    ):
        raise ValueError(
            f"{name!r} cannot be a part of file names: leave out slashes, percent signs and a dot at the beginning, "
            f"and write at most {_LONGEST_NAME} bytes"
        )
    return name


CommandLine = Annotated[tuple[str, ...], Field(min_length=1), AfterValidator(_fillable)]
"""A program and its arguments, without a shell, with placeholders."""


class Fill(Value):
    """The command that fills the database.

    ``{url}``, ``{socket}``, ``{database}``, ``{connections}``, ``{tools}`` (the folder of the server's own client programs)
    and ``{programs}`` (that of Upshift's own, ``upshift-load`` among them) are replaced in it.
    """

    command: CommandLine


class LoadCommand(Value):
    """The command that loads the server.

    ``{url}``, ``{socket}``, ``{database}``, ``{tools}``, ``{programs}``, ``{connections}``, ``{seconds}`` (whole) and
    ``{seed}`` are replaced in it; it must end by itself.
    """

    command: CommandLine
    latency: Literal["none", "sysbench", "upshift-load", "json"] = "none"
    """How the driver reports latency: sysbench's histogram, what ``upshift-load --json`` prints, or a last line of JSON:
    latency_ms_p50, _p95, _p99, errors."""


class FixedCommand(Value):
    """The command that sends a fixed number of transactions, so that what a server executes for them can be counted.

    The placeholders are those of the load command, and ``{transactions}``. It must send the same statements each time.
    """

    command: Annotated[tuple[str, ...], Field(min_length=1), AfterValidator(_of_fixed_length)]
    transactions: int = Field(default=100, ge=1)
    """How many make the short run of a count; the long one has three times as many."""


class Workload(Value):
    """A way to fill a database and a command that loads it."""

    name: Annotated[str, AfterValidator(_names_files)]
    description: str = ""
    server: Annotated[tuple[str, ...], BeforeValidator(_all), Field(min_length=1)] = ("mysql",)
    """The kinds of server that it is for: one name, or a list."""
    fill: Fill
    load: LoadCommand
    fixed: FixedCommand | None = None
    """None: what a server executes for this workload is not counted."""
    unit: Unit = "query"
    """What is counted while it runs. Where variants of a client send different statements for the same work, queries cannot
    be compared, and transactions can."""
    connections: int = Field(default=8, ge=1)
    """Client connections while training."""
    weight: FiniteFloat = Field(default=1.0, gt=0)
    """Share of the merged profile, relative to the other workloads trained on."""
    settings: Annotated[Mapping[str, str], AfterValidator(one_spelling)] = {}
    """Server configuration that this workload needs, on top of the server kind's own."""

    @field_serializer("server")
    def _as_written(self, server: tuple[str, ...]) -> str | tuple[str, ...]:
        return server[0] if len(server) == 1 else server

    @property
    def needs_programs(self) -> bool:
        """Whether a command of it is one of Upshift's own programs."""
        fixed = self.fixed.command if self.fixed else ()
        return any("{programs}" in part for part in (*self.fill.command, *self.load.command, *fixed))
