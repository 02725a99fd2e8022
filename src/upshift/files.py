"""Files that may not be there, or may not be read: what they would have told is unknown then."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any


def text_in(file: Path) -> str:
    """Empty where there is no such file, or it cannot be read."""
    with contextlib.suppress(OSError):
        return file.read_text(errors="replace")
    return ""


def object_in(file: Path) -> dict[str, Any]:
    """Of JSON; empty where there is no such file, or it holds something else."""
    with contextlib.suppress(OSError, ValueError):
        found = json.loads(file.read_text())
        return found if isinstance(found, dict) else {}
    return {}
