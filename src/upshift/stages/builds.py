"""The stages that compile: the plain server, the instrumented one and the optimised one."""

from __future__ import annotations

import signal
from pathlib import Path

from upshift.build import bitcode
from upshift.build.hot import HotPart, build_hot, builds_alike
from upshift.build.model import Build
from upshift.build.recipe import Recipe
from upshift.build.rules import VERSION, objects_folder
from upshift.build.whole import build_whole
from upshift.profile import gcc
from upshift.profile.gate import refuse_another_source
from upshift.profile.model import Gated, HotSet, Profile
from upshift.run.stages import empty
from upshift.source.model import Source
from upshift.stages.keys import SOMEWHERE, configured, headers_key, opaque_key, processor_key
from upshift.stages.lab import Lab
from upshift.stages.names import Stage
from upshift.stages.source import unchanged
from upshift.stages.work import Trained
from upshift.toolchain import flags
from upshift.toolchain.flags import Flags
from upshift.toolchain.model import Toolchain
from upshift.values import Value
from upshift.workbench import Workbench

_START_TIMEOUT_S = 60.0


class Instrumented(Value):
    """An instrumented server and the folder into which it writes its counters."""

    build: Build
    counters: Path
    objects: Path
    """Where its compiled objects lie: GCC names counters after them."""
    parsed: Path | None = None
    """The bitcode that they were compiled from, for the optimised build; None: there is none."""


class Alike(Value):
    """What comparing two recipes said."""

    alike: bool
    """Whether they make the same executable from the same profile."""


def build_plain(lab: Lab, source: Source, recipe: Recipe, toolchain: Toolchain, *, relocations: bool) -> Build:
    """The whole tree by a recipe without a profile; with ``relocations``, for BOLT to rewrite it or what is linked like it."""
    shared = recipe.before_post_link().before_patches()

    def action(bench: Workbench) -> Build:
        extra = lto_flags(lab, recipe)
        with unchanged(lab, bench, source):
            return build_whole(bench, lab.kind, source, shared, toolchain, extra=extra, relocations=relocations, jobs=lab.jobs)

    inputs = {
        "source": source.contents(),
        "recipe": shared,
        "toolchain": toolchain,
        "targets": lab.kind.targets,
        "configure": configured(lab.kind, source, shared, toolchain, _lto(recipe, jobs=1), relocations),
        "headers": headers_key(lab.kind, shared),
        **opaque_key(lab.kind, shared),
        **processor_key(shared),
    }
    made = lab.stages.run(Stage.PLAIN_BUILD, Build, action, inputs=inputs, goes_on=True, works=lambda kept: _starts(lab, kept))
    return made.model_copy(update={"recipe": recipe})


def build_instrumented(
    lab: Lab, source: Source, recipe: Recipe, toolchain: Toolchain, plain: Build, hot_set: HotSet, first: Profile | None = None
) -> Instrumented:
    """The hot set compiled to count its branches, in the plain server; after ``first``, once more behind its inlining."""

    shared = recipe.before_profile() if first is None else recipe.before_post_link()

    def action(bench: Workbench) -> Instrumented:
        counters = bench.folder / "counters"
        if first is None:
            extra = flags.instrument(recipe.toolchain, counters)
        else:
            # Link-time optimisation too, so that the inlining is that of the optimised build.
            extra = flags.instrument_again(recipe.toolchain, first.path, counters) + lto_flags(lab, recipe)
        with unchanged(lab, bench, source):
            made = build_hot(bench, HotPart(lab.kind, source, shared, toolchain, plain, hot_set, extra), jobs=lab.jobs)
        parsed = bitcode.folder_of(bench.folder)
        return Instrumented(
            build=made, counters=counters, objects=objects_folder(bench), parsed=parsed if parsed.is_dir() else None
        )

    added = flags.instrument(recipe.toolchain, SOMEWHERE)
    if first is not None:
        added = flags.instrument_again(recipe.toolchain, first.path, SOMEWHERE) + _lto(recipe, jobs=1)
    headers = headers_key(lab.kind, shared)
    inputs = {
        "recipe": shared,
        "parsed": bitcode.PARSE_FLAGS,
        "flags": added,
        "headers": headers,
        **processor_key(shared),
        "toolchain": toolchain,
        "plain": plain,
        "hot_set": hot_set,
    }
    name = Stage.INSTRUMENTED_BUILD
    if first is not None:
        name, inputs = Stage.SECOND_INSTRUMENTED_BUILD, {**inputs, "first": first}
    return lab.stages.run(name, Instrumented, action, inputs=inputs, version=VERSION, goes_on=True)


