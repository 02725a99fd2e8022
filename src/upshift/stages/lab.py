"""What every stage works with."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from upshift.run.directory import RunDirectory
from upshift.run.stages import StageProgress, Stages
from upshift.server.kind import Program, ServerKind, SourceKind
from upshift.server.kinds import kind_of
from upshift.shell import Shell


@dataclass(frozen=True)
class Lab:
    """What every stage works with."""

    stages: Stages
    kind: SourceKind
    """What is built."""
    shell: Shell
    progress: StageProgress
    cache: Path
    jobs: int
    run: RunDirectory

    def kind_of(self, program: Program) -> ServerKind:
        """The kind of a server that is measured."""
        return self.kind if program.kind == self.kind.name else kind_of(program)
