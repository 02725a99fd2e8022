"""GCC profiles: a folder of .gcda files, one an object, that libgcov adds to at each clean end of the server."""

from __future__ import annotations

import hashlib
import shutil
import struct
from pathlib import Path

from upshift.errors import ProfileRefused

# "gcda", little endian: gcov_type magic in GCC's gcov-io.h.
_MAGIC = 0x67636461


def reset(counters: Path) -> None:
    """Forget what earlier trainings counted."""
    shutil.rmtree(counters, ignore_errors=True)


def sha256(counters: Path) -> str:
    """Of all counter files' names and contents. Raises ProfileRefused when there are none."""
    digest = hashlib.sha256()
    files = sorted(counters.rglob("*.gcda"))
    if not files:
        raise ProfileRefused("the training run left no counters", "the server must end cleanly, and be the instrumented one")
    for file in files:
        digest.update(str(file.relative_to(counters)).encode())
        digest.update(file.read_bytes())
    return digest.hexdigest()


def counts(counters: Path) -> dict[str, int]:
    """Each object's counter file with 1 if it is whole and holds counters, else 0 (GCC keeps no function names in them)."""
    found = {}
    for file in counters.rglob("*.gcda"):
        content = file.read_bytes()
        whole = len(content) > 16 and struct.unpack_from("<I", content)[0] == _MAGIC
        found[str(file.relative_to(counters))] = int(whole)
    return found
