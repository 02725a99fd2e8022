"""What the rooms work with: a folder, the shell, a log, and somewhere to say how far they are."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from upshift.shell import Shell


class Progress(Protocol):
    """Where long work says how far it is."""

    def update(self, done: float, total: float, detail: str = "") -> None:
        """``done`` of ``total``, in any unit of one length."""
        ...

    def note(self, text: str) -> None:
        """One line worth keeping: a fallback, a choice that was made."""
        ...


@dataclass(frozen=True)
class Workbench:
    """What a stage hands to the room that does its work."""

    folder: Path
    """Its own. A stage names it by the hash of its inputs; empty, unless the stage goes on from what an interrupted attempt
    left."""
    shell: Shell
    log: Path
    progress: Progress
