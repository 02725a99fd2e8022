"""A small source and patches on it, made by difflib in git's format."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from pathlib import Path

SOURCE = {
    "server.cc": "".join(f"int line_{n};\n" for n in range(1, 41)),
    "server.h": "int shared;\n",
    "CMakeLists.txt": "project(server)\n",
}


def tree_in(folder: Path, files: Mapping[str, str] = SOURCE) -> Path:
    folder.mkdir()
    for name, text in files.items():
        (folder / name).write_text(text)
    return folder


def git_diff(path: str, before: str | None, after: str | None) -> str:
    old, new = (f"{side}/{path}" if text is not None else "/dev/null" for side, text in (("a", before), ("b", after)))
    lines = difflib.unified_diff((before or "").splitlines(True), (after or "").splitlines(True), old, new)
    head = f"diff --git a/{path} b/{path}\n"
    head += "new file mode 100644\n" if before is None else "deleted file mode 100644\n" if after is None else ""
    return head + "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


def changed(line: int, to: str, path: str = "server.cc") -> str:
    """A patch of one line of the source."""
    lines = SOURCE[path].splitlines(True)
    return git_diff(path, SOURCE[path], "".join([*lines[: line - 1], to + "\n", *lines[line:]]))


def series_in(folder: Path, **patches: str) -> Path:
    """A series of these patches; a text before a ``|`` is more TOML of its entry."""
    folder.mkdir()
    told = []
    for name, text in patches.items():
        more, _, diff = text.rpartition("|")
        (folder / f"{name}.patch").write_text(diff)
        versions = "" if "versions" in more else 'versions = ">=1.0, <2"\n'
        told.append(f'[[patch]]\nname = "{name}"\nfile = "{name}.patch"\nwhat = "A test."\n{versions}{more}\n')
    (folder / "series.toml").write_text("\n".join(told))
    return folder
