"""What an executable holds: the names of the variables that a server has are among its bytes."""

from __future__ import annotations

import mmap
import re
from pathlib import Path

ELF = b"\x7fELF"
"""Each executable begins with it."""


def holds(executable: Path, word: bytes) -> bool:
    """Whether an executable holds these bytes. A file that is none is refused for that, not for this."""
    return _matches(executable, re.escape(word))


def names(executable: Path, variable: str) -> bool:
    """Whether an executable holds the name of a variable, and not only longer ones: ``pool_read`` is in ``buffer_pool_reads``.

    A file that is none is refused for that, not for this.
    """
    return _matches(executable, re.escape(variable.encode()) + rb"(?![a-z0-9_])")


def _matches(executable: Path, pattern: bytes) -> bool:
    with executable.open("rb") as file:
        if file.read(len(ELF)) != ELF:
            return True
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as held:
            return re.search(pattern, held) is not None
