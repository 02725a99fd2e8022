"""A result on disk: ``result.json`` in the run's folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from upshift.errors import UpshiftError, UsageError
from upshift.report.result import SCHEMA_VERSION, Result
from upshift.run.directory import write_json
from upshift.values import M, describe_invalid

RESULT_FILE = "result.json"


def save_result(result: Result, run_folder: Path) -> Path:
    """Write ``result.json`` so that a reader, or a kill, never meets half of it; the file's path."""
    path = run_folder / RESULT_FILE
    write_json(path, result.model_dump(mode="json"))
    return path


def load_result(run_folder: Path) -> Result:
    """The result of a finished run. Raises what ``load`` does."""
    return load(
        Result, SCHEMA_VERSION, run_folder, "it did not end, or its command measures nothing: `upshift runs` lists them"
    )


def load(model: type[M], version: int, run_folder: Path, without: str) -> M:
    """What a finished run found, by the model of its command.

    Raises UsageError with the hint ``without`` when the run has no result, UpshiftError when the file is damaged or of another
    schema version.
    """
    path = run_folder / RESULT_FILE
    raw = _read(path, without)
    if raw["schema_version"] != version:
        raise UpshiftError(
            f"{path} has schema version {raw['schema_version']}, this Upshift reads version {version}",
            f"measure again, or read it with the Upshift that wrote it: {raw.get('upshift_version', 'unknown')}",
        )
    try:
        return model.model_validate(raw)
    except ValidationError as error:
        raise UpshiftError(f"{path} is damaged: {describe_invalid(error)}", "measure again") from error


def _read(path: Path, without: str) -> dict[str, Any]:
    try:
        raw = json.loads(path.read_text())
    except FileNotFoundError as error:
        raise UsageError(f"the run {path.parent.name} has no result", without) from error
    except (ValueError, RecursionError, IsADirectoryError) as error:
        raise UpshiftError(f"{path} is damaged: it is not JSON", "measure again") from error
    if not isinstance(raw, dict) or "schema_version" not in raw:
        raise UpshiftError(f"{path} is damaged: it holds no result", "measure again")
    return raw
