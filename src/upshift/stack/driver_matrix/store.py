"""The result on disk, and going on where an earlier run of the matrix stopped."""

from __future__ import annotations

import datetime
import re
import shlex
import sys
from pathlib import Path

from pydantic import ValidationError

from upshift import __version__
from upshift.errors import UsageError
from upshift.machine import describe_machine
from upshift.stack.driver_matrix.model import DriversResult
from upshift.values import describe_invalid

_PASSWORD = re.compile(r"(//[^:/?#@]*):.*@")
"""Of a URL, whatever the password holds; a result may be published."""


def begin(file: Path | None) -> DriversResult:
    """A new result, or that of the file, without what failed in it: that is tried again. Raises UsageError."""
    if file is not None and (file.is_dir() or not file.absolute().parent.is_dir()):
        raise UsageError(f"--result {file} can be no file", "name a file in a folder that exists")
    if file is None or not file.exists():
        return DriversResult(
            command=shlex.join(("upshift", *(_PASSWORD.sub(r"\1:...@", each) for each in sys.argv[1:]))),
            began=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            upshift_version=__version__,
            machine=describe_machine(),
        )
    try:
        found = DriversResult.model_validate_json(file.read_bytes())
    except ValidationError as error:
        raise UsageError(
            f"{file} is not a result of `upshift stack drivers`: {describe_invalid(error)}", "name another file, or remove it"
        ) from error
    counted = tuple(each for each in found.counted if not each.error)
    return found.model_copy(update={"counted": counted, "checked": tuple(each for each in found.checked if each.ok)})


def save(result: DriversResult, file: Path) -> None:
    """Whole, or not at all."""
    new = file.with_name(f"{file.name}.new")
    new.write_text(result.model_dump_json(indent=1) + "\n")
    new.replace(file)
