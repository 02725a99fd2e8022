"""The main job: ``upshift optimize``. This function is the product; each line is a stage, each stage's output is the next one's input."""

from __future__ import annotations

from upshift import lab as stage
from upshift.build.recipe import Recipe
from upshift.errors import ProfileRefused
from upshift.lab import Lab
from upshift.measure.model import Plan
from upshift.options import Options
from upshift.profile.model import HotSet
from upshift.report.result import Result
from upshift.toolchain.model import Toolchain
from upshift.values import Value
from upshift.workload.model import Workload


class Work(Value):
    """Everything that the pipeline is told, resolved: files read, tools found."""

    options: Options
    source_identity: str
    plain: Recipe
    recipe: Recipe
    toolchain: Toolchain
    train_on: tuple[Workload, ...]
    hold_out: tuple[Workload, ...]
    plan: Plan
    perf: bool
    """Whether perf can sample here."""


STAGES = {
    "quick": ("source", "plain build", "data", "post-link", "verify", "measure", "package", "report"),
    "full": (
        "source",
        "plain build",
        "data",
        "hot set",
        "instrumented build",
        "train",
        "profile gate",
        "optimised build",
        "post-link",
        "verify",
        "measure",
        "package",
        "report",
    ),
}


def optimize(lab: Lab, work: Work) -> Result:
    """Rebuild a server around a workload, prove the gain, and leave a server to install."""
    options, recipe, toolchain = work.options, work.recipe, work.toolchain
    hot_set: HotSet | None = None
    gated: stage.Gated | None = None

    source = stage.get_source(lab, options.source, work.source_identity)
    plain = stage.build_plain(lab, source, work.plain, toolchain)
    data = stage.fill_data(lab, lab.kind.program(source.path, plain.tree, plain.server), work.train_on + work.hold_out)
    optimised = plain
    if options.level == "full":
        if recipe.scope == "hot":
            hot_set = stage.find_hot_set(
                lab, source, plain, work.train_on, data, seconds=options.sample_s, use_perf=work.perf
            )
        else:
            hot_set = stage.whole_tree(lab, plain)
        if recipe.profile == "none":
            raise ProfileRefused(f"recipe '{recipe.name}' has no profile", "--level quick does without, or choose another")
        instrumented = stage.build_instrumented(lab, source, recipe, toolchain, plain, hot_set)
        profile = stage.train_profile(lab, source, instrumented, work.train_on, data, seconds=options.train_s)
        wanted = stage.provenance_of(instrumented.build, work.train_on)
        gated = stage.gate_profile(lab, profile, toolchain, hot_set, wanted)
        optimised = stage.build_optimised(lab, source, recipe, toolchain, plain, hot_set, gated)
    post_linked = stage.post_link(
        lab, source, optimised, recipe, hot_set, work.train_on, data, seconds=options.train_s
    )
    verified = stage.verify(lab, source, plain, optimised, post_linked, options.verify)
    experiment = stage.measure(lab, source, plain, verified.build, data, work)
    package = stage.package(lab, source, plain, verified, gated, experiment, work)
    return stage.report(lab, work, source, plain, hot_set, gated, post_linked, verified, experiment, package)
