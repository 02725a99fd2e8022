"""Linking a build's server again: with what patches touch, compiled anew, or with other flags."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from upshift.build.model import Build, Patched
from upshift.build.ninja import Step, run_ninja
from upshift.build.rules import HEADER, LINKED, compile_command, compile_rule, link_rule, objects_folder
from upshift.build.steps import TREE, at_source, link_command, replaced, steps_of
from upshift.build.touched import Touched
from upshift.build.whole import default_jobs, forget_headers, launcher_command, read_fallbacks, try_headers_again
from upshift.server.kind import SourceKind
from upshift.shell import Shell
from upshift.source.model import Source
from upshift.toolchain.model import Toolchain
from upshift.values import file_sha256
from upshift.workbench import Workbench


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
    rules = [compile_rule(plain.tree, compile_command(step, toolchain), target, launcher, ()) for step, target in compiled]
    server = bench.folder / kind.server_target
    link = at_source(steps_of(bench.shell, kind, plain)[-1], configured, source.path)
    links = [(link, server, rebuilt)]
    links += [(step, plugins[step.output], _within(step, plugins)) for step in touched.plugins if not step.source]
    # The server's comes first: link_of takes the first for it.
    rules += [
        link_rule(plain.tree, target, link_command(step, objects, target, ()), inputs=list(objects.values()))
        for step, target, objects in links
    ]
    (bench.folder / "build.ninja").write_text(HEADER + "\n".join(rules))
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
    (bench.folder / "build.ninja").write_text(HEADER + link_rule(build.tree, server, argv, inputs=inputs))
    run_ninja(bench, bench.folder, (str(server),), 1)
    return build.model_copy(update={"server": server, "sha256": file_sha256(server)})


def link_of(shell: Shell, kind: SourceKind, build: Build) -> Step:
    """The step that linked the build's server: the tree's, or what was written beside a server that was linked again."""
    if build.server.is_relative_to(build.tree):
        return steps_of(shell, kind, build)[-1]
    found = LINKED.search((build.server.parent / "build.ninja").read_text())
    assert found
    linker, arguments = (shlex.split(part.replace("$$", "$")) for part in found.groups())
    return Step((linker[-1], *arguments), str(build.server), "")
