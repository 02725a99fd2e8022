"""Where Upshift keeps things: one cache folder outside the checkout, and the TOML files that it ships."""

from __future__ import annotations

import os
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]


def cache_dir() -> Path:
    """The cache: ``$UPSHIFT_CACHE``, else ``$XDG_CACHE_HOME/upshift``, else ``~/.cache/upshift``.

    It holds ``stages/`` (results by content hash), ``runs/`` and ``downloads/``. All of it can be deleted at any time.
    """
    if explicit := os.environ.get("UPSHIFT_CACHE"):
        return Path(explicit).resolve()
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "upshift"


def shipped(folder: str) -> Path:
    """A folder of the checkout with files that users read and copy: ``recipes`` or ``workloads``."""
    return CHECKOUT / folder
