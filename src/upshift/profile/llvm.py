"""LLVM profiles (clang and ICX): merged by shares, counted, and looked into."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from upshift.errors import ProfileRefused
from upshift.profile.weights import whole_factors
from upshift.shell import Command, Shell
from upshift.toolchain.model import Toolchain
from upshift.values import file_sha256

_FUNCTION = re.compile(r"^  (\S.*):$")
_WARNING = re.compile(r"^warning: (.*?): ")


def merge(
    shell: Shell, toolchain: Toolchain, shares: Iterable[tuple[Path, float]], folder: Path, log: Path
) -> tuple[Path, frozenset[Path]]:
    """Merge raw profiles, each multiplied by its share, into one file named by its content; those that were left out, because
    they are empty or damaged.

    ``--failure-mode=warn``: one bad counter would throw the whole merge away. Build caches do not notice new contents under
    an old path: hence the name. Raises ProfileRefused when there is nothing to merge.
    """
    given = list(shares)
    inputs = [(file, share) for file, share in given if file.stat().st_size]
    if not inputs:
        raise ProfileRefused(
            "the training run left no profile",
            "the server must end cleanly, and be the instrumented one: see the stage's log",
        )
    factors = whole_factors([share for _file, share in inputs])
    arguments = [f"-weighted-input={factor},{file}" for factor, (file, _share) in zip(factors, inputs, strict=True)]
    partial = folder / "merged.profdata"
    warned: set[str] = set()

    def on_line(line: str) -> None:
        if found := _WARNING.match(line):
            warned.add(found[1])

    shell.run(
        Command((str(toolchain.profdata), "merge", "--failure-mode=warn", "-o", str(partial), *arguments)),
        log=log,
        on_line=on_line,
    )
    named = folder / f"{file_sha256(partial)[:20]}.profdata"
    partial.replace(named)
    return named, frozenset(file for file, share in given if (file, share) not in inputs or str(file) in warned)


def read(shell: Shell, toolchain: Toolchain, profile: Path) -> dict[str, int]:
    """Each function of a merged profile with its largest count. Static functions lose their file's name."""
    done = shell.run(Command((str(toolchain.profdata), "show", "--all-functions", "--counts", str(profile))))
    return parse(done.stdout)


def parse(shown: str) -> dict[str, int]:
    """The output of ``llvm-profdata show --all-functions --counts``."""
    found: dict[str, int] = {}
    name = ""
    for line in shown.splitlines():
        if match := _FUNCTION.match(line):
            name = re.split(r"[;:]", match[1])[-1]
        elif "Block counts: [" in line or "Function count:" in line:
            counts = [int(number) for number in re.findall(r"\d+", line.split(":", 1)[1])]
            found[name] = max(found.get(name, 0), *counts, 0) if counts else found.get(name, 0)
    return found
