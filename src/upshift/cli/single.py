"""Single stages as commands of their own, on the functions that `optimize` uses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from upshift.cli import parameters

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from upshift.measure.variant import Variant
    from upshift.options import Options
    from upshift.stages.lab import Lab
    from upshift.stages.work import Work
    from upshift.values import Value

_TRAIN_SECONDS = Annotated[float, typer.Option(min=1, help="Seconds of training for each workload.")]


def build(
    context: typer.Context,
    recipe: parameters.RecipeName,
    source: parameters.Source = None,
    patches: parameters.Patches = None,
    workload: Annotated[
        list[str] | None, typer.Option(help="Sample and train with this workload, as far as the recipe needs it; repeatable.")
    ] = None,
    train_seconds: _TRAIN_SECONDS = 20.0,
    sample_seconds: parameters.SampleSeconds = 12.0,
    jobs: parameters.Jobs = 0,
    dry_run: parameters.DryRun = False,
    json: parameters.Json = False,
    no_install: parameters.NoInstall = False,
) -> None:
    """Build a server by a recipe, after training if the recipe has a profile, and print its path."""
    from upshift import pipeline
    from upshift.build.recipe import find_recipe
    from upshift.cli.asked import options_asked
    from upshift.resolve import recipe_of
    from upshift.stages.names import building_stages

    wanted = find_recipe(recipe)
    level = "quick" if wanted.profile == "none" and wanted.scope == "all" else "full"
    options = options_asked(context, level=level, toolchain=wanted.toolchain, held_out=())

    def step(lab: Lab, work: Work) -> tuple[Value, Path]:
        made = pipeline.build(lab, work).build
        return made, made.server

    _carry_out("build", options, building_stages(recipe_of(options)), step, dry_run, as_json=json, allow_install=not no_install)


def train(
    context: typer.Context,
    workload: Annotated[list[str] | None, typer.Option(help="Train on this workload (name or .toml file); repeatable.")] = None,
    source: parameters.Source = None,
    recipe: Annotated[str, typer.Option(help="The recipe that the profile is for.")] = "max-clang",
    patches: parameters.Patches = None,
    train_seconds: _TRAIN_SECONDS = 20.0,
    sample_seconds: parameters.SampleSeconds = 12.0,
    jobs: parameters.Jobs = 0,
    dry_run: parameters.DryRun = False,
    json: parameters.Json = False,
    no_install: parameters.NoInstall = False,
) -> None:
    """Find the hot set, train an instrumented server, and print the path of the profile."""
    from upshift import pipeline
    from upshift.build.recipe import find_recipe
    from upshift.cli.asked import options_asked
    from upshift.errors import RecipeError
    from upshift.resolve import recipe_of
    from upshift.stages.names import training_stages

    wanted = find_recipe(recipe)
    if wanted.profile == "none":
        raise RecipeError(f"recipe '{wanted.name}' has no profile, so there is nothing to train", "choose one with a profile")
    options = options_asked(context, toolchain=wanted.toolchain, held_out=())

    def step(lab: Lab, work: Work) -> tuple[Value, Path]:
        gated = pipeline.train(lab, work).gated
        return gated, gated.profile.path

    _carry_out("train", options, training_stages(recipe_of(options)), step, dry_run, as_json=json, allow_install=not no_install)


def _carry_out(
    verb: str,
    options: Options,
    stages: tuple[str, ...],
    step: Callable[[Lab, Work], tuple[Value, Path]],
    dry_run: bool,
    *,
    as_json: bool,
    allow_install: bool,
) -> None:
    """Do the ``step`` that ``stages`` lead to, and print what it makes: its path, or all of it as JSON."""
    from upshift import console
    from upshift.cli.dry_run import show
    from upshift.cli.resume import held_by_same
    from upshift.cli.session import locked, session
    from upshift.plan import prepare, refuse_building

    if dry_run:
        refuse_building(options)
        show(options, stages, as_json=as_json)
        return
    kept = options.model_dump(mode="json")
    with locked():
        work = prepare(options, allow_install=allow_install, say=console.say, kept=held_by_same(verb, kept))
        with session(verb, kept, stages=len(stages), jobs=options.jobs) as at_work:
            made, path = step(at_work.lab, work)
    if as_json:
        console.result_json(made.model_dump_json(indent=2))
    else:
        console.result(str(path))


def measure(
    context: typer.Context,
    arms: parameters.Arms,
    workload: Annotated[
        list[str] | None, typer.Option(help="Measure on this workload (name or .toml file); repeatable.")
    ] = None,
    connections: Annotated[str, typer.Option("--connections", "-c", help="Client connections, separated by commas.")] = "1,8",
    trials: parameters.Trials = 6,
    rounds: parameters.Rounds = None,
    slice_seconds: parameters.SliceSeconds = None,
    lead_seconds: parameters.LeadSeconds = None,
    warmup_seconds: parameters.WarmupSeconds = 4.0,
    until: parameters.Until = None,
    budget: parameters.Budget = None,
    speed_probe: parameters.SpeedProbe = False,
    duet: parameters.Duet = False,
    card_seconds: parameters.CardSeconds = 10.0,
    dry_run: parameters.DryRun = False,
    json: parameters.Json = False,
    no_install: parameters.NoInstall = False,
) -> None:
    """Measure servers against each other, and print verdicts with intervals."""
    from upshift import console
    from upshift.cli.asked import options_asked
    from upshift.cli.dry_run import show as show_plan
    from upshift.cli.outcome import show_outcome
    from upshift.cli.session import locked, session
    from upshift.errors import UsageError
    from upshift.measure.duet import refuse_other_numbers
    from upshift.pipeline import measure_variants
    from upshift.plan import prepare_measuring, refuse_measuring, refuse_unstartable
    from upshift.stages.names import measuring_stages

    if len(arms) < 2:
        raise UsageError(
            "there is only one server: measure compares two or more", "name two servers or more, the baseline first"
        )
    variants = find_variants(arms)
    options = options_asked(context, held_out=())
    if duet:
        refuse_other_numbers(len(variants))
    if dry_run:
        refuse_measuring(options, variants)
        show_plan(options, measuring_stages(), as_json=json, variants=variants)
        return
    with locked():
        stages = refuse_unstartable(variants)
        measuring = prepare_measuring(options, variants, allow_install=not no_install, say=console.say)
        with session("measure", options.model_dump(mode="json"), stages=stages, jobs=0) as at_work:
            result = measure_variants(at_work.lab, measuring, variants)
    show_outcome(result, at_work.run, as_json=json)


def find_variants(arms: list[str]) -> tuple[Variant, ...]:
    """The servers of a command line. Raises UsageError when one is none, or two have the same name."""
    from upshift.errors import UsageError
    from upshift.measure.variant import find_variant

    variants = tuple(find_variant(arm) for arm in arms)
    if len({variant.name for variant in variants}) < len(variants):
        raise UsageError("two servers have the same name", "name them: plain=/a/mysqld new=/b/mysqld")
    return variants
