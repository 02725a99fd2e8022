"""What an executable holds: the names of the variables that a server has are among its bytes."""

from __future__ import annotations

import mmap
from pathlib import Path

ELF = b"\x7fELF"
"""Each executable begins with it."""


def holds(executable: Path, word: bytes) -> bool:
    """Whether an executable holds these bytes. A file that is none is refused for that, not for this."""
    with executable.open("rb") as file:
        if file.read(len(ELF)) != ELF:
            return True
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as held:
            return held.find(word) >= 0
