"""A server's executable in the page cache: read in order, so that its pages lie alike for each server that is compared.

A page that the kernel reads because a process touched it gets any free page of memory. Pages that are read in order lie
beside each other, and such code took less CPU time (docs/measurements/2026-11-29-executable-pages). Without this, a server
that was just written is compared with one whose pages came and went.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

_AT_ONCE_BYTES = 1 << 14
"""Linux reads a file's beginning in single pages, as much as a first read suggests, and then ever larger pieces of memory."""


def read_in_order(executable: Path) -> None:
    """Drop the file from the page cache, and read it from its beginning to its end.

    Pages that a running process has mapped stay where they are, and so do those of a file system in memory. A file that
    cannot be read stays as it is: whoever starts it learns what is wrong.
    """
    with contextlib.suppress(OSError), executable.open("rb", buffering=0) as file:
        # Pages that are not written yet cannot be dropped. A file system that is never written, such as squashfs, has no fsync.
        with contextlib.suppress(OSError):
            os.fsync(file)
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_SEQUENTIAL)
        while file.read(_AT_ONCE_BYTES):
            pass
