"""The main job. ``optimize`` is the product: each line is a stage, and each stage's output is what the next one takes."""

from __future__ import annotations

import contextlib
import functools
import itertools
import tarfile
from collections.abc import Callable, Mapping
from pathlib import Path

from upshift.build.model import Build
from upshift.build.recipe import Recipe
from upshift.door import lasting_settings, refuse_unknown_tests
from upshift.errors import LoadFailed, UpshiftError, UsageError
from upshift.explain.door import nothing_differs, pair_of
from upshift.explain.model import Explanation
from upshift.instructions.model import Instructions
from upshift.measure.statistics import HIGHER_IS_BETTER
from upshift.measure.variant import Variant
from upshift.package.service import refuse_unbuilt
from upshift.profile.model import Gated, HotSet, Profile
from upshift.report.result import Result
from upshift.server.data import settings_of
from upshift.server.kinds import find_program
from upshift.stack.answers import Answers
from upshift.stages.answers import Replayed, compare_answers
from upshift.stages.builds import build_instrumented, build_optimised, build_plain, makes_alike
from upshift.stages.card import Carded, measure_machine
from upshift.stages.check import check_server
from upshift.stages.count import count_instructions
from upshift.stages.data import Filled, fill_data
from upshift.stages.explain import Explaining, explain_gain, explain_pair
from upshift.stages.hot_set import find_hot_set, whole_tree
from upshift.stages.lab import Lab
from upshift.stages.layout import lay_out
from upshift.stages.measure import arms, asked_of, baselines_of, measure, templates
from upshift.stages.package import package
from upshift.stages.patching import build_patched, patch_source
from upshift.stages.post_link import NO_POST_LINK, PostLinked, post_link
from upshift.stages.report import Judged, report, report_measured
from upshift.stages.source import get_source
from upshift.stages.study import Made, confirm, files_of, measure_arms, same_servers, study_data, try_out
from upshift.stages.study_report import Best, report_study
from upshift.stages.training import gate_profile, train_profile
from upshift.stages.verify import verify
from upshift.stages.work import Ground, Measuring, Stock, Trained, Work
from upshift.study.analysis import analyse, by_instructions, without_figures
from upshift.study.crossing import crossings
from upshift.study.designs import Row
from upshift.study.file import Study
from upshift.study.plan import Arm, StudyPlan, arm_of, variant_of
from upshift.study.recommend import recommend
from upshift.study.result import StudyResult
from upshift.values import content_hash

SAME_HINT = "a flag may do nothing with this compiler; compare the commands in commands.log"
DEAD_HINT = "the run's logs/ say why; change the study and start it without --resume: it reuses the builds that are the same"


def optimize(lab: Lab, work: Work) -> Result:
    """Rebuild a server around a workload, verify it, measure the gain, and pack it."""
    checked = check_server(lab, work.options)
    trained = train(lab, work) if work.options.level == "full" else None
    ground = trained or _ground(lab, work)
    source, plain, data = ground.source, ground.plain, ground.data
    optimised = _optimised(lab, work, trained) if trained else plain
    post_linked = post_link(lab, source, optimised, trained, work.train_on, data, work.recipe, seconds=work.options.train_s)
    verified = verify(lab, source, plain, optimised, post_linked, work.options.verify, work.options.baseline)
    carded = measure_machine(lab, work.options.card_s)
    measured = arms(lab, ground, verified.build, work.options.baseline)
    filled = templates(lab, measured, data, work.train_on + work.hold_out)
    experiment = measure(lab, measured, filled, work, baselines=baselines_of(measured))
    counted = count_instructions(lab, measured, filled, work)
    why = explain_gain(lab, source.version, pair_of(measured, measured[0].name), filled, counted, work, carded)
    gated = trained.gated if trained else None
    judged = Judged(carded=carded, experiment=experiment, counted=counted, why=why, checked=checked)
    try:
        packaged = package(lab, source, plain, verified, gated, experiment, work)
    except (UpshiftError, OSError, tarfile.TarError) as error:
        # What was measured is not lost with the package. A full disk may not take the report either.
        with contextlib.suppress(OSError, UpshiftError):
            report(lab, ground, trained, verified, judged, f"there is no package: {error}", work)
        raise
    return report(lab, ground, trained, verified, judged, packaged, work)


