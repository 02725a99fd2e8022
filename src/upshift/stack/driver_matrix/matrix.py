"""drivers/matrix.toml: which drivers, which of their settings."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError, field_validator

from upshift.errors import UpshiftError, UsageError
from upshift.paths import shipped
from upshift.stack.driver_matrix.operations import OPERATIONS, Language
from upshift.values import Value, describe_invalid

Protocol = Literal["mysql", "postgres"]
Kind = Literal["default", "bad", "good"]
Check = Literal[
    "connect",
    "prepared",
    "batch",
    "cursor",
    "error",
    "cancel",
    "reconnect",
    "local_infile",
    "tls_refused",
    "tls",
    "tls_ended",
    "compressed",
]


class Setting(Value):
    """Options of a driver, and a way to use it, with a name."""

    name: str
    kind: Kind
    says: str
    options: Mapping[str, Any] = {}
    """The driver's own, by its own names."""
    use: Mapping[str, str] = {}
    """How the program calls the driver, where that is no option."""
    operations: tuple[str, ...] = ()
    """Those that it is about; empty: all."""

    @field_validator("operations")
    @classmethod
    def _known(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        for name in names:
            if name not in OPERATIONS:
                raise ValueError(f"no operation is called {name}")
        return names


class Driver(Value):
    """A client library, in one version."""

    name: str
    title: str
    language: Language
    protocol: Protocol
    package: str
    """Its name where its language's packages come from."""
    version: str
    """Empty: whichever is there, as the result names it."""
    checks: tuple[Check, ...]
    always: Mapping[str, Any] = {}
    """Options for all of its settings, without which nothing can be counted: that it goes without TLS."""
    encrypted: Mapping[str, Any]
    """Options with which it asks for TLS and goes nowhere without, whatever the certificate."""
    compressed: Mapping[str, Any] = {}
    """Options with which it asks for MySQL's compressed protocol; empty for a driver that has none."""
    setting: tuple[Setting, ...] = Field(min_length=1)

    @field_validator("setting")
    @classmethod
    def _default_first(cls, settings: tuple[Setting, ...]) -> tuple[Setting, ...]:
        if [each.kind for each in settings].index("default") != 0:
            raise ValueError("the first setting is the default")
        return settings

    def about(self, setting: Setting) -> tuple[str, ...]:
        """The operations to count with one of its settings: those that the setting is about and its program has."""
        wanted = setting.operations or tuple(OPERATIONS)
        return tuple(name for name in wanted if self.language in (OPERATIONS[name].languages or (self.language,)))


class Matrix(Value):
    """All drivers."""

    driver: tuple[Driver, ...]


def read_matrix(file: Path | None = None) -> Matrix:
    """The shipped matrix, or another one. Raises UpshiftError for a malformed one."""
    file = file or shipped("drivers") / "matrix.toml"
    try:
        return Matrix.model_validate(tomllib.loads(file.read_text()))
    except (tomllib.TOMLDecodeError, ValidationError, ValueError) as error:
        said = describe_invalid(error) if isinstance(error, ValidationError) else str(error)
        raise UpshiftError(f"{file}: {said}", "docs/reference/stack-drivers.md has its keys") from error


def chosen(matrix: Matrix, only: Iterable[str]) -> tuple[Driver, ...]:
    """The drivers of these names; all without any. Raises UsageError for a name that there is not."""
    wanted = tuple(dict.fromkeys(only))
    names = [each.name for each in matrix.driver]
    for name in wanted:
        if name not in names:
            raise UsageError(f"there is no driver {name!r}", f"one of {', '.join(names)}")
    return tuple(each for each in matrix.driver if not wanted or each.name in wanted)
