"""``result.json`` in a run's folder."""

from __future__ import annotations

import json
from pathlib import Path

from pydantic import ValidationError

from upshift.errors import UsageError
from upshift.report.result import SCHEMA_VERSION, Result
from upshift.run.directory import write_json


def save_result(result: Result, run_folder: Path) -> Path:
    """Write it so that no reader ever meets half of it."""
    file = run_folder / "result.json"
    write_json(file, result.model_dump(mode="json"))
    return file


def load_result(run_folder: Path) -> Result:
    """Raises UsageError when the run has no result (yet), or one of another version of Upshift."""
    file = run_folder / "result.json"
    if not file.is_file():
        raise UsageError(
            f"run {run_folder.name} has no result: it did not come to its end",
            f"`upshift optimize --resume {run_folder.name}` goes on with it",
        )
    try:
        content = json.loads(file.read_text())
    except ValueError as error:
        raise UsageError(f"{file} is not JSON: {error}", "run `upshift optimize` again") from error
    version = content.get("schema_version") if isinstance(content, dict) else None
    if version != SCHEMA_VERSION:
        raise UsageError(
            f"{file} has schema_version {version}, this Upshift reads {SCHEMA_VERSION}",
            "use the Upshift that wrote it",
        )
    try:
        return Result.model_validate(content)
    except ValidationError as error:
        raise UsageError(
            f"{file} is not a result: {error.error_count()} fields are wrong", "run `upshift optimize` again"
        ) from error