def explain(lab: Lab, explaining: Explaining) -> Explanation:
    """Say why one of two servers that exist already is faster."""
    if nothing_differs(explaining.asked.pair):
        return explain_pair(lab, explaining, None, Carded(card=None))
    first, measuring = explaining.asked.before, explaining.measuring
    data = fill_data(lab, first.program, measuring.train_on, settings=lasting_settings(lab.kind_of(first.program), first))
    carded = measure_machine(lab, measuring.options.card_s)
    return explain_pair(lab, explaining, data, carded)


def train(lab: Lab, work: Work) -> Trained:
    """From the source to a profile that passed the gate: the hot set found, instrumented and trained."""
    ground = _ground(lab, work)
    hot_set = _hot_set(lab, work, ground) if work.recipe.scope == "hot" else whole_tree(lab, ground.plain)
    gated, parsed = _profiled(lab, work, ground, hot_set)
    if work.recipe.profile == "csir":
        gated, parsed = _profiled(lab, work, ground, hot_set, first=gated.profile)
    return Trained(**{name: getattr(ground, name) for name in Ground.model_fields}, hot_set=hot_set, gated=gated, parsed=parsed)


def build(lab: Lab, work: Work) -> PostLinked:
    """A server by a recipe, trained first when it has a profile; the hot set alone or whole; then BOLT, if it says so."""
    trained = None
    if work.recipe.profile != "none":
        trained = train(lab, work)
        source, data = trained.source, trained.data
        made = _optimised(lab, work, trained)
    elif work.recipe.scope == "hot":
        ground = _ground(lab, work)
        source, data, hot_set = ground.source, ground.data, _hot_set(lab, work, ground)
        made = build_optimised(lab, source, work.recipe, work.toolchain, ground.plain, hot_set, None, None)
    else:
        _stock, patched = _whole(lab, work, work.recipe)
        source, made = patched.source, patched.plain
        if work.recipe.post_link != "none":
            data = fill_data(lab, lab.kind.program(source.path, made.tree, made.server), work.train_on)
    if trained is None and work.recipe.post_link == "none":
        return PostLinked(build=made, applied="", reason=NO_POST_LINK)
    seconds, number = work.options.train_s, work.layout
    return post_link(lab, source, made, trained, work.train_on, data, work.recipe, seconds=seconds, number=number)


def measure_variants(lab: Lab, measuring: Measuring, variants: tuple[Variant, ...]) -> Result:
    """Servers that exist already, measured against the first of them."""
    first = variants[0]
    workloads = measuring.train_on + measuring.hold_out
    data = fill_data(lab, first.program, workloads, settings=lasting_settings(lab.kind_of(first.program), first))
    return _measured(lab, measuring, variants, templates(lab, variants, data, workloads))


def prove_variants(
    lab: Lab, measuring: Measuring, variants: tuple[Variant, Variant], replayed: Replayed
) -> tuple[Answers, Result | None]:
    """Two ways to send a trace, measured where both get the same answers; None where they do not: then nothing is measured."""
    first, workloads = variants[0], measuring.train_on
    data = fill_data(lab, first.program, workloads, settings=lasting_settings(lab.kind_of(first.program), first))
    filled = templates(lab, variants, data, workloads)
    answers = compare_answers(lab, variants, filled, replayed, measuring.plan, settings_of(workloads))
    return answers, None if answers.differ else _measured(lab, measuring, variants, filled)


def _measured(lab: Lab, measuring: Measuring, variants: tuple[Variant, ...], filled: Mapping[str, Filled]) -> Result:
    carded = measure_machine(lab, measuring.options.card_s)
    experiment = measure(lab, variants, filled, measuring)
    counted = count_instructions(lab, variants, filled, measuring)
    return report_measured(lab, Judged(carded=carded, experiment=experiment, counted=counted), measuring)


def count_variants(lab: Lab, measuring: Measuring, variants: tuple[Variant, ...], *, by_bolt: bool = False) -> Instructions:
    """What servers that exist already execute for a query, compared with the first of them."""
    first = variants[0]
    data = fill_data(lab, first.program, measuring.train_on, settings=lasting_settings(lab.kind_of(first.program), first))
    filled = templates(lab, variants, data, measuring.train_on)
    return count_instructions(lab, variants, filled, measuring, by_bolt=by_bolt)


