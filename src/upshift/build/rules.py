"""The file that ninja reads where a part of a build is compiled again: its rules, and the commands in them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from pathlib import Path

from upshift.build.ninja import Step
from upshift.build.steps import OBJECTS
from upshift.toolchain.model import Toolchain
from upshift.workbench import Workbench

VERSION = 1
"""Of the commands that `hot.py` and `relink.py` compose: a kept server knows of no others, so it is raised when they change."""


def objects_folder(bench: Workbench) -> Path:
    """Where a stage's compiled objects go."""
    return bench.folder / OBJECTS


HEADER = """ninja_required_version = 1.8
rule run
  command = $command
  description = $out
rule link
  command = $linker @$out.arguments
  rspfile = $out.arguments
  rspfile_content = $arguments
  description = $out
"""


def compile_command(step: Step, toolchain: Toolchain) -> tuple[str, ...]:
    """A step's command from the compiler on, without what launches it."""
    return step.argv[next(n for n, part in enumerate(step.argv) if part in (str(toolchain.cc), str(toolchain.cxx))) :]


def with_output(argv: Sequence[str], target: Path) -> tuple[str, ...]:
    changed = list(argv)
    for flag, name in (("-o", str(target)), ("-MF", f"{target}.d"), ("-MT", str(target))):
        if flag in changed:
            changed[changed.index(flag) + 1] = name
    return tuple(changed)


def compile_rule(tree: Path, argv: Sequence[str], target: Path, launcher: tuple[str, ...], flags: Sequence[str]) -> str:
    return rule(tree, target, (*launcher, *with_output(argv, target), *flags), inputs=[])


def rule(tree: Path, target: Path, argv: Sequence[str], *, inputs: list[Path]) -> str:
    names = " ".join(_escaped(path) for path in inputs)
    return f"build {_escaped(target)}: run {names}\n  command = {_in(tree, argv)}\n"


def link_rule(tree: Path, target: Path, argv: Sequence[str], *, inputs: list[Path]) -> str:
    """The arguments go into a file: a whole tree's objects are more than Linux takes as one argument of a shell, 128 KiB."""
    names = " ".join(_escaped(path) for path in inputs)
    arguments = shlex.join(argv[1:]).replace("$", "$$")
    return f"build {_escaped(target)}: link {names}\n  linker = {_in(tree, argv[:1])}\n  arguments = {arguments}\n"


LINKED = re.compile(r"^  linker = (.*)\n  arguments = (.*)$", re.M)
"""What ``link_rule`` writes."""


def _in(tree: Path, argv: Sequence[str]) -> str:
    return f"cd {shlex.quote(str(tree))} && {shlex.join(argv)}".replace("$", "$$")


def _escaped(path: Path) -> str:
    return str(path).replace("$", "$$").replace(" ", "$ ").replace(":", "$:")
