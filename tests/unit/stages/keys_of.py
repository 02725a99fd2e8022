"""What the tests of stages' keys share: a recorder of keys, a workload, and a laboratory of fakes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from fakes import FakeKind, FakeShell

from upshift.stages.lab import Lab
from upshift.values import content_hash
from upshift.workload.model import Workload


class Recorder:
    """Stands in for ``Stages``: runs nothing, and remembers each stage's key."""

    def __init__(self, result: Any = None) -> None:
        self.keys: list[tuple[str, str]] = []
        self.inputs: list[Mapping[str, Any]] = []
        self._result = result

    def run(self, name: str, *_given: Any, inputs: Mapping[str, Any], version: int = 1, **_named: Any) -> Any:
        self.keys.append((name, content_hash([version, inputs])))
        self.inputs.append(inputs)
        return self._result


def workload(driver: Path, **changed: Any) -> Workload:
    commands = {"fill": {"command": (str(driver), "fill")}, "load": {"command": (str(driver), "load")}}
    return Workload.model_validate({"name": "w", **commands, **changed})


def lab_with(stages: Any, shell: FakeShell | None = None, kind: FakeKind | None = None, jobs: int = 2) -> Lab:
    kind = kind or FakeKind()
    lab: Any = SimpleNamespace(stages=stages, kind=kind, kind_of=lambda _program: kind, shell=shell or FakeShell(), jobs=jobs)
    return lab  # type: ignore[no-any-return]