def run_study(lab: Lab, study: Study, plan: StudyPlan, measuring: Measuring, work_of: Callable[[Arm], Work]) -> StudyResult:
    """Rows of a design built, measured, attributed, and the recommended set confirmed.

    ``work_of`` says what a server is built with: the recommended one may be none of the rows'.
    """
    lacking: list[str] = []
    served = functools.partial(_server, lab, work_of, lacking, _twins(lab, plan, work_of))
    made = tuple(
        Made(training=training, layout=layout, arms=tuple(served(arm, training, layout) for arm in plan.arms))
        for training, layout in itertools.product(range(1, study.trainings + 1), range(1, study.layouts + 1))
    )
    same = same_servers(made[0].arms, _contents(made))
    distinct = tuple(each.only(name for name, first in same.items() if name == first) for each in made)
    arms = distinct[0].arms
    if len(arms) < 2:
        raise UsageError("no factor changes the server: all rows are the same executable with the same settings", SAME_HINT)
    data = study_data(lab, arms, measuring)
    try_out(lab, arms, data, measuring)
    carded = measure_machine(lab, study.card_s)
    counted = count_instructions(lab, arms, templates(lab, arms, data, measuring.train_on + measuring.hold_out), measuring)
    groups = plan.groups(arm.name for arm in arms)
    measured = measure_arms(lab, distinct, data, measuring, trials=plan.trials, groups=groups)
    loads = asked_of(measuring)
    living = [arm.name for arm in arms if arm.name not in measured.died]
    if len(living) < 2:
        name, why = next(iter(measured.died.items()))
        raise LoadFailed(f"no row is left to compare: row '{name}' was left out: {why.strip().splitlines()[0]}", DEAD_HINT)
    silent = without_figures(living, arms[0].name, measured.parts, loads, study.metric)
    measured = measured.without(silent, f"no trial has a figure for {study.metric} under each load")
    standing = {arm.row: same[arm.name] for arm in plan.arms if same[arm.name] not in measured.died}
    crossed = crossings(study, plan.arms, loads)
    found = analyse(plan.design, standing, measured.parts, loads, study.metric, crossed)
    executed = by_instructions(plan.design, standing, counted, measuring.counted)
    lost = tuple(arm.row for arm in plan.arms if arm.row not in standing)
    row = recommend(plan.design, found.effects, higher_is_better=HIGHER_IS_BETTER[study.metric], without=lost)
    best = _best(lab, study, plan, measuring, served, data, row)
    servers = made[0].arms
    return report_study(lab, study, plan, measuring, servers, same, carded, measured, found, counted, executed, lacking, best)


def _contents(made: tuple[Made, ...]) -> Mapping[str, str]:
    """Of each row's servers together: BOLT may have failed in one training alone."""
    servers = zip(*(each.arms for each in made), strict=True)
    return {arms[0].name: content_hash([files_of(arm.program) for arm in arms]) for arms in servers}


def _best(
    lab: Lab,
    study: Study,
    plan: StudyPlan,
    measuring: Measuring,
    served: Callable[[Arm, int, int], Variant],
    data: Filled,
    row: Row | None,
) -> Best:
    """The recommended set in trials that chose nothing. What goes wrong is said in the result: the study is not lost for it."""
    recommended = confirmed = None
    try:
        recommended = arm_of(study, plan, row)
        if recommended and plan.confirm_trials:
            # A training, a layout and trials of its own: those that chose it were lucky for it.
            fresh = tuple(
                served(arm, study.trainings + 1, study.layouts + 1 if study.layouts > 1 or arm.bolt_alone else 1)
                for arm in (plan.arms[0], recommended)
            )
            confirmed = confirm(lab, fresh, data, measuring, plan.confirm_trials, study.metric)
    except UpshiftError as error:
        lacking = f"the recommended set was not confirmed: {error.message.strip().splitlines()[0]}"
        lab.progress.note(lacking)
        return Best(row=row, arm=recommended, lacking=lacking)
    return Best(row=row, arm=recommended, confirmed=confirmed)


