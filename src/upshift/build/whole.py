"""A whole build of a server with CMake and ninja."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from pathlib import Path

from upshift.build import pch_launcher
from upshift.build.model import Build
from upshift.build.ninja import run_ninja, steps
from upshift.build.recipe import Recipe
from upshift.build.steps import TREE
from upshift.control_groups import memory_available_bytes, usable_cpus
from upshift.errors import NotEnoughRoom
from upshift.run.directory import write_json
from upshift.server.kind import SourceKind
from upshift.shell import Command
from upshift.source.model import Source
from upshift.toolchain import flags
from upshift.toolchain.flags import Flags
from upshift.toolchain.model import Toolchain
from upshift.values import file_sha256
from upshift.workbench import Workbench

# A clang compiling MySQL takes up to 1.2 GB; GCC's LTO link more. Build trees of MySQL take 3 to 4 GB, of precompiled headers
# clang's 0.8 GB more while it builds, GCC's 5 GB.
MEMORY_PER_JOB_BYTES = 1_500_000_000
TREE_BYTES = 5_000_000_000
GCC_HEADERS_BYTES = 5_000_000_000
NOTHING = Flags()
_HEADERS = "pch"
OPAQUE = Path(__file__).with_name("opaque.cmake")
"""Keeps link-time optimisation from sources, see ``keeps_opaque``."""


def default_jobs(say: Callable[[str], None] = lambda _text: None) -> int:
    """As many compilers as there are CPUs whose time we may use, and as free memory holds; says when memory bounds them."""
    cpus = usable_cpus()
    available_bytes = memory_available_bytes()
    held = max(1, available_bytes // MEMORY_PER_JOB_BYTES)
    if held >= cpus:
        return cpus
    each, free = MEMORY_PER_JOB_BYTES / 1e9, available_bytes / 1e9
    say(f"{held} compilers side by side on {cpus} CPUs: each takes up to {each:.1f} GB of memory, {free:.1f} GB are free")
    return held


def build_whole(
    bench: Workbench,
    kind: SourceKind,
    source: Source,
    recipe: Recipe,
    toolchain: Toolchain,
    *,
    extra: Flags = NOTHING,
    relocations: bool = False,
    jobs: int | None = None,
) -> Build:
    """Configure and build the kind's targets and plugins in the stage's folder; goes on where an earlier attempt stopped.

    Raises NotEnoughRoom before it starts when the disk can't hold the tree, CommandFailed when a compiler fails.
    """
    tree = bench.folder / TREE
    _need_disk(bench.folder, tree, recipe)
    if not (tree / "build.ninja").is_file():
        launcher = launcher_command(bench, kind, source, recipe, toolchain)
        shutil.copy2(OPAQUE, bench.folder)
        configure = configure_command(kind, source, recipe, toolchain, tree, launcher, extra=extra, relocations=relocations)
        bench.progress.update(0, 1, "configure")
        bench.shell.run(configure, log=bench.log)
    try_headers_again(bench)
    run_ninja(bench, tree, (*kind.targets, *kind.plugins(tree)), jobs or default_jobs())
    forget_headers(bench)
    compiled = steps(bench.shell, tree, kind.server_target)
    server = tree / compiled[-1].output
    return Build(
        recipe=recipe,
        toolchain=toolchain,
        source_sha256=source.sha256,
        tree=tree,
        server=server,
        sha256=file_sha256(server),
        objects=sum(1 for step in compiled if step.source),
        fallbacks=read_fallbacks(bench.folder),
    )


def configure_command(
    kind: SourceKind,
    source: Source,
    recipe: Recipe,
    toolchain: Toolchain,
    tree: Path,
    launcher: tuple[str, ...],
    *,
    extra: Flags,
    relocations: bool,
) -> Command:
    """The CMake command of a whole build; with ``relocations`` the server is one that BOLT can rewrite."""
    # LLVM's own servers always are: their plain build serves recipes with BOLT and without.
    added = flags.plain(recipe.toolchain, bolt=relocations or toolchain.family != "gcc") + extra
    return kind.configure(
        source.path,
        tree,
        toolchain,
        build_type=recipe.build_type,
        compile_flags=(*added.compile, *recipe.flags),
        link_flags=(*added.link, *recipe.link_flags),
        options={**recipe.options, **_opaque(kind, recipe, tree), "CMAKE_CXX_COMPILER_LAUNCHER": ";".join(launcher)},
    )


def keeps_opaque(kind: SourceKind, recipe: Recipe) -> bool:
    """Whether a whole build has link-time optimisation, and sources that their callers must not see into."""
    return bool(kind.opaque) and (recipe.lto != "none" or any(flag.startswith("-flto") for flag in recipe.flags))


def _opaque(kind: SourceKind, recipe: Recipe, tree: Path) -> dict[str, str]:
    if not keeps_opaque(kind, recipe):
        return {}
    return {"CMAKE_PROJECT_INCLUDE": str(tree.parent / OPAQUE.name), "OPAQUE_SOURCES": ";".join(kind.opaque)}


def launcher_command(
    bench: Workbench, kind: SourceKind, source: Source, recipe: Recipe, toolchain: Toolchain
) -> tuple[str, ...]:
    """The compiler launcher that injects precompiled headers; empty when the recipe wants none.

    Its plan is written into the stage's folder, with a copy of the launcher, and the interpreter is the system's: the
    commands in a kept build folder must work when the checkout that made it, and its environment, are gone.
    """
    if not recipe.precompiled_headers:
        return ()
    plan = bench.folder / f"{_HEADERS}.json"
    script = bench.folder / "pch_launcher.py"
    shutil.copy2(pch_launcher.__file__, script)
    folders = sorted(kind.precompiled_headers().items(), key=lambda item: -len(item[0]))
    write_json(
        plan,
        {
            "folder": str(bench.folder / _HEADERS),
            "log": str(bench.folder / "fallbacks.log"),
            "gcc": toolchain.family == "gcc",
            "headers": [
                [str(source.path / folder), [str(source.path / header) for header in headers]] for folder, headers in folders
            ],
        },
    )
    return (str(Path(sys.executable).resolve()), "-I", "-S", str(script), str(plan))


def try_headers_again(bench: Workbench) -> None:
    """In an interrupted build that goes on: a set of headers may have failed for want of memory."""
    for failed in (bench.folder / _HEADERS).glob("*.failed"):
        failed.unlink()


def forget_headers(bench: Workbench) -> None:
    """Precompiled headers take up to 5 GB, and are of no use once what is built with them is there. Says which failed."""
    folder = bench.folder / _HEADERS
    if failed := sorted(folder.glob("*.failed")):
        why = next((line for line in failed[0].read_text(errors="replace").splitlines() if "error" in line), "it was killed")
        bench.progress.note(
            f"sets of precompiled headers that failed, whose files were compiled without: {len(failed)}; the first: {why}"
        )
    shutil.rmtree(folder, ignore_errors=True)


def read_fallbacks(folder: Path) -> tuple[str, ...]:
    log = folder / "fallbacks.log"
    return tuple(sorted(set(log.read_text().splitlines()))) if log.is_file() else ()


def headers_bytes(recipe: Recipe) -> int:
    """What a recipe's precompiled headers take beside a build tree, while it builds."""
    return GCC_HEADERS_BYTES if recipe.toolchain == "gcc" and recipe.precompiled_headers else 0


def _need_disk(folder: Path, tree: Path, recipe: Recipe) -> None:
    if (tree / "build.ninja").is_file():
        return
    needed_bytes = TREE_BYTES + headers_bytes(recipe)
    free_bytes = shutil.disk_usage(folder).free
    if free_bytes < needed_bytes:
        raise NotEnoughRoom(
            f"a build tree needs about {needed_bytes / 1e9:.0f} GB, {free_bytes / 1e9:.1f} GB are free at {folder}",
            "free some space, or set UPSHIFT_CACHE to a folder on a larger disk",
        )
