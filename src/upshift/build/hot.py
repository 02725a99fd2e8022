"""Compiling what a workload runs again, with other flags or its profile, and linking the server with it."""

from __future__ import annotations

import filecmp
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from upshift.build import bitcode
from upshift.build.model import Build
from upshift.build.ninja import run_ninja
from upshift.build.recipe import Recipe
from upshift.build.rules import HEADER, compile_command, compile_rule, link_rule, objects_folder, rule, with_output
from upshift.build.steps import OBJECTS, link_command, replaced, steps_of
from upshift.build.whole import default_jobs, forget_headers, launcher_command, read_fallbacks, try_headers_again
from upshift.errors import UpshiftError
from upshift.profile.model import HotSet
from upshift.server.kind import SourceKind
from upshift.source.model import Source
from upshift.toolchain.flags import Flags
from upshift.toolchain.model import Toolchain
from upshift.values import file_sha256
from upshift.workbench import Workbench

_STEPS = 2
"""For each object of the hot set: its source is parsed, and its bitcode compiled."""


class HotPart(NamedTuple):
    """The part of a server that is compiled again, and how."""

    kind: SourceKind
    source: Source
    recipe: Recipe
    toolchain: Toolchain
    plain: Build
    hot_set: HotSet
    extra: Flags
    """On top of the plain build's."""
    parsed: Path | None = None
    """The folder of the bitcode that an earlier stage has parsed; None: it is parsed here first."""


class _Rules(NamedTuple):
    """What ``build.ninja`` in a stage's folder makes."""

    objects: Mapping[str, Path]
    """By the paths of the plain build's that they take the place of."""
    server: Path


def build_hot(bench: Workbench, hot: HotPart, *, jobs: int | None = None) -> Build:
    """Compile the objects of the hot set again, clang from bitcode, and link the server with them.

    The new objects stand first on the link line, so that the archives' members for the same symbols are not pulled in.
    Raises UpshiftError when the hot set names objects that the plain build does not have, CommandFailed when a compiler fails.
    """
    rules = _write(bench, hot)
    run_ninja(bench, bench.folder, (str(rules.server),), jobs or default_jobs())
    forget_headers(bench)
    return Build(
        recipe=hot.recipe,
        toolchain=hot.toolchain,
        source_sha256=hot.source.sha256,
        tree=hot.plain.tree,
        server=rules.server,
        sha256=file_sha256(rules.server),
        objects=len(rules.objects),
        fallbacks=read_fallbacks(bench.folder),
        patched=hot.plain.patched,
    )


def builds_alike(bench: Workbench, hot: HotPart, like: Build, *, jobs: int | None = None) -> bool:
    """Whether ``build_hot`` would make the executable that it has made before, ``like``, byte by byte. It compiles object after
    object, and ends with those among which one differs. The link comes last: flags may act there alone.
    """
    rules = _write(bench, hot)
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


def _write(bench: Workbench, hot: HotPart) -> _Rules:
    """Write what ninja does, and make the folders that it needs."""
    plain, recipe = hot.plain, hot.recipe
    known = steps_of(bench.shell, hot.kind, plain)
    compiles = {step.output: step for step in known if step.source}
    missing = [item.path for item in hot.hot_set.objects if item.path not in compiles]
    if missing:
        raise UpshiftError(
            f"{len(missing)} objects of the hot set are not in the plain build, {missing[0]} first",
            "the hot set belongs to another build: start a new run",
        )
    objects = objects_folder(bench)
    launcher = launcher_command(bench, hot.kind, hot.source, recipe, hot.toolchain)
    rebuilt = {item.path: objects / item.path for item in hot.hot_set.objects}
    bitcodes = {path: (hot.parsed or bitcode.folder_of(bench.folder)) / f"{path}.bc" for path in rebuilt}
    rules = []
    for path, target in rebuilt.items():
        command = compile_command(compiles[path], hot.toolchain)
        flags = (*hot.extra.compile, *recipe.flags)
        if not bitcode.can_parse(hot.toolchain, compiles[path]):
            rules.append(compile_rule(plain.tree, command, target, launcher, flags))
            continue
        if hot.parsed is None:
            parse = bitcode.parse_command(command, recipe.flags)
            rules.append(compile_rule(plain.tree, parse, bitcodes[path], launcher, ()))
        compile_ = bitcode.from_bitcode(with_output(command, target), bitcodes[path], flags)
        rules.append(rule(plain.tree, target, compile_, inputs=[bitcodes[path]]))
    server = bench.folder / hot.kind.server_target
    # Compile flags at the link too, as CMake has them: link-time optimisation compiles there.
    linked = {**replaced(plain), **rebuilt}
    link = link_command(known[-1], linked, server, (*recipe.flags, *hot.extra.link, *recipe.link_flags))
    rules.append(link_rule(plain.tree, server, link, inputs=list(linked.values())))
    (bench.folder / "build.ninja").write_text(HEADER + "\n".join(rules))
    for target in (*rebuilt.values(), *bitcodes.values()):
        target.parent.mkdir(parents=True, exist_ok=True)
    try_headers_again(bench)
    return _Rules(rebuilt, server)