def _twins(lab: Lab, plan: StudyPlan, work_of: Callable[[Arm], Work]) -> Mapping[str, Arm]:
    """Builds whose flags change nothing, each with the row whose server it shares: trained by itself, it would be another by
    chance.
    """
    twins: dict[str, Arm] = {}
    for arm in plan.built:
        for like in {each.name: twins.get(each.build, each) for each in plan.like(arm)}.values():
            work = work_of(like).model_copy(update={"training": 1, "recipe": like.recipe})
            trained = train(lab, work)
            assert arm.recipe
            if makes_alike(lab, trained, _optimised(lab, work, trained), arm.recipe):
                twins[arm.build] = like
                lab.progress.note(f"the flags of row '{arm.name}' change nothing: it takes the server of row '{like.name}'")
                break
    return twins


def _server(
    lab: Lab,
    work_of: Callable[[Arm], Work],
    lacking: list[str],
    twins: Mapping[str, Arm],
    arm: Arm,
    training: int,
    layout: int,
) -> Variant:
    """The variant of a row, its server built when a recipe says how. ``lacking`` takes a sentence where BOLT was left out."""
    if arm.recipe is None:
        return variant_of(arm, find_program(arm.change.binary, arm.change.server))
    built = twins.get(arm.build, arm)
    work = work_of(built).model_copy(update={"training": training, "layout": layout, "recipe": built.recipe})
    source = get_source(lab, work.options.source, work.source_identity)
    linked = build(lab, work)
    made = linked.build
    if arm.recipe.post_link == "none":  # BOLT's next training is the next layout.
        made = lay_out(lab, made, layout)
    elif not linked.applied:
        why = linked.reason.strip().splitlines()[0]
        lacking.append(f"row '{arm.name}', training {training}, layout {layout}: without BOLT: {why}")
    return variant_of(arm, lab.kind.program(source.path, made.tree, made.server))


def _ground(lab: Lab, work: Work) -> Ground:
    stock, patched = _whole(lab, work, work.plain)
    # Patches change no format of data.
    program = lab.kind.program(stock.source.path, stock.plain.tree, stock.plain.server)
    data = fill_data(lab, program, work.train_on + work.hold_out)
    return Ground(source=patched.source, plain=patched.plain, stock=stock, data=data)


def _whole(lab: Lab, work: Work, recipe: Recipe) -> tuple[Stock, Stock]:
    """A whole build by a recipe, and the same with the patches."""
    source = get_source(lab, work.options.source, work.source_identity)
    refuse_unknown_tests(lab.kind, "--verify", work.options.verify, source.path)
    if work.recipe.training == "mtr":
        refuse_unknown_tests(lab.kind, "training_tests", work.recipe.training_tests, source.path)
    patched = patch_source(lab, source, work.patches)
    plain = build_plain(lab, source, recipe, work.toolchain, relocations=work.relocations)
    refuse_unbuilt(lab.kind, plain.tree, work.options.service)
    made = build_patched(lab, source, patched, plain, relocations=work.relocations)
    return Stock(source=source, plain=plain), Stock(source=patched, plain=made)


def _hot_set(lab: Lab, work: Work, ground: Ground) -> HotSet:
    source, plain, data, seconds = ground.source, ground.plain, ground.data, work.options.sample_s
    workloads = work.hot_set_of or work.train_on
    return find_hot_set(lab, source, plain, workloads, data, seconds=seconds, use_perf=work.perf)


def _profiled(lab: Lab, work: Work, ground: Ground, hot_set: HotSet, first: Profile | None = None) -> tuple[Gated, Path | None]:
    source, plain, data = ground.source, ground.plain, ground.data
    instrumented = build_instrumented(lab, source, work.recipe, work.toolchain, plain, hot_set, first)
    seconds, number = work.options.train_s, work.training
    profile = train_profile(lab, source, work.recipe, instrumented, work.train_on, data, first, seconds=seconds, number=number)
    return gate_profile(lab, profile, work.toolchain, hot_set, again=first is not None), instrumented.parsed


def _optimised(lab: Lab, work: Work, trained: Trained) -> Build:
    return build_optimised(
        lab, trained.source, work.recipe, work.toolchain, trained.plain, trained.hot_set, trained.gated, trained.parsed
    )
