"""Compiling a part of a build again and linking its server with it: what runs, with other flags; or what patches touch."""

from __future__ import annotations

import filecmp
import os
import re
import shlex
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from upshift.build import bitcode
from upshift.build.model import Build, Patched
from upshift.build.ninja import Step, run_ninja
from upshift.build.recipe import Recipe
from upshift.build.steps import OBJECTS, TREE, at_source, link_command, replaced, steps_of
from upshift.build.touched import Touched
from upshift.build.whole import default_jobs, forget_headers, launcher_command, read_fallbacks, try_headers_again
from upshift.errors import UpshiftError
from upshift.profile.model import HotSet
from upshift.server.kind import SourceKind
from upshift.shell import Shell
from upshift.source.model import Source
from upshift.toolchain.flags import Flags
from upshift.toolchain.model import Toolchain
from upshift.values import file_sha256
from upshift.workbench import Workbench

VERSION = 1
"""Of the commands that are composed here: a kept server knows of no others, so that it is raised when they change."""

_STEPS = 2
"""For each object of the hot set: its source is parsed, and its bitcode compiled."""


class _Rules(NamedTuple):
    """What ``build.ninja`` in a stage's folder makes."""

    objects: Mapping[str, Path]
    """By the paths of the plain build's that they take the place of."""
    server: Path


def build_hot(
    bench: Workbench,
    kind: SourceKind,
    source: Source,
    recipe: Recipe,
    toolchain: Toolchain,
    plain: Build,
    hot_set: HotSet,
    extra: Flags,
    *,
    parsed: Path | None = None,
    jobs: int | None = None,
) -> Build:
    """Compile the objects of ``hot_set`` with ``extra`` flags on top of the plain build's, and link the server with them.

    clang compiles them from bitcode: that of an earlier stage in the folder ``parsed``, else made here first. The new
    objects stand first on the link line, so that the archives' members for the same symbols are not pulled in.
    Raises UpshiftError when the hot set names objects that the plain build does not have, CommandFailed when a compiler fails.
    """
    rules = _write_hot(bench, kind, source, recipe, toolchain, plain, hot_set, extra, parsed)
    run_ninja(bench, bench.folder, (str(rules.server),), jobs or default_jobs())
    forget_headers(bench)
    return Build(
        recipe=recipe,
        toolchain=toolchain,
        source_sha256=source.sha256,
        tree=plain.tree,
        server=rules.server,
        sha256=file_sha256(rules.server),
        objects=len(rules.objects),
        fallbacks=read_fallbacks(bench.folder),
        patched=plain.patched,
    )


def builds_alike(
    bench: Workbench,
    kind: SourceKind,
    source: Source,
    recipe: Recipe,
    toolchain: Toolchain,
    plain: Build,
    hot_set: HotSet,
    extra: Flags,
    like: Build,
    *,
    jobs: int | None = None,
) -> bool:
    """Whether ``build_hot`` would make the executable that it has made before, ``like``, byte by byte. It compiles object after
    object, and ends with those among which one differs. The link comes last: flags may act there alone.
    """
    rules = _write_hot(bench, kind, source, recipe, toolchain, plain, hot_set, extra, None)
    its = like.server.parent / OBJECTS
    jobs = jobs or default_jobs()
    objects = list(rules.objects.items())
    same, done, count = True, 0, jobs
    while same and done < len(objects):
        some = objects[done : done + count]
        left = (len(objects) - done - len(some)) * _STEPS + 1
        run_ninja(bench, bench.folder, tuple(str(target) for _path, target in some), jobs, before=done * _STEPS, after=left)
        same = all(filecmp.cmp(target, its / path, shallow=False) for path, target in some)
        # A flag that changes anything nearly always changes the first ones, where most of the samples are.
        done, count = done + len(some), 2 * count
    if same:
        run_ninja(bench, bench.folder, (str(rules.server),), jobs, before=done * _STEPS)
        same = file_sha256(rules.server) == like.sha256
    forget_headers(bench)
    return same


