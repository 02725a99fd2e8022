"""GCC profiles: a folder of .gcda files, one an object, that libgcov adds to at each clean end of the server."""

from __future__ import annotations

import hashlib
import shutil
import struct
from pathlib import Path

from upshift.errors import ProfileRefused

# "gcda", little endian: gcov_type magic in GCC's gcov-io.h.
_MAGIC = 0x67636461


def redirected(raw: Path) -> dict[str, str]:
    """Makes an instrumented server write below ``raw`` and not where it was compiled to write."""
    return {"GCOV_PREFIX": str(raw)}


def collect(raw: Path, counters: Path, objects: Path, folder: Path) -> tuple[Path, str]:
    """What trainings left below ``raw`` in a folder named by its content; the hash. Raises ProfileRefused when that is nothing.

    Servers add their counters up when they end. The workloads' shares have no effect: gcov-tool 12, which could multiply,
    ends with an internal error when it reads the counters of a server (gcov_read_counter_mem in libgcov-util.c).
    ``counters`` is where the server was compiled to write, ``objects`` where its objects lie: libgcov writes a file below the
    one under the whole path of its object, and here it is kept under the part of it below ``objects``.
    """
    found = _below(_below(raw, counters), objects)
    digest = sha256(found)
    named = folder / f"{digest[:20]}.counters"
    shutil.rmtree(named, ignore_errors=True)
    shutil.copytree(found, named)
    return named, digest


def place(counters: Path, objects: Path, folder: Path) -> Path:
    """A copy of merged counters in ``folder``, where GCC looks for those of the objects that it writes below ``objects``."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(counters, _below(folder, objects))
    return folder


def _below(folder: Path, absolute: Path) -> Path:
    return folder / absolute.relative_to("/")


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
