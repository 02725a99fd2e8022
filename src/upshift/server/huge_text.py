"""A server's text on transparent huge pages: what its environment holds, what the machine must have, and what came of it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from upshift.errors import UsageError
from upshift.native.programs import HUGE_TEXT_LIBRARY, programs_dir

PROGRAM = "UPSHIFT_HUGETEXT_PROGRAM"
"""Names the program whose text is moved; crates/hugetext reads it."""
_SAY = "UPSHIFT_HUGETEXT_SAY"
_SETTING = "sys/kernel/mm/transparent_hugepage/enabled"
_PRELOAD = "LD_PRELOAD"


def with_huge_text(environment: Mapping[str, str], program: Path, library: Path | None = None) -> Mapping[str, str]:
    """``environment`` with the library (None: the one that Upshift has built) before whatever is preloaded already: an
    allocator stays where it is.
    """
    first = library or programs_dir() / HUGE_TEXT_LIBRARY
    preloaded = ":".join(filter(None, (str(first), environment.get(_PRELOAD, ""))))
    return {**environment, _PRELOAD: preloaded, PROGRAM: program.resolve().name, _SAY: "1"}


def refuse_without_huge_pages(whose: str, root: Path = Path("/")) -> None:
    """Raises UsageError where the kernel gives no huge pages to a program that asks for them."""
    try:
        setting = (root / _SETTING).read_text()
    except OSError:
        setting = ""
    if not setting or "[never]" in setting:
        why = "its setting is never" if setting else "it was built without them, or hides them"
        raise UsageError(
            f"{whose}: text_huge_pages, and this kernel gives no transparent huge pages: {why}",
            f"`echo madvise > /{_SETTING}` gives them to programs that ask; or leave text_huge_pages out",
        )


def huge_text_bytes(pid: int, root: Path = Path("/")) -> int:
    """How much executable memory of a process lies on huge pages; 0 for a process that is gone."""
    try:
        smaps = (root / f"proc/{pid}/smaps").read_text()
    except OSError:
        return 0
    # A mapping's entry begins with its addresses and what may be done with it: proc_pid_smaps(5).
    entries = re.split(r"^(?=[0-9a-f]+-[0-9a-f]+ )", smaps, flags=re.M)
    executable = (each for each in entries if re.match(r"\S+ ..x", each))
    return sum(int(kib) * 1024 for each in executable for kib in re.findall(r"^AnonHugePages:\s+(\d+) kB$", each, re.M))
