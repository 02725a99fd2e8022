"""How does a file lie in memory: are its pages beside each other?

    .venv/bin/python tests/benches/places.py FILE...
    .venv/bin/python tests/benches/places.py --scatter FILE [-- COMMAND...]

Says of each file how many of its pages are in the page cache, in how many runs of pages that lie beside each other, and how
many aligned groups of four pages are one aligned group in memory, too. ``--scatter`` first drops the files and reads their
pages one by one in random order. A COMMAND then takes the place of this process: as ``under`` of a variant, this starts a
server whose executable is scattered. Only root sees where pages lie.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import mmap
import os
import random
import sys
from pathlib import Path

import numpy as np

_PAGE_BYTES = mmap.PAGESIZE
# An entry of /proc/PID/pagemap: Documentation/admin-guide/mm/pagemap.rst of Linux.
_PRESENT, _FRAME = np.uint64(1 << 63), np.uint64((1 << 55) - 1)
_GROUP = 4


def scatter(path: Path) -> None:
    """Drop the file from the page cache, and read its pages in random order, each alone."""
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_RANDOM)
        pages = list(range(_pages(file)))
        random.Random(1).shuffle(pages)
        for page in pages:
            os.pread(file, 1, page * _PAGE_BYTES)
    finally:
        os.close(file)


def frames(path: Path) -> np.ndarray:
    """The number of the memory's page for each of the file's; 0: not in the page cache, or this user may not see it."""
    file = os.open(path, os.O_RDONLY)
    try:
        pages = _pages(file)
        with mmap.mmap(file, 0, prot=mmap.PROT_READ) as mapped, Path("/proc/self/pagemap").open("rb") as pagemap:
            view = np.frombuffer(mapped, dtype=np.uint8)
            address = view.ctypes.data
            resident = ctypes.create_string_buffer(pages)
            libc = ctypes.CDLL(None, use_errno=True)
            if libc.mincore(ctypes.c_void_p(address), ctypes.c_size_t(len(mapped)), resident):
                raise OSError(ctypes.get_errno(), "mincore")
            for page in range(pages):
                if resident.raw[page] & 1:
                    view[page * _PAGE_BYTES].item()
            pagemap.seek(address // _PAGE_BYTES * 8)
            entries = np.frombuffer(pagemap.read(pages * 8), dtype=np.uint64)
            del view
            return np.where(entries & _PRESENT, entries & _FRAME, 0).astype(np.int64)
    finally:
        os.close(file)


def described(of: np.ndarray) -> dict[str, int]:
    """The figures of a file whose pages lie in ``of``."""
    begins = np.flatnonzero((of > 0) & (np.diff(of, prepend=-1) != 1))
    groups = of[: len(of) // _GROUP * _GROUP].reshape(-1, _GROUP)
    groups = groups[(groups > 0).all(axis=1)]
    together = (groups[:, 0] % _GROUP == 0) & (np.diff(groups) == 1).all(axis=1)
    return {
        **{"pages": len(of), "cached": int((of > 0).sum()), "runs": len(begins)},
        **{"groups": len(groups), "groups_together": int(together.sum())},
    }


def _pages(file: int) -> int:
    return -(-os.fstat(file).st_size // _PAGE_BYTES)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    parser.add_argument("--scatter", action="store_true")
    words = sys.argv[1:]
    split = words.index("--") if "--" in words else len(words)
    given, command = parser.parse_args(words[:split]), words[split + 1 :]
    for file in given.files:
        if given.scatter:
            scatter(file)
    if command:
        os.execvp(command[0], command)
    for file in given.files:
        sys.stdout.write(f"{file}: {json.dumps(described(frames(file)))}\n")


if __name__ == "__main__":
    main()
