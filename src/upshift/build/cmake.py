"""What a build folder of CMake's says of itself."""

from __future__ import annotations

import re
from pathlib import Path

_HOME = re.compile(r"^CMAKE_HOME_DIRECTORY:INTERNAL=(.+)$", re.MULTILINE)


def source_of(tree: Path) -> Path | None:
    """The source that ``tree`` was configured from; None where it is no build folder."""
    cache = tree / "CMakeCache.txt"
    found = _HOME.search(cache.read_text()) if cache.is_file() else None
    return Path(found[1]) if found else None
