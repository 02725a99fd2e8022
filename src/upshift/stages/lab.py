"""What every stage works with."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from upshift.run.directory import RunDirectory
from upshift.run.stages import StageProgress, Stages
from upshift.server.kind import ServerKind
from upshift.shell import Shell


@dataclass(frozen=True)
class Lab:
    """What every stage works with."""

    stages: Stages
    kind: ServerKind
    shell: Shell
    progress: StageProgress
    cache: Path
    jobs: int
    run: RunDirectory
