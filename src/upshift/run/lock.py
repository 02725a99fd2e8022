"""One run at a time in a cache: two builds in one folder spoil it, two measurements on one machine spoil each other."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from upshift.errors import CacheBusy


@contextlib.contextmanager
def exclusive(cache: Path) -> Iterator[None]:
    """Hold the cache. The kernel lets go when the process ends, however it ends. Raises CacheBusy."""
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
        yield