def build_optimised(
    lab: Lab,
    source: Source,
    recipe: Recipe,
    toolchain: Toolchain,
    plain: Build,
    hot_set: HotSet,
    gated: Gated | None,
    parsed: Path | None,
) -> Build:
    """The hot set compiled with its profile, if there is one, and LTO, in the plain server; from the bitcode that was
    instrumented.
    """
    shared = recipe.before_post_link()
    if gated is not None:
        refuse_another_source(gated.profile, plain.source_sha256)

    def action(bench: Workbench) -> Build:
        extra = lto_flags(lab, recipe)
        if gated is not None:
            profile = gated.profile.path
            if gated.profile.kind == "gcc":
                profile = gcc.place(profile, objects_folder(bench), bench.folder / "counters")
            extra = flags.use(recipe.toolchain, profile) + extra
        with unchanged(lab, bench, source):
            return build_hot(bench, HotPart(lab.kind, source, shared, toolchain, plain, hot_set, extra, parsed), jobs=lab.jobs)

    inputs = {
        "recipe": shared,
        "parsed": bitcode.PARSE_FLAGS,
        "toolchain": toolchain,
        "plain": plain,
        "hot_set": hot_set,
        "flags": (flags.use(recipe.toolchain, SOMEWHERE) if gated else Flags()) + _lto(recipe, jobs=1),
        "headers": headers_key(lab.kind, shared),
        **processor_key(shared),
        "profile": gated.profile if gated else None,
    }
    made = lab.stages.run(Stage.OPTIMISED_BUILD, Build, action, inputs=inputs, version=VERSION, goes_on=True)
    return made.model_copy(update={"recipe": recipe})


def makes_alike(lab: Lab, trained: Trained, made: Build, recipe: Recipe) -> bool:
    """Whether ``recipe``, which differs in flags from that of ``made``, makes the same executable from the profile that
    ``made`` was ``trained`` with. Its own training would give another profile, and so another server, by chance.
    """
    shared = recipe.before_post_link()

    def action(bench: Workbench) -> Alike:
        extra = flags.use(recipe.toolchain, trained.gated.profile.path) + lto_flags(lab, recipe)
        source, plain, hot_set = trained.source, trained.plain, trained.hot_set
        with unchanged(lab, bench, source):
            hot = HotPart(lab.kind, source, shared, made.toolchain, plain, hot_set, extra)
            alike = builds_alike(bench, hot, made, jobs=lab.jobs)
        empty(bench.folder)
        return Alike(alike=alike)

    inputs = {
        "recipe": shared,
        "parsed": bitcode.PARSE_FLAGS,
        "made": made.anonymous(),
        "hot_set": trained.hot_set,
        "flags": flags.use(recipe.toolchain, SOMEWHERE) + _lto(recipe, jobs=1),
        "headers": headers_key(lab.kind, shared),
        **processor_key(shared),
        "profile": trained.gated.profile,
    }
    return lab.stages.run(Stage.ALIKE, Alike, action, inputs=inputs, version=VERSION).alike


def _starts(lab: Lab, kept: Build) -> bool:
    """Whether the system still has the libraries that a server was linked with: an upgrade may have removed them. One that was
    killed, for want of memory or of time on a busy machine, says nothing of that.
    """
    done = lab.shell.run(lab.kind.version(kept.server), check=False, timeout_s=_START_TIMEOUT_S)
    return done.returncode in (0, -signal.SIGKILL, -signal.SIGTERM)


def lto_flags(lab: Lab, recipe: Recipe) -> Flags:
    """What the recipe's link-time optimisation adds, with as many jobs as the run has; nothing without it."""
    return _lto(recipe, jobs=lab.jobs)


def _lto(recipe: Recipe, *, jobs: int) -> Flags:
    """In keys with one job: how many there are changes the time alone."""
    return flags.thin_lto(recipe.toolchain, jobs=jobs) if recipe.lto != "none" else Flags()
