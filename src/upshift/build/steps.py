"""The commands of a build: those of its tree, as its own source has them, and the objects that its server is linked from."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from upshift.build.model import Build
from upshift.build.ninja import Step, steps
from upshift.server.kind import SourceKind
from upshift.shell import Command, Shell

OBJECTS = "objects"
"""Where a stage that compiles objects again puts them, by their paths in the tree."""
TREE = "tree"
"""The build folder that a stage makes, in the stage's."""
_DEPENDENCIES = "--dependency-file"


def steps_of(shell: Shell, kind: SourceKind, build: Build) -> tuple[Step, ...]:
    """All compile and link steps of the build's server, in order; they compile the build's source, the last one links the
    tree's server.
    """
    known = steps(shell, build.tree, kind.server_target)
    patched = build.patched
    return known if patched is None else tuple(at_source(step, patched.configured, patched.source) for step in known)


def at_source(step: Step, configured: Path, source: Path) -> Step:
    """A step with files of ``source`` in place of those of the source that the tree was configured for."""
    # The path may also stand in the middle of another one.
    pattern = re.compile(r"(^|[=:,'\"\s]|-I|-L|-isystem|-iquote)" + re.escape(str(configured)) + r"(?=/|$)")

    def moved(text: str) -> str:
        return pattern.sub(lambda found: found[1] + str(source), text)

    return Step(tuple(moved(part) for part in step.argv), step.output, moved(step.source))


def replaced(build: Build) -> dict[str, Path]:
    """The objects that the build's server was linked from in place of the tree's, by the paths of those."""
    folders = (*((build.patched.objects,) if build.patched else ()), build.server.parent / OBJECTS)
    return {
        str(file.relative_to(folder)): file for folder in folders if folder.is_dir() for file in sorted(folder.rglob("*.o"))
    }


def link_command(link: Step, rebuilt: Mapping[str, Path], server: Path, flags: Sequence[str]) -> tuple[str, ...]:
    """The tree's link command with rebuilt objects in place of its own, and another output.

    Those that stood in archives come first, so that the archives' members for the same symbols are not pulled in.
    """
    argv = [str(rebuilt[part]) if part in rebuilt else part for part in _without_dependencies(link.argv)]
    at = argv.index("-o")
    from_archives = [str(target) for path, target in rebuilt.items() if path not in link.argv]
    argv[at : at + 2] = ["-o", str(server), *from_archives]
    return (*argv, *flags)


def _without_dependencies(argv: Sequence[str]) -> Iterator[str]:
    """Without the linker's file of dependencies, which newer CMakes ask for: ninja removes it after its own link, and after
    another one it would stay in the tree, which would no longer be as it was kept.
    """
    for before, part, after in zip(("", *argv), argv, (*argv[1:], ""), strict=False):
        is_file = part.startswith(_DEPENDENCIES) and before == "-Xlinker"
        announces_it = part == "-Xlinker" and after.startswith(_DEPENDENCIES)
        if not (is_file or announces_it or part.startswith(f"-Wl,{_DEPENDENCIES}")):
            yield part


def archive_members(shell: Shell, tree: Path, *targets: str) -> dict[str, list[str]]:
    """``lib/libx.a(y.cc.o)`` to the object files of that name in the archive, from ninja's ``ar`` commands."""
    done = shell.run(Command(("ninja", "-C", str(tree), "-t", "commands", *targets)))
    members: dict[str, list[str]] = {}
    for line in done.stdout.splitlines():
        for part in line.split(" && "):
            words = shlex.split(part) if ".a " in part and " qc " in part else []
            if len(words) > 3 and words[1] == "qc":
                for item in words[3:]:
                    members.setdefault(f"{words[2]}({Path(item).name})", []).append(item)
    return members
