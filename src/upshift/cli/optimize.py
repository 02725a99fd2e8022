"""`upshift optimize`: the main job."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from upshift.cli import parameters
from upshift.cli.amounts import MARGIN, MOST_MARGIN

if TYPE_CHECKING:
    from upshift.report.result import Result


# At quick a server start serves half as many loads: measuring would take longer than BOLT.
_CONNECTIONS = {"full": (1, 8), "quick": (8,)}
_TRAINING_S = {"full": 20.0, "quick": 10.0}


def optimize(
    context: typer.Context,
    source: parameters.Source = None,
    level: Annotated[
        Literal["quick", "full"],
        typer.Option(help="quick: BOLT on the plain build; full: PGO, ThinLTO and BOLT of the hot set."),
    ] = "full",
    toolchain: Annotated[
        Literal["clang", "gcc", "icx"] | None, typer.Option(help="The compiler; default: the recipe's, or clang.")
    ] = None,
    scope: Annotated[
        Literal["hot", "all"] | None, typer.Option(help="hot: compile the hot set again; all: every object of the server.")
    ] = None,
    recipe: Annotated[str | None, typer.Option(help="A recipe's name or its .toml file.")] = None,
    patches: parameters.Patches = None,
    workload: Annotated[
        list[str] | None, typer.Option(help="Train and measure on this workload (name or .toml file); repeatable.")
    ] = None,
    held_out: Annotated[
        list[str] | None, typer.Option(help="Measure on this workload, but do not train on it; repeatable.")
    ] = None,
    baseline: Annotated[
        Path | None, typer.Option(help="Also measure against this executable, the server that you run.")
    ] = None,
    server: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Check the configuration of this server first, such as mysql://user@/?socket=PATH."),
    ] = None,
    defaults_file: Annotated[
        Path | None, typer.Option(help="Take address and login of the server to check from this option file.")
    ] = None,
    verify: Annotated[
        str, typer.Option(help="short, main, innodb, json, sys_vars, perfschema, whole, or MTR tests separated by commas.")
    ] = "short",
    connections: Annotated[
        str | None,
        typer.Option(
            "--connections", "-c", help="Client connections to measure with, separated by commas; default: 1,8, with quick 8."
        ),
    ] = None,
    trials: parameters.Trials = 6,
    rounds: parameters.Rounds = None,
    slice_seconds: parameters.SliceSeconds = None,
    lead_seconds: parameters.LeadSeconds = None,
    warmup_seconds: parameters.WarmupSeconds = 4.0,
    until: parameters.Until = None,
    budget: parameters.Budget = None,
    speed_probe: parameters.SpeedProbe = False,
    duet: parameters.Duet = False,
    train_seconds: Annotated[
        float | None, typer.Option(min=1, help="Seconds of training for each workload; default: 20, with quick 10.")
    ] = None,
    sample_seconds: parameters.SampleSeconds = 12.0,
    card_seconds: parameters.CardSeconds = 10.0,
    explain_seconds: Annotated[
        float,
        typer.Option(
            min=0, help="Seconds to sample each server for the explanation of the gain, 4 or more; 0: no explanation."
        ),
    ] = 4.0,
    service: Annotated[
        list[str] | None,
        typer.Option(help="Turn on in the package's systemd drop-in: huge-text, batch or thread-pool; repeatable."),
    ] = None,
    jobs: parameters.Jobs = 0,
    resume: Annotated[
        str | None,
        typer.Option(metavar="RUN", help="Continue a run that was stopped; `last` is the newest."),
    ] = None,
    dry_run: parameters.DryRun = False,
    json: parameters.JsonResult = False,
    fail_below: Annotated[
        float | None,
        typer.Option(min=0, metavar="RATIO", help="Exit 3 if a training workload's QPS ratio is below this, 4 if it may be."),
    ] = None,
    margin: Annotated[
        float,
        typer.Option(min=0, max=MOST_MARGIN, metavar="SHARE", help="Accept this loss below --fail-below, a share of RATIO."),
    ] = MARGIN,
    no_install: parameters.NoInstall = False,
) -> None:
    """Rebuild a server around a workload, verify it, measure the gain, and pack it."""
    from upshift import console, pipeline
    from upshift.cli.asked import options_asked
    from upshift.cli.dry_run import show as show_plan
    from upshift.cli.outcome import exit_code, show_outcome
    from upshift.cli.resume import held_by, held_by_same, options_of, typed
    from upshift.cli.session import locked, session
    from upshift.errors import UsageError
    from upshift.plan import prepare, refuse_building, refuse_pointless
    from upshift.resolve import recipe_of
    from upshift.server.kinds import default_kind
    from upshift.stages.check import address_of, is_checked
    from upshift.stages.names import Stage, all_stages

    if fail_below is None and "margin" in typed(context):
        raise UsageError(
            "--margin is a share of --fail-below, which is not given", "give --fail-below RATIO, or leave --margin out"
        )
    options = options_asked(context, connections=_CONNECTIONS[level], train_s=_TRAINING_S[level])
    if resume:
        options = options_of(resume, options, typed(context))
    refuse_pointless(options)
    address_of(options)  # Refused now, not after hours.
    first = (Stage.CHECK,) if is_checked(default_kind(), options) else ()
    stages = (*first, *all_stages(options.level, recipe_of(options)))
    if dry_run:
        refuse_building(options)
        show_plan(options, stages, as_json=json)
        return
    # The report is none of those that run and are timed; a server in use may need data of its own.
    announced = len(stages) - 1 + (options.baseline is not None)
    kept = options.model_dump(mode="json")
    with locked():
        held = held_by(resume, "optimize") if resume else held_by_same("optimize", kept)
        work = prepare(options, allow_install=not no_install, say=console.say, kept=held)
        with session("optimize", kept, stages=announced, jobs=options.jobs, resume=resume) as at_work:
            result: Result = pipeline.optimize(at_work.lab, work)
    show_outcome(result, at_work.run, as_json=json)
    code = exit_code(result, fail_below, margin)
    if code:
        raise typer.Exit(code)
