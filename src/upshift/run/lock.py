"""One run at a time in a cache: two builds in one folder spoil it, two measurements on one machine spoil each other."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from upshift.errors import CacheBusy

_held: set[Path] = set()
"""The caches that this process holds."""


@contextlib.contextmanager
def exclusive(cache: Path) -> Iterator[None]:
    """Hold the cache. The kernel lets go when the process ends, however it ends. Raises CacheBusy, also within itself."""
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "lock").open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            raise CacheBusy(
                f"another run (process {file.read().strip() or 'unknown'}) works in {cache}",
                "wait for it; builds can run at the same time in separate caches (UPSHIFT_CACHE), measurements cannot",
            ) from None
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        _held.add(cache)
        try:
            yield
        finally:
            _held.remove(cache)


@contextlib.contextmanager
def holding(cache: Path) -> Iterator[None]:
    """``exclusive``; nothing where this process holds the cache already."""
    with contextlib.nullcontext() if cache in _held else exclusive(cache):
        yield
