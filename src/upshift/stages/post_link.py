"""The stage after the linker: BOLT."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from upshift.build import bolt
from upshift.build.model import Build
from upshift.build.recipe import Recipe
from upshift.errors import UpshiftError
from upshift.profile import llvm
from upshift.profile.training import train
from upshift.source.model import Source
from upshift.stages.data import Filled
from upshift.stages.keys import servers_key, workloads_key
from upshift.stages.lab import Lab
from upshift.stages.names import Stage
from upshift.stages.work import Trained
from upshift.values import Value, file_sha256
from upshift.workbench import Workbench
from upshift.workload.model import Workload

VERSION = 1
"""Raised when the commands that are composed here change: no key holds them."""
NO_POST_LINK = "the recipe has none"
_FOLLOWED = ("name", "description", "flags", "link_flags", "patches", "post_link", "post_link_flags")
"""What of a recipe holds for BOLT on a plain build, too: no other flags than the plain build's are accepted there."""


class PostLinked(Value):
    """A build after the post-link step, or the build as it was with the reason."""

    build: Build
    applied: str
    """``bolt 22.1.8``; empty when the step did not work."""
    reason: str
    failed: bool = False
    """Whether the reason is that the step failed, which may pass: memory short, a load that failed, a full disk."""


def post_link(
    lab: Lab,
    source: Source,
    build: Build,
    trained: Trained | None,
    workloads: tuple[Workload, ...],
    filled: Filled,
    recipe: Recipe,
    *,
    seconds: float,
    number: int = 1,
) -> PostLinked:
    """BOLT on top of ``build``, from a training of its own; ``number`` says which of several.

    When BOLT fails on a ``trained`` build, that is a reason to go on without it; else it is an error. The result's recipe is
    what was followed: without training, the rest of ``recipe`` was not.
    """

    toolchain = build.toolchain
    tests = recipe.training_tests if recipe.training == "mtr" else ""

    def action(bench: Workbench) -> PostLinked:
        output = bench.folder / lab.kind.server_target
        if recipe.post_link == "none":
            return PostLinked(build=build, applied="", reason=NO_POST_LINK)
        if toolchain.bolt is None:
            return PostLinked(build=build, applied="", reason=f"there is no BOLT beside {toolchain.cc}")
        try:
            executed = _executed(bench, trained) if trained else frozenset()
            counts = bolt_counts(lab, bench, source, build, workloads, filled, executed, seconds, tests=tests)
            fdata = bolt.merge_fdata(bench.shell, toolchain, counts, bench.folder / "merged.fdata", bench.log)
            bolt.optimise(bench.shell, toolchain, build.server, output, fdata, bench.log, recipe.post_link_flags)
            bench.shell.run(lab.kind.version(output), log=bench.log, timeout_s=60)
        except UpshiftError as error:
            if trained is None:  # nothing else would be left of what was asked for
                raise
            bench.progress.note(f"going on without BOLT: {error.message}")
            return PostLinked(build=build, applied="", reason=error.message, failed=True)
        made = build.model_copy(update={"server": output, "sha256": file_sha256(output)})
        return PostLinked(build=made, applied=f"bolt {bolt.version(bench.shell, toolchain)}", reason="")

    inputs = {
        "build": build.anonymous(),
        "flags": (recipe.post_link, bolt.OPTIMISE_FLAGS, recipe.post_link_flags),
        # Their functions alone are instrumented.
        "hot_set": trained.hot_set if trained else None,
        "profile": trained.gated.profile if trained else None,
        "servers": servers_key(lab.kind, lab.kind.program(source.path, build.tree, build.server), workloads),
        "workloads": workloads_key(workloads),
        "data": filled.sha256,
        "seconds": seconds,
        "number": number,
        **({"tests": (tests, lab.kind.suites.get(tests))} if tests else {}),
    }
    made = lab.stages.run(
        Stage.POST_LINK, PostLinked, action, inputs=inputs, version=VERSION, lasts=lambda made: not made.failed
    )
    followed = build.recipe.model_copy(update={name: getattr(recipe, name) for name in _FOLLOWED})
    return made.model_copy(update={"build": made.build.model_copy(update={"recipe": followed})})


def bolt_counts(
    lab: Lab,
    bench: Workbench,
    source: Source,
    build: Build,
    workloads: tuple[Workload, ...],
    filled: Filled,
    executed: Collection[str],
    seconds: float,
    *,
    tests: str = "",
) -> list[tuple[Path, float]]:
    """Each workload's branch counts, with their share, from a copy of the server that counts in ``executed`` (empty: all).

    With ``tests``, the server's own tests take the place of the workloads: each of the servers that they start has a share.
    """
    counting = bench.folder / f"{lab.kind.server_target}.counting"
    counts = bench.folder / "counts"
    bolt.instrument(bench.shell, build.toolchain, build.server, counting, counts, executed, bench.log)
    if tests:
        lab.kind.verify(source.path, build.tree, counting, tests, bench, lab.jobs, {})
        found = sorted(bench.folder.glob(f"{counts.name}.*.fdata"))
        # A server that only made a data folder may have executed none of these functions: merge-fdata reads no empty file.
        files = [(file, 1.0) for file in found if file.stat().st_size]
    else:
        program = lab.kind.program(source.path, build.tree, counting)
        trained = train(bench, lab.kind, program, filled.path, workloads, seconds=seconds, environment=lambda _workload: {})
        files = [(counts.with_name(f"{counts.name}.{each.pid}.fdata"), each.share) for each in trained]
    counting.unlink()
    if not files or any(not file.is_file() for file, _share in files):
        raise UpshiftError("the BOLT-instrumented server left no counts", f"see {bench.log}")
    return files


def _executed(bench: Workbench, trained: Trained) -> frozenset[str]:
    """The functions that the workloads execute: those that the profile counted, and the sampled ones of other objects."""
    sampled = {function.symbol for function in trained.hot_set.functions}
    profile = trained.gated.profile
    if profile.kind == "gcc":  # its counters name no functions
        return frozenset(sampled)
    counts = llvm.read(bench.shell, trained.plain.toolchain, profile.path)
    return frozenset(sampled | {symbol for symbol, count in counts.items() if count})
