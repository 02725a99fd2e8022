"""What a changed file reaches: every source that includes it, over any number of files, told from the text of all files.

A compiler's dependencies name what precompiled headers brought in, too, which is most of a tree. Here a name in an #include
stands for every file whose path ends with it: too many files may be found, never too few.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path

from upshift.build.ninja import Step

_SOURCES = (".c", ".cc", ".cpp", ".cxx")
_TEXTS = (*_SOURCES, ".h", ".hh", ".hpp", ".hxx", ".ic", ".i", ".inc", ".inl", ".ipp", ".tcc", ".def")
_INCLUDE = re.compile(rb'^[ \t]*#[ \t]*include(?:_next)?\b[ \t]*(?:["<]([^">\n]+)[">]|(\S))', re.MULTILINE)
_UP = re.compile(r"^(?:\.\.?/)+")


def is_text(path: str) -> bool:
    """Whether the file is one that compilers read: a change of any other may change what the build itself does."""
    return path.endswith(_TEXTS)


@dataclass(frozen=True)
class Includes:
    """Who includes what, in a source and the files that its build generated."""

    source: Path
    named: dict[str, list[tuple[str, str]]]
    """By the last part of the name in the #include: (the file that has it, the whole name)."""
    computed: tuple[str, ...]
    """Files whose #include is a macro: it may stand for any file of the same folder below the source."""

    def reached(self, changed: Collection[str]) -> frozenset[str]:
        """The changed files, given by their paths in the source, and all that include them, as absolute paths."""
        todo = [str(self.source / path) for path in changed]
        found = set(todo)
        while todo:
            for user in self._users(todo.pop()):
                if user not in found:
                    found.add(user)
                    todo.append(user)
        return frozenset(found)

    def _users(self, path: str) -> Iterable[str]:
        for user, name in self.named.get(path.rsplit("/", 1)[-1], ()):
            if path.endswith("/" + name):
                yield user
        top = self._top(path)
        yield from (user for user in self.computed if self._top(user) == top)

    def _top(self, path: str) -> str:
        return path.removeprefix(str(self.source)).split("/", 2)[1] if path.startswith(str(self.source)) else path


def read_includes(source: Path, tree: Path, skipped: Sequence[str]) -> Includes:
    """The #includes of a source, but for its ``skipped`` folders, and of the files that its build generated in ``tree``."""
    named: defaultdict[str, list[tuple[str, str]]] = defaultdict(list)
    computed: list[str] = []
    left_out = {str(source / each) for each in skipped}
    for top in (source, tree):
        for folder, folders, names in os.walk(top):
            folders[:] = [each for each in folders if f"{folder}/{each}" not in left_out]
            for path in (f"{folder}/{name}" for name in names if is_text(name)):
                try:
                    text = Path(path).read_bytes()
                except OSError:
                    continue  # a link to nowhere
                for name, macro in _INCLUDE.findall(text):
                    if macro:
                        computed.append(path)
                        continue
                    plain = _UP.sub("", posixpath.normpath(name.decode(errors="surrogateescape")))
                    named[plain.rsplit("/", 1)[-1]].append((path, plain))
    return Includes(source, dict(named), tuple(dict.fromkeys(computed)))


@dataclass(frozen=True)
class Touched:
    """What patches mean for a build: the steps to do again, or why they cannot be done alone."""

    steps: tuple[Step, ...] = ()
    """Those that compile for the server."""
    plugins: tuple[Step, ...] = ()
    """Those that compile for plugins, then those that link the plugins."""
    whole: str = ""
    """Why the whole source must be built; empty: it need not."""


def touched_steps(
    server: Sequence[Step],
    loaded: Sequence[Step],
    plugins: Collection[str],
    members: Mapping[str, Sequence[str]],
    tree: Path,
    includes: Includes,
    changed: Collection[str],
) -> Touched:
    """The steps whose sources are reached from ``changed`` files; steps and files name the same source.

    ``server`` are the steps of the server, ``loaded`` those of what it may load, which are the files ``plugins``.
    ``members`` are the objects in archives, by names such as ``lib/libx.a(y.cc.o)``.
    """

    def of(known: Sequence[Step], reached: Collection[str]) -> tuple[Step, ...]:
        return tuple(step for step in known if step.source and os.path.normpath(tree / step.source) in reached)

    reached = includes.reached(changed)
    found = of(server, reached)
    outputs = {step.output for step in found}
    # The build's own programs and shared objects: they made files that other steps read, or the server loads them.
    for other in (step for step in server[:-1] if not step.source):
        if ours := outputs & set(other.argv):
            return Touched(whole=f"{other.output}, which the build needs itself, is linked from {min(ours)}")
    # A plugin keeps its copy of code that the server is linked from, too, unless it would no longer agree with a header.
    compiled = {os.path.normpath(tree / step.source) for step in server if step.source}
    by_header = includes.reached({path for path in changed if not path.endswith(_SOURCES)})
    again = {step.output: step for step in of((*server, *loaded), by_header | (reached - compiled))}
    apart = again.keys() - {step.output for step in server}
    links = tuple(step for step in loaded if step.output in plugins and apart & set(step.argv))
    if lost := _lost(again.keys(), apart, links, (*server, *loaded), plugins, members):
        return Touched(whole=f"what the server loads has {min(lost)} by way of an archive, a library or a program")
    linked = {part for step in links for part in step.argv}
    in_archives = _in_archives(members, server[-1].argv)
    return Touched(
        steps=tuple(step for step in found if step.output in in_archives.union(server[-1].argv)),
        plugins=(*(step for step in again.values() if step.output in linked), *links),
    )


def _lost(
    again: Set[str],
    apart: Set[str],
    links: Sequence[Step],
    known: Sequence[Step],
    plugins: Collection[str],
    members: Mapping[str, Sequence[str]],
) -> Set[str]:
    """What ``links`` alone do not renew: those of the objects ``apart`` that anything else is made of, plugins that others are
    linked from, and members of the plugins' archives that would no longer agree with a header.
    """
    linked = {part for step in links for part in step.argv}
    others = {part for step in known if not step.source and step.output not in plugins for part in step.argv}
    between = {part for step in known if step.output in plugins for part in step.argv if part != step.output}
    elsewhere = others.union(*members.values())
    renewed = {step.output for step in links}
    return (apart - linked) | (apart & elsewhere) | (renewed & (others | between)) | (again & _in_archives(members, linked))


def _in_archives(members: Mapping[str, Sequence[str]], linked: Collection[str]) -> set[str]:
    """The objects in those of the archives that are ``linked``."""
    names = set(linked)
    return {path for name, paths in members.items() if name.split("(")[0] in names for path in paths}
