"""A server's text on transparent huge pages: what its environment holds, what the machine must have, and what came of it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from upshift.errors import UsageError
from upshift.files import text_in
from upshift.native.programs import HUGE_TEXT_LIBRARY, programs_dir
from upshift.server.preload import PRELOAD
from upshift.values import Value

PROGRAM = "UPSHIFT_HUGETEXT_PROGRAM"
"""Names the program whose text is moved; crates/hugetext reads it."""
_SAY = "UPSHIFT_HUGETEXT_SAY"
_SETTING = "sys/kernel/mm/transparent_hugepage/enabled"


class Text(Value):
    """The executable memory of a process that is the program's own, or that belongs to no file."""

    size_bytes: int
    huge_bytes: int
    """How much of it lies on huge pages, whether of a file or not."""


def with_huge_text(environment: Mapping[str, str], program: Path, library: Path | None = None) -> Mapping[str, str]:
    """``environment`` with the library (None: the one that Upshift has built) before whatever is preloaded already: an
    allocator stays where it is.
    """
    first = library or programs_dir() / HUGE_TEXT_LIBRARY
    preloaded = ":".join(filter(None, (str(first), environment.get(PRELOAD, ""))))
    return {**environment, PRELOAD: preloaded, PROGRAM: program.resolve().name, _SAY: "1"}


def refuse_without_huge_pages(whose: str, root: Path = Path("/")) -> None:
    """Raises UsageError where the kernel gives no huge pages to a program that asks for them."""
    setting = text_in(root / _SETTING)
    if not setting or "[never]" in setting:
        why = "its setting is never" if setting else "it was built without them, or hides them"
        raise UsageError(
            f"{whose}: text_huge_pages, and this kernel gives no transparent huge pages: {why}",
            f"`echo madvise > /{_SETTING}` gives them to programs that ask; or leave text_huge_pages out",
        )


def text_of(pid: int, root: Path = Path("/")) -> Text | None:
    """How the text of a process lies in memory; None for one that is gone, or whose memory this user may not look at."""
    process = root / f"proc/{pid}"
    try:
        smaps, program = (process / "smaps").read_text(), str((process / "exe").readlink())
    except OSError:
        return None
    size_bytes = huge_bytes = 0
    # A mapping's entry begins with its addresses, what may be done with it, and at the end its file: proc_pid_smaps(5).
    for entry in re.split(r"^(?=[0-9a-f]+-[0-9a-f]+ )", smaps, flags=re.M):
        head = entry.partition("\n")[0].split(maxsplit=5)
        if len(head) >= 5 and "x" in head[1] and (len(head) == 5 or head[5] == program):
            figures = dict(re.findall(r"^(\w+):\s+(\d+) kB$", entry, re.M))
            size_bytes += 1024 * int(figures.get("Size", 0))
            huge_bytes += 1024 * sum(int(figures.get(name, 0)) for name in ("AnonHugePages", "FilePmdMapped"))
    return Text(size_bytes=size_bytes, huge_bytes=huge_bytes)
