"""A result on disk: ``result.json`` in the run's folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from upshift.errors import UpshiftError, UsageError
from upshift.report.result import SCHEMA_VERSION, Result
from upshift.run.directory import write_json
from upshift.values import describe_invalid

RESULT_FILE = "result.json"


def save_result(result: Result, run_folder: Path) -> Path:
    """Write ``result.json`` so that a reader, or a kill, never meets half of it; the file's path."""
    path = run_folder / RESULT_FILE
    write_json(path, result.model_dump(mode="json"))
    return path


def load_result(run_folder: Path) -> Result:
    """The result of a finished run.

    Raises UsageError when the run has none, UpshiftError when the file is damaged or another version of Upshift wrote it.
    """
    path = run_folder / RESULT_FILE
    raw = _read(path)
    version = raw.get("schema_version")
    if version != SCHEMA_VERSION:
        raise UpshiftError(
            f"{path} has schema version {version}, this Upshift reads version {SCHEMA_VERSION}",
            f"measure again, or read it with the Upshift that wrote it: {raw.get('upshift_version', 'unknown')}",
        )
    try:
        return Result.model_validate(raw)
    except ValidationError as error:
        raise UpshiftError(f"{path} is damaged: {describe_invalid(error)}", "measure again") from error


def _read(path: Path) -> dict[str, Any]:
    try:
        raw = json.loads(path.read_text())
    except FileNotFoundError as error:
        raise UsageError(
            f"the run {path.parent.name} has no result",
            "it did not end, or its command measures nothing: `upshift runs` lists them",
        ) from error
    except (ValueError, RecursionError, IsADirectoryError) as error:
        raise UpshiftError(f"{path} is damaged: it is not JSON", "measure again") from error
    if not isinstance(raw, dict):
        raise UpshiftError(f"{path} is damaged: it holds no result", "measure again")
    return raw
