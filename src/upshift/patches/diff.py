"""Patches in git's format, taken apart: files, and in each the hunks with the lines before and after."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Literal

from upshift.errors import RecipeError

_HEADER = re.compile(r"diff --git a/(.+?) b/(.+)\n?")
_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_UNSUPPORTED = (
    "rename from",
    "copy from",
    "GIT binary patch",
    "Binary files",
    "old mode",
    "new file mode 12",
    "deleted file mode 12",
)


@dataclass(frozen=True)
class Hunk:
    """Lines that a patch replaces; each with its line end, which the last of a file may lack."""

    number: int
    """In its file, from 1."""
    line: int
    """Of the file before the patch, from 1; 0 in a file that the patch makes."""
    old: tuple[str, ...]
    new: tuple[str, ...]


@dataclass(frozen=True)
class FileDiff:
    """What a patch does to one file."""

    path: str
    does: Literal["change", "add", "remove"]
    hunks: tuple[Hunk, ...]
    executable: bool = False
    """Whether a file that it adds is a program."""


def parse(text: str) -> tuple[FileDiff, ...]:
    """The files of a patch. Raises RecipeError for what is no patch, or one that renames, holds binary data or links."""
    lines = [line + "\n" for line in text.removesuffix("\n").split("\n")]
    starts = [n for n, line in enumerate(lines) if _HEADER.fullmatch(line)]
    if not starts:
        raise RecipeError("a patch of the series has no `diff --git` line", "make it with `git format-patch`")
    return tuple(_file(lines[start:end]) for start, end in zip(starts, [*starts[1:], len(lines)], strict=True))


def _file(lines: list[str]) -> FileDiff:
    found = _HEADER.fullmatch(lines[0])
    assert found
    path = found[2]
    if PurePosixPath(path).is_absolute() or ".." in PurePosixPath(path).parts:
        raise RecipeError(f"a patch names {path}, which lies outside of the source", "make it with `git format-patch`")
    first = next((n for n, line in enumerate(lines) if _HUNK.match(line)), len(lines))
    head = lines[1:first]
    if odd := [line.strip() for line in head if line.startswith(_UNSUPPORTED)]:
        raise RecipeError(
            f"a patch does more to {path} than change its lines: {odd[0]}",
            "patches here change, add and remove files of text: make it with `git format-patch --no-renames`",
        )
    does: Literal["change", "add", "remove"] = "change"
    if any(line.startswith("new file") for line in head):
        does = "add"
    elif any(line.startswith("deleted file") for line in head):
        does = "remove"
    executable = any(line.startswith("new file mode 100755") for line in head)
    return FileDiff(path, does, tuple(_hunks(lines[first:], path)), executable)


def _hunks(lines: list[str], path: str) -> Iterator[Hunk]:
    at, number = 0, 0
    while at < len(lines):
        found = _HUNK.match(lines[at])
        at += 1
        if not found:
            continue  # What follows the last hunk: git's own version, or the next mail's headers.
        number += 1
        left, right = int(found[2] or 1), int(found[4] or 1)
        old: list[str] = []
        new: list[str] = []
        while left or right:
            line = lines[at] if at < len(lines) else ""
            at += 1
            if line[:1] not in (" ", "-", "+", "\n"):
                raise RecipeError(f"a patch ends within hunk {number} of {path}", "make it with `git format-patch`")
            text = line[1:] if line[0] != "\n" else "\n"  # Mail programs drop the space of an empty line.
            if at < len(lines) and lines[at].startswith("\\"):
                text = text.removesuffix("\n")
                at += 1
            if line[0] != "+":
                old.append(text)
                left -= 1
            if line[0] != "-":
                new.append(text)
                right -= 1
        yield Hunk(number, int(found[1]), tuple(old), tuple(new))
