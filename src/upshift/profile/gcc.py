"""GCC profiles: a folder of .gcda files, one an object, that libgcov adds to at each clean end of the server."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

from upshift.errors import ProfileRefused

# The format is described in GCC's gcov-io.h. A file begins with "gcda", the version and a stamp, since GCC 12 a checksum, too.
# Then come records, each a tag, a length and so much data, and a zero. All are words of four bytes, little endian.
_MAGIC = 0x67636461
_WORD_BYTES = 4
_COUNTERS = range(0x01A1, 0x01C0)
"""The upper halves of the tags that records of counters have, GCOV_TAG_FOR_COUNTER."""


def redirected(raw: Path) -> dict[str, str]:
    """Makes an instrumented server write below ``raw`` and not where it was compiled to write."""
    return {"GCOV_PREFIX": str(raw)}


class Collected(NamedTuple):
    """What trainings left."""

    path: Path
    """A folder named by its content."""
    sha256: str
    cut: int
    """Files that were cut short, by a full disk or a server that was killed, and left out: GCC would take what they have."""


def collect(raw: Path, counters: Path, objects: Path, folder: Path) -> Collected:
    """What trainings left below ``raw``, without files that were cut short. Raises ProfileRefused when that is nothing.

    Servers add their counters up when they end. The workloads' shares have no effect: gcov-tool 12, which could multiply,
    ends with an internal error when it reads the counters of a server (gcov_read_counter_mem in libgcov-util.c).
    ``counters`` is where the server was compiled to write, ``objects`` where its objects lie: libgcov writes a file below the
    one under the whole path of its object, and here it is kept under the part of it below ``objects``.
    """
    found = _below(_below(raw, counters), objects)
    cut = frozenset(file for file in found.rglob("*.gcda") if not is_whole(file.read_bytes()))
    digest = sha256(found, without=cut)
    named = folder / f"{digest[:20]}.counters"
    shutil.rmtree(named, ignore_errors=True)
    shutil.copytree(found, named, ignore=lambda parent, names: [name for name in names if Path(parent, name) in cut])
    return Collected(named, digest, len(cut))


def place(counters: Path, objects: Path, folder: Path) -> Path:
    """A copy of merged counters in ``folder``, where GCC looks for those of the objects that it writes below ``objects``."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(counters, _below(folder, objects))
    return folder


def _below(folder: Path, absolute: Path) -> Path:
    return folder / absolute.relative_to("/")


def sha256(counters: Path, without: Collection[Path] = ()) -> str:
    """Of the names and contents of all counter files but some. Raises ProfileRefused when there are none."""
    digest = hashlib.sha256()
    files = sorted(file for file in counters.rglob("*.gcda") if file not in without)
    if not files:
        raise ProfileRefused(
            f"the training run left no {'whole ' if without else ''}counters",
            "the server must end cleanly, be the instrumented one, and have room on the disk",
        )
    for file in files:
        digest.update(str(file.relative_to(counters)).encode())
        digest.update(file.read_bytes())
    return digest.hexdigest()


def counts(counters: Path) -> dict[str, int]:
    """Each object's counter file with 1 if it is whole and holds counters, else 0 (GCC keeps no function names in them)."""
    return {str(file.relative_to(counters)): int(is_whole(file.read_bytes())) for file in counters.rglob("*.gcda")}


def is_whole(content: bytes) -> bool:
    """Whether these are all records of a counter file, up to the zero behind them, and counters are among them."""
    if len(content) < 2 * _WORD_BYTES or _word(content, 0) != _MAGIC:
        return False
    # The version is a letter for tens, a digit, another for the minor version: "B22*" of GCC 12.2, from its last byte on.
    since_12 = (content[7] - ord("A")) * 10 + content[6] - ord("0") >= 12
    at, unit_bytes = (4 * _WORD_BYTES, 1) if since_12 else (3 * _WORD_BYTES, _WORD_BYTES)
    counted = False
    while at + _WORD_BYTES <= len(content):
        if not (tag := _word(content, at)):
            return counted
        if at + 2 * _WORD_BYTES > len(content):
            return False
        counted |= tag >> 16 in _COUNTERS
        # A length below zero stands for so many counters that are all zero, and are not in the file.
        at += 2 * _WORD_BYTES + max(0, _word(content, at + _WORD_BYTES)) * unit_bytes
    return False


def _word(content: bytes, at: int) -> int:
    return int.from_bytes(content[at : at + _WORD_BYTES], "little", signed=True)
