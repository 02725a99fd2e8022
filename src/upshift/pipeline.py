"""The main job. ``optimize`` is the product: each line is a stage, and each stage's output is what the next one takes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from upshift import lab as stage
from upshift import proof
from upshift.build.model import Build
from upshift.build.recipe import Recipe
from upshift.lab import Filled, Gated, Lab
from upshift.measure.model import Plan
from upshift.options import Options
from upshift.profile.model import HotSet, Profile
from upshift.report.result import Result
from upshift.source.model import Source
from upshift.toolchain.model import Toolchain
from upshift.values import Value
from upshift.workload.model import Workload


class Measuring(Value):
    """What servers are loaded with, and how that is measured."""

    options: Options
    train_on: tuple[Workload, ...]
    hold_out: tuple[Workload, ...]
    plan: Plan


class Work(Measuring):
    """Everything that the pipeline is told, resolved: files read, tools found."""

    source_identity: str
    plain: Recipe
    recipe: Recipe
    toolchain: Toolchain
    perf: bool
    """Whether perf can sample here."""


class Trained(Value):
    """What training led to: the plain build, its hot set, and a profile that passed the gate."""

    source: Source
    plain: Build
    data: Filled
    hot_set: HotSet
    gated: Gated


_PROFILE = ("instrumented build", "train", "profile gate")


def training_stages(recipe: Recipe) -> tuple[str, ...]:
    """The names of the stages that lead to a profile, in order."""
    again = tuple(f"second {name}" for name in _PROFILE) if recipe.profile == "csir" else ()
    return ("source", "plain build", "data", "hot set", *_PROFILE, *again)


def building_stages(recipe: Recipe) -> tuple[str, ...]:
    """The names of the stages that ``build`` goes through, in order."""
    if recipe.profile != "none":
        return (*training_stages(recipe), "optimised build", "post-link")
    return ("source", "plain build", *(("data", "post-link") if recipe.post_link != "none" else ()))


def all_stages(level: str, recipe: Recipe, *, plugins: bool = False) -> tuple[str, ...]:
    """The names of the stages that ``optimize`` goes through, in order."""
    build = building_stages(recipe) if level == "full" else ("source", "plain build", "data", "post-link")
    return (*build, "verify", "measure", *(("plugins",) if plugins else ()), "package", "report")


def optimize(lab: Lab, work: Work) -> Result:
    """Rebuild a server around a workload, prove the gain, and leave a server to install."""
    trained = None
    if work.options.level == "full":
        trained = train(lab, work)
        source, plain, data = trained.source, trained.plain, trained.data
        optimised = _optimised(lab, work, trained)
    else:
        source, plain, data = _plain(lab, work)
        optimised = plain
    hot_set = trained.hot_set if trained else None
    post_linked = stage.post_link(
        lab, source, optimised, hot_set, work.train_on, data, work.recipe, seconds=work.options.train_s
    )
    verified = proof.verify(lab, source, plain, optimised, post_linked, work.options.verify)
    experiment = proof.measure(lab, proof.arms(lab, source, plain, verified.build, work.options.baseline), data, work)
    gated = trained.gated if trained else None
    plugins = stage.build_plugins(lab, plain) if work.options.plugins else None
    packaged = proof.package(lab, source, plain, verified, gated, experiment, plugins, work)
    return proof.report(lab, source, plain, trained, post_linked, verified, experiment, packaged, work)


def train(lab: Lab, work: Work) -> Trained:
    """From the source to a profile that passed the gate: the hot set found, instrumented and trained."""
    source, plain, data = _plain(lab, work)
    if work.recipe.scope == "hot":
        hot_set = stage.find_hot_set(lab, source, plain, work.train_on, data, seconds=work.options.sample_s, use_perf=work.perf)
    else:
        hot_set = stage.whole_tree(lab, plain)
    gated = _profiled(lab, work, source, plain, data, hot_set)
    if work.recipe.profile == "csir":
        gated = _profiled(lab, work, source, plain, data, hot_set, first=gated.profile)
    return Trained(source=source, plain=plain, data=data, hot_set=hot_set, gated=gated)


def build(lab: Lab, work: Work) -> Build:
    """A server by a recipe: whole when it has no profile, else trained first; then BOLT, if the recipe says so."""
    if work.recipe.profile != "none":
        trained = train(lab, work)
        source, data, hot_set = trained.source, trained.data, trained.hot_set
        made = _optimised(lab, work, trained)
    else:
        source = stage.get_source(lab, work.options.source, work.source_identity)
        made = stage.build_plain(lab, source, work.recipe, work.toolchain)
        if work.recipe.post_link == "none":
            return made
        data = stage.fill_data(lab, lab.kind.program(source.path, made.tree, made.server), work.train_on)
        hot_set = None
    seconds = work.options.train_s
    return stage.post_link(lab, source, made, hot_set, work.train_on, data, work.recipe, seconds=seconds).build


def measure_programs(lab: Lab, measuring: Measuring, binaries: Mapping[str, Path]) -> Result:
    """Servers that exist already, measured against the first of them."""
    arms = proof.arms_of(lab, binaries)
    data = stage.fill_data(lab, arms[0].program, measuring.train_on + measuring.hold_out)
    experiment = proof.measure(lab, arms, data, measuring)
    return proof.report_measured(lab, experiment, measuring)


def _plain(lab: Lab, work: Work) -> tuple[Source, Build, Filled]:
    source = stage.get_source(lab, work.options.source, work.source_identity)
    plain = stage.build_plain(lab, source, work.plain, work.toolchain)
    program = lab.kind.program(source.path, plain.tree, plain.server)
    return source, plain, stage.fill_data(lab, program, work.train_on + work.hold_out)


def _profiled(
    lab: Lab, work: Work, source: Source, plain: Build, data: Filled, hot_set: HotSet, first: Profile | None = None
) -> Gated:
    instrumented = stage.build_instrumented(lab, source, work.recipe, work.toolchain, plain, hot_set, first)
    profile = stage.train_profile(
        lab, source, work.recipe, instrumented, work.train_on, data, first, seconds=work.options.train_s
    )
    wanted = stage.provenance_of(instrumented.build, work.train_on)
    return stage.gate_profile(lab, profile, work.toolchain, hot_set, wanted, again=first is not None)


def _optimised(lab: Lab, work: Work, trained: Trained) -> Build:
    return stage.build_optimised(
        lab, trained.source, work.recipe, work.toolchain, trained.plain, trained.hot_set, trained.gated
    )
