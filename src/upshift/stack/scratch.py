"""Folders below the cache for what a command writes only while it works."""

from __future__ import annotations

import contextlib
import fcntl
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from upshift.errors import NotEnoughRoom
from upshift.paths import cache_dir

_FOLDER, _LOCK = "scratch", "lock"


@contextlib.contextmanager
def scratch(prefix: str, *, room_bytes: int = 0, what: str = "the work") -> Iterator[Path]:
    """A new folder, on the cache's disk and not in a temporary folder that may be memory. It goes with the context.

    Folders whose process was killed go first. Raises NotEnoughRoom when less than ``room_bytes`` are free: ``what`` needs them.
    """
    place = cache_dir() / _FOLDER
    place.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as held:
        with _locked(place, fcntl.LOCK_EX):
            _remove_left(place)
            free_bytes = shutil.disk_usage(place).free
            if free_bytes < room_bytes:
                raise NotEnoughRoom(
                    f"{what} needs about {room_bytes / 1e9:.1f} GB of disk, {free_bytes / 1e9:.1f} GB are free at {place}",
                    "free some space, or set UPSHIFT_CACHE to a folder on a larger disk",
                )
            folder = Path(tempfile.mkdtemp(prefix=prefix, dir=place))
            held.callback(shutil.rmtree, folder, ignore_errors=True)
            # The kernel lets go when the process ends, however it ends.
            held.enter_context(_locked(folder, fcntl.LOCK_EX))
        yield folder


@contextlib.contextmanager
def _locked(folder: Path, how: int) -> Iterator[None]:
    """Raises BlockingIOError where ``how`` does not wait and another process has it."""
    with (folder / _LOCK).open("a") as file:
        fcntl.flock(file, how)
        yield


def _remove_left(place: Path) -> None:
    for folder in filter(Path.is_dir, place.iterdir()):
        with contextlib.suppress(OSError), _locked(folder, fcntl.LOCK_EX | fcntl.LOCK_NB):
            shutil.rmtree(folder, ignore_errors=True)
