"""The main job. ``optimize`` is the product: each line is a stage, and each stage's output is what the next one takes."""

from __future__ import annotations

from pathlib import Path

from upshift.build.model import Build
from upshift.door import lasting_settings, refuse_unknown_tests
from upshift.explain.door import nothing_differs
from upshift.explain.model import Explanation
from upshift.instructions.model import Instructions
from upshift.measure.variant import Variant
from upshift.profile.model import Gated, HotSet, Profile
from upshift.report.result import Result
from upshift.source.model import Source
from upshift.stages.builds import build_instrumented, build_optimised, build_plain
from upshift.stages.card import measure_machine
from upshift.stages.count import count_instructions
from upshift.stages.data import Filled, fill_data
from upshift.stages.explain import Explaining, explain_pair
from upshift.stages.hot_set import find_hot_set, whole_tree
from upshift.stages.lab import Lab
from upshift.stages.measure import arms, measure, templates
from upshift.stages.package import package
from upshift.stages.post_link import post_link
from upshift.stages.report import report, report_measured
from upshift.stages.source import get_source
from upshift.stages.training import gate_profile, train_profile
from upshift.stages.verify import verify
from upshift.stages.work import Measuring, Trained, Work


def optimize(lab: Lab, work: Work) -> Result:
    """Rebuild a server around a workload, verify it, measure the gain, and pack it."""
    trained = None
    if work.options.level == "full":
        trained = train(lab, work)
        source, plain, data = trained.source, trained.plain, trained.data
        optimised = _optimised(lab, work, trained)
    else:
        source, plain, data = _plain(lab, work)
        optimised = plain
    post_linked = post_link(lab, source, optimised, trained, work.train_on, data, work.recipe, seconds=work.options.train_s)
    verified = verify(lab, source, plain, optimised, post_linked, work.options.verify, work.options.baseline)
    carded = measure_machine(lab, work.options.card_s)
    measured = arms(lab, source, plain, verified.build, work.options.baseline)
    filled = templates(lab, measured, data, work.train_on + work.hold_out)
    experiment = measure(lab, measured, filled, work)
    counted = count_instructions(lab, measured, filled, work)
    gated = trained.gated if trained else None
    packaged = package(lab, source, plain, verified, gated, experiment, work)
    return report(lab, source, plain, trained, post_linked, verified, carded, experiment, counted, packaged, work)


def explain(lab: Lab, explaining: Explaining) -> Explanation:
    """Say why one of two servers that exist already is faster."""
    if nothing_differs(explaining.asked.pair):
        return explain_pair(lab, explaining, None)
    first, measuring = explaining.asked.before, explaining.measuring
    data = fill_data(lab, first.program, measuring.train_on, settings=lasting_settings(lab.kind, first))
    return explain_pair(lab, explaining, data)


def train(lab: Lab, work: Work) -> Trained:
    """From the source to a profile that passed the gate: the hot set found, instrumented and trained."""
    source, plain, data = _plain(lab, work)
    if work.recipe.scope == "hot":
        hot_set = find_hot_set(lab, source, plain, work.train_on, data, seconds=work.options.sample_s, use_perf=work.perf)
    else:
        hot_set = whole_tree(lab, plain)
    gated, parsed = _profiled(lab, work, source, plain, data, hot_set)
    if work.recipe.profile == "csir":
        gated, parsed = _profiled(lab, work, source, plain, data, hot_set, first=gated.profile)
    return Trained(source=source, plain=plain, data=data, hot_set=hot_set, gated=gated, parsed=parsed)


def build(lab: Lab, work: Work) -> Build:
    """A server by a recipe: whole when it has no profile, else trained first; then BOLT, if the recipe says so."""
    trained = None
    if work.recipe.profile != "none":
        trained = train(lab, work)
        source, data = trained.source, trained.data
        made = _optimised(lab, work, trained)
    else:
        source = get_source(lab, work.options.source, work.source_identity)
        made = build_plain(lab, source, work.recipe, work.toolchain, relocations=work.relocations)
        if work.recipe.post_link == "none":
            return made
        data = fill_data(lab, lab.kind.program(source.path, made.tree, made.server), work.train_on)
    seconds = work.options.train_s
    return post_link(lab, source, made, trained, work.train_on, data, work.recipe, seconds=seconds).build


def measure_variants(lab: Lab, measuring: Measuring, variants: tuple[Variant, ...]) -> Result:
    """Servers that exist already, measured against the first of them."""
    first = variants[0]
    workloads = measuring.train_on + measuring.hold_out
    data = fill_data(lab, first.program, workloads, settings=lasting_settings(lab.kind, first))
    carded = measure_machine(lab, measuring.options.card_s)
    filled = templates(lab, variants, data, workloads)
    experiment = measure(lab, variants, filled, measuring)
    counted = count_instructions(lab, variants, filled, measuring)
    return report_measured(lab, carded, experiment, counted, measuring)


def count_variants(lab: Lab, measuring: Measuring, variants: tuple[Variant, ...]) -> Instructions:
    """What servers that exist already execute for a query, compared with the first of them."""
    first = variants[0]
    data = fill_data(lab, first.program, measuring.train_on, settings=lasting_settings(lab.kind, first))
    return count_instructions(lab, variants, templates(lab, variants, data, measuring.train_on), measuring)


def _plain(lab: Lab, work: Work) -> tuple[Source, Build, Filled]:
    source = get_source(lab, work.options.source, work.source_identity)
    refuse_unknown_tests(lab.kind, "--verify", work.options.verify, source.path)
    if work.recipe.training == "mtr":
        refuse_unknown_tests(lab.kind, "training_tests", work.recipe.training_tests, source.path)
    plain = build_plain(lab, source, work.plain, work.toolchain, relocations=work.relocations)
    program = lab.kind.program(source.path, plain.tree, plain.server)
    return source, plain, fill_data(lab, program, work.train_on + work.hold_out)


def _profiled(
    lab: Lab, work: Work, source: Source, plain: Build, data: Filled, hot_set: HotSet, first: Profile | None = None
) -> tuple[Gated, Path | None]:
    instrumented = build_instrumented(lab, source, work.recipe, work.toolchain, plain, hot_set, first)
    profile = train_profile(lab, source, work.recipe, instrumented, work.train_on, data, first, seconds=work.options.train_s)
    return gate_profile(lab, profile, work.toolchain, hot_set, again=first is not None), instrumented.parsed


def _optimised(lab: Lab, work: Work, trained: Trained) -> Build:
    return build_optimised(
        lab, trained.source, work.recipe, work.toolchain, trained.plain, trained.hot_set, trained.gated, trained.parsed
    )
