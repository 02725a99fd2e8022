"""Finding and reading workload files."""

from __future__ import annotations

from pathlib import Path

from pydantic import ValidationError

from upshift.errors import WorkloadError
from upshift.paths import shipped, shipped_file
from upshift.toml import read_toml
from upshift.values import describe_invalid
from upshift.workload.model import Workload


def shipped_workloads() -> tuple[Workload, ...]:
    return tuple(read_workload(file) for file in sorted(shipped("workloads").glob("*.toml")))


def find_workload(name_or_path: str) -> Workload:
    """A shipped workload by its name, or any by the path of its file. Raises WorkloadError."""
    path = Path(name_or_path)
    if path.suffix == ".toml":
        if not path.is_file():
            raise WorkloadError(f"there is no workload file {path}", "`upshift workloads` lists those that are shipped")
        return read_workload(path)
    file = shipped_file("workloads", name_or_path)
    if file is None:
        raise WorkloadError(
            f"there is no workload '{name_or_path}'",
            "`upshift workloads` lists those that are shipped; name a file of your own with its ending .toml",
        )
    return read_workload(file)


def read_workload(file: Path) -> Workload:
    """The workload in a file. Raises WorkloadError when it cannot be read, or is none."""
    told = read_toml(file, "workload file", "compare it with a file in workloads/", WorkloadError)
    try:
        return Workload.model_validate({"name": file.stem, **told})
    except ValidationError as error:
        raise WorkloadError(f"{file}: {describe_invalid(error)}", "docs/reference/workloads.md lists the keys") from error
