"""What a command line asks for, as Options."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import typer

from upshift.cli.amounts import parse_budget, parse_connections, parse_patches, parse_until
from upshift.options import Options
from upshift.values import checked

_NAMES = {"workload": "workloads", "budget": "budget_s"}
"""Parameters that Options has by a name of its own."""
_PARSED: Mapping[str, Callable[[str], Any]] = {
    "patches": parse_patches,
    "connections": parse_connections,
    "until": parse_until,
    "budget_s": parse_budget,
}


def field_of(parameter: str) -> str | None:
    """The name in Options of a command's parameter: its own, with ``_s`` for ``_seconds``. None for one that is not there."""
    stem = parameter.removesuffix("_seconds")
    name = _NAMES.get(parameter, parameter if stem == parameter else f"{stem}_s")
    return name if name in Options.model_fields else None


def options_asked(context: typer.Context, **defaults: Any) -> Options:
    """The command's parameters as Options. What was not given has the value of ``defaults``, or else that of Options. Raises
    UsageError for what cannot be meant.
    """
    fields = {field_of(parameter): value for parameter, value in context.params.items()}
    given = {
        field: _PARSED[field](value) if field in _PARSED else value
        for field, value in fields.items()
        if field and value not in (None, [], ())
    }
    return checked(Options, defaults | given)
