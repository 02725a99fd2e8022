"""perf: what it may sample here, and where in a file's code a sample lies."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from typing import Literal

from elftools.elf.elffile import ELFFile

from upshift.errors import MissingTool
from upshift.shell import Command, Shell

SAMPLE_HZ = 1999
Event = Literal["cpu-clock", "cpu-clock:u"]
Segment = tuple[int, int, int]
"""File offset, size in bytes and virtual address of executable code."""
_MMAP = re.compile(r"PERF_RECORD_MMAP2? .*\[(0x[0-9a-f]+)\((0x[0-9a-f]+)\) @ (0x[0-9a-f]+|0) .*\]: r-xp (.*)$")


def sampling_event(shell: Shell, events: tuple[Event, ...] = ("cpu-clock", "cpu-clock:u")) -> Event:
    """The first of ``events`` that perf can sample here: by default user code and the kernel, or user code alone.

    Raises MissingTool without perf, where ``$UPSHIFT_PERF`` forbids it, or when perf may not sample.
    The words are those of an explanation: all else goes on without perf.
    """
    if os.environ.get("UPSHIFT_PERF") == "off":
        raise MissingTool("UPSHIFT_PERF=off forbids perf, and an explanation needs its samples", "unset UPSHIFT_PERF")
    if shutil.which("perf") is None:
        raise MissingTool(
            "there is no perf, and an explanation needs its samples",
            "install it (Debian: linux-perf, Ubuntu: linux-tools-generic)",
        )
    starts = shell.run(Command(("perf", "--version")), check=False, timeout_s=20)
    if starts.returncode != 0:
        said = next(filter(None, map(str.strip, starts.stdout.splitlines())), "it says nothing")
        raise MissingTool(f"perf does not start: {said}", "Ubuntu's belongs to one kernel: install linux-tools-$(uname -r)")
    for event in events:
        # Where perf may not sample the kernel, it leaves that out of cpu-clock without a word; of cpu-clock:k nothing is left.
        asked = event if event.endswith(":u") else f"{event}:k"
        probe = Command(("perf", "record", "-e", asked, "-o", os.devnull, "--", "true"))
        if shell.run(probe, check=False, timeout_s=20).returncode == 0:
            return event
    raise MissingTool(
        "perf is not allowed to sample here",
        "`sysctl kernel.perf_event_paranoid=2` lets it sample user code, 1 the kernel as well; a container needs CAP_PERFMON",
    )


def code_segments(elf: ELFFile) -> list[Segment]:
    """Of an ELF file."""
    return [
        (segment["p_offset"], segment["p_filesz"], segment["p_vaddr"])
        for segment in elf.iter_segments()
        if segment["p_type"] == "PT_LOAD" and segment["p_flags"] & 1
    ]


def virtual(offset: int, segments: list[Segment]) -> int | None:
    """The virtual address of what lies at an offset of the file; None outside its code."""
    for file_offset, size, address in segments:
        if file_offset <= offset < file_offset + size:
            return offset - file_offset + address
    return None


class Mappings:
    """Where processes mapped a file's code, from the lines of ``perf script --show-mmap-events``."""

    def __init__(self, file: Path) -> None:
        self._file = str(file)
        self._found: list[tuple[int, int, int]] = []

    def line(self, line: str) -> bool:
        """Whether the line tells of a mapping, of this file or another."""
        event = _MMAP.search(line)
        if event and event[4].strip() == self._file:
            start, size, offset = (int(event[number], 16) for number in (1, 2, 3))
            self._found.append((start, start + size, offset))
        return event is not None

    def offset(self, ip: int) -> int | None:
        """The offset in the file of what ran at a run-time address; None elsewhere."""
        return next((ip - start + offset for start, end, offset in self._found if start <= ip < end), None)