def _write_hot(
    bench: Workbench,
    kind: SourceKind,
    source: Source,
    recipe: Recipe,
    toolchain: Toolchain,
    plain: Build,
    hot_set: HotSet,
    extra: Flags,
    parsed: Path | None,
) -> _Rules:
    """Write what ninja does for ``build_hot``, and make the folders that it needs."""
    known = steps_of(bench.shell, kind, plain)
    compiles = {step.output: step for step in known if step.source}
    missing = [item.path for item in hot_set.objects if item.path not in compiles]
    if missing:
        raise UpshiftError(
            f"{len(missing)} objects of the hot set are not in the plain build, {missing[0]} first",
            "the hot set belongs to another build: start a new run",
        )
    objects = objects_folder(bench)
    launcher = launcher_command(bench, kind, source, recipe, toolchain)
    rebuilt = {item.path: objects / item.path for item in hot_set.objects}
    bitcodes = {path: (parsed or bitcode.folder_of(bench.folder)) / f"{path}.bc" for path in rebuilt}
    rules = []
    for path, target in rebuilt.items():
        command = _compile_command(compiles[path], toolchain)
        flags = (*extra.compile, *recipe.flags)
        if not bitcode.can_parse(toolchain, compiles[path]):
            rules.append(_compile_rule(plain.tree, command, target, launcher, flags))
            continue
        if parsed is None:
            parse = bitcode.parse_command(command, recipe.flags)
            rules.append(_compile_rule(plain.tree, parse, bitcodes[path], launcher, ()))
        compile_ = bitcode.from_bitcode(_with_output(command, target), bitcodes[path], flags)
        rules.append(_rule(plain.tree, target, compile_, inputs=[bitcodes[path]]))
    server = bench.folder / kind.server_target
    # Compile flags at the link too, as CMake has them: link-time optimisation compiles there.
    linked = {**replaced(plain), **rebuilt}
    link = link_command(known[-1], linked, server, (*recipe.flags, *extra.link, *recipe.link_flags))
    rules.append(_link_rule(plain.tree, server, link, inputs=list(linked.values())))
    (bench.folder / "build.ninja").write_text(_HEADER + "\n".join(rules))
    for target in (*rebuilt.values(), *bitcodes.values()):
        target.parent.mkdir(parents=True, exist_ok=True)
    try_headers_again(bench)
    return _Rules(rebuilt, server)


def build_touched(
    bench: Workbench,
    kind: SourceKind,
    source: Source,
    toolchain: Toolchain,
    plain: Build,
    configured: Path,
    touched: Touched,
    *,
    jobs: int | None = None,
) -> Build:
    """Compile the ``touched`` steps of ``plain`` from the patched ``source`` in place of the ``configured`` one, with the same
    flags, and link the server and the touched plugins with them. Where there are such plugins, the build's tree is a folder of
    links. Raises CommandFailed when a compiler fails.
    """
    patched = Patched(
        configured=configured,
        source=source.path,
        objects=objects_folder(bench),
        tree=plain.tree if touched.plugins else None,
    )
    rebuilt = {step.output: patched.objects / step.output for step in touched.steps}
    # Apart from the server's objects: an object of the same path may be in both.
    plugins = {step.output: bench.folder / "plugins" / step.output for step in touched.plugins}
    compiled = [(step, rebuilt[step.output]) for step in touched.steps]
    compiled += [(step, plugins[step.output]) for step in touched.plugins if step.source]
    launcher = launcher_command(bench, kind, source, plain.recipe, toolchain)
    rules = [_compile_rule(plain.tree, _compile_command(step, toolchain), target, launcher, ()) for step, target in compiled]
    server = bench.folder / kind.server_target
    link = at_source(steps_of(bench.shell, kind, plain)[-1], configured, source.path)
    links = [(link, server, rebuilt)]
    links += [(step, plugins[step.output], _within(step, plugins)) for step in touched.plugins if not step.source]
    # The server's comes first: link_of takes the first for it.
    rules += [
        _link_rule(plain.tree, target, link_command(step, objects, target, ()), inputs=list(objects.values()))
        for step, target, objects in links
    ]
    (bench.folder / "build.ninja").write_text(_HEADER + "\n".join(rules))
    for target in (*rebuilt.values(), *plugins.values()):
        target.parent.mkdir(parents=True, exist_ok=True)
    patched.objects.mkdir(exist_ok=True)
    try_headers_again(bench)
    run_ninja(bench, bench.folder, tuple(str(target) for _step, target, _objects in links), jobs or default_jobs())
    forget_headers(bench)
    made = {step.output: target for step, target, _objects in links[1:]}
    return plain.model_copy(
        update={
            "tree": _tree_with(plain.tree, bench.folder / TREE, made) if made else plain.tree,
            "source_sha256": source.sha256,
            "server": server,
            "sha256": file_sha256(server),
            "objects": len(compiled),
            "fallbacks": read_fallbacks(bench.folder),
            "patched": patched,
        }
    )


