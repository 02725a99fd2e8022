"""What a machine must have free before work begins."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

from upshift.control_groups import memory_available_bytes
from upshift.errors import NotEnoughRoom
from upshift.paths import cache_dir
from upshift.values import environment_number, folder_bytes

# The source tree, a plain build tree, two hot sets, instrumented and optimised servers, data copies, the package.
NEEDED_DISK_BYTES = 14_000_000_000
# Two compilers of 1.5 GB each.
NEEDED_MEMORY_BYTES = 3_000_000_000
# BOLT that instruments all functions of MySQL 9.7 (docs/measurements/2026-11-22-bolt-memory), and a fifth to spare.
BOLT_MEMORY_BYTES = 10_000_000_000
# A server that is measured: its data and copies of them, a buffer pool of 1 GiB and what it needs beside it.
MEASURING_DISK_BYTES = 3_000_000_000
MEASURING_MEMORY_BYTES = 2_000_000_000


def require_disk(disk_bytes: int, kept: Iterable[Path] = ()) -> None:
    """Raises NotEnoughRoom when the cache's disk has less; ``$UPSHIFT_NEEDED_DISK_BYTES`` replaces the figure.

    ``kept`` are folders that the work has filled already: they count as free.
    """
    cache = cache_dir()
    cache.mkdir(parents=True, exist_ok=True)
    needed_bytes = environment_number("UPSHIFT_NEEDED_DISK_BYTES", disk_bytes)
    free_bytes = shutil.disk_usage(cache).free
    if free_bytes < needed_bytes and free_bytes + sum(map(folder_bytes, kept)) < needed_bytes:
        raise NotEnoughRoom(
            f"the work needs about {needed_bytes / 1e9:.0f} GB of disk, {free_bytes / 1e9:.1f} GB are free at {cache}",
            "free some space, or set UPSHIFT_CACHE to a folder on a larger disk; UPSHIFT_NEEDED_DISK_BYTES sets another figure",
        )


def require_memory(memory_bytes: int, what: str = "the work", otherwise: str = "use a machine with more memory") -> None:
    """Raises NotEnoughRoom when less is free; ``$UPSHIFT_NEEDED_MEMORY_BYTES`` replaces the figure."""
    needed_bytes = environment_number("UPSHIFT_NEEDED_MEMORY_BYTES", memory_bytes)
    available_bytes = memory_available_bytes()
    if available_bytes < needed_bytes:
        raise NotEnoughRoom(
            f"{what} needs about {needed_bytes / 1e9:.0f} GB of memory, {available_bytes / 1e9:.1f} GB are free",
            f"stop something else, or {otherwise}",
        )
