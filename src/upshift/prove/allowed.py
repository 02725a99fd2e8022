"""The list of what patches change on purpose: of MySQL's tests here, of answers in upshift-differ."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, StringConstraints, ValidationError

from upshift.errors import UsageError
from upshift.toml import read_toml
from upshift.values import Value, describe_invalid

_Text = Annotated[str, StringConstraints(min_length=1)]


class DifferingTest(Value):
    """A test of MySQL's whose result a patch changes on purpose."""

    name: Annotated[str, StringConstraints(pattern=r"^[\w-]+\.[\w-]+$")]
    """As ``main.ps``, for all combinations of options."""
    patch: _Text
    why: _Text


class _List(Value):
    test: tuple[DifferingTest, ...] = ()
    allow: Annotated[tuple[Any, ...], Field(default=())]
    """Of upshift-differ."""


def differing_tests(file: Path | None) -> tuple[DifferingTest, ...]:
    """Raises UsageError for a file that is not there or is malformed."""
    if file is None:
        return ()
    hint = "docs/reference/patch-prove.md has its keys"
    told = read_toml(file, "list of allowed differences", hint, option="--allow")
    try:
        return _List.model_validate(told).test
    except ValidationError as error:
        raise UsageError(f"--allow: {file}: {describe_invalid(error)}", hint) from error