def _within(link: Step, files: Mapping[str, Path]) -> dict[str, Path]:
    """Those of ``files``, by the paths of what they replace, that a command links."""
    return {path: file for path, file in files.items() if path in link.argv and path != link.output}


def _tree_with(tree: Path, target: Path, files: Mapping[str, Path]) -> Path:
    """``target``, made anew by ``link_tree``: an attempt that was interrupted may have left a part of it."""
    shutil.rmtree(target, ignore_errors=True)
    link_tree(tree, target, files)
    return target


def link_tree(tree: Path, target: Path, files: Mapping[str, Path]) -> None:
    """A folder ``target`` that looks like ``tree``, with links to what is in it but for ``files``, by their paths in it, which
    take the place of its own.
    """
    target.mkdir()
    for entry in tree.iterdir():
        below = {path.partition("/")[2]: file for path, file in files.items() if path.startswith(f"{entry.name}/")}
        if below:
            link_tree(entry, target / entry.name, below)
        elif file := files.get(entry.name):
            os.link(file, target / entry.name)
        else:
            (target / entry.name).symlink_to(entry)


def link_again(bench: Workbench, kind: SourceKind, build: Build, flags: Sequence[str]) -> Build:
    """The server of ``build`` by the command that linked it, with ``flags`` added."""
    server = bench.folder / kind.server_target
    argv = link_command(link_of(bench.shell, kind, build), {}, server, flags)
    inputs = list(replaced(build).values())
    (bench.folder / "build.ninja").write_text(_HEADER + _link_rule(build.tree, server, argv, inputs=inputs))
    run_ninja(bench, bench.folder, (str(server),), 1)
    return build.model_copy(update={"server": server, "sha256": file_sha256(server)})


def link_of(shell: Shell, kind: SourceKind, build: Build) -> Step:
    """The step that linked the build's server: the tree's, or what was written beside a server that was linked again."""
    if build.server.is_relative_to(build.tree):
        return steps_of(shell, kind, build)[-1]
    found = _LINKED.search((build.server.parent / "build.ninja").read_text())
    assert found
    linker, arguments = (shlex.split(part.replace("$$", "$")) for part in found.groups())
    return Step((linker[-1], *arguments), str(build.server), "")


def objects_folder(bench: Workbench) -> Path:
    """Where a stage's compiled objects go."""
    return bench.folder / OBJECTS


_HEADER = """ninja_required_version = 1.8
rule run
  command = $command
  description = $out
rule link
  command = $linker @$out.arguments
  rspfile = $out.arguments
  rspfile_content = $arguments
  description = $out
"""


def _compile_command(step: Step, toolchain: Toolchain) -> tuple[str, ...]:
    """A step's command from the compiler on, without what launches it."""
    return step.argv[next(n for n, part in enumerate(step.argv) if part in (str(toolchain.cc), str(toolchain.cxx))) :]


def _with_output(argv: Sequence[str], target: Path) -> tuple[str, ...]:
    changed = list(argv)
    for flag, name in (("-o", str(target)), ("-MF", f"{target}.d"), ("-MT", str(target))):
        if flag in changed:
            changed[changed.index(flag) + 1] = name
    return tuple(changed)


def _compile_rule(tree: Path, argv: Sequence[str], target: Path, launcher: tuple[str, ...], flags: Sequence[str]) -> str:
    return _rule(tree, target, (*launcher, *_with_output(argv, target), *flags), inputs=[])


def _rule(tree: Path, target: Path, argv: Sequence[str], *, inputs: list[Path]) -> str:
    names = " ".join(_escaped(path) for path in inputs)
    return f"build {_escaped(target)}: run {names}\n  command = {_in(tree, argv)}\n"


def _link_rule(tree: Path, target: Path, argv: Sequence[str], *, inputs: list[Path]) -> str:
    """The arguments go into a file: a whole tree's objects are more than Linux takes as one argument of a shell, 128 KiB."""
    names = " ".join(_escaped(path) for path in inputs)
    arguments = shlex.join(argv[1:]).replace("$", "$$")
    return f"build {_escaped(target)}: link {names}\n  linker = {_in(tree, argv[:1])}\n  arguments = {arguments}\n"


_LINKED = re.compile(r"^  linker = (.*)\n  arguments = (.*)$", re.M)
"""What ``_link_rule`` writes."""


def _in(tree: Path, argv: Sequence[str]) -> str:
    return f"cd {shlex.quote(str(tree))} && {shlex.join(argv)}".replace("$", "$$")


def _escaped(path: Path) -> str:
    return str(path).replace("$", "$$").replace(" ", "$ ").replace(":", "$:")
