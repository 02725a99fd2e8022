"""`upshift optimize`: the main job."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from upshift.options import Options
    from upshift.report.result import Result


# At quick a server start serves half as many loads: measuring would take longer than BOLT.
_THREADS = {"full": "1,8", "quick": "8"}
_TRAINING_S = {"full": 20.0, "quick": 10.0}


def optimize(
    source: Annotated[
        str | None,
        typer.Option(help="A source directory or tarball; default: the distribution's newest MySQL."),
    ] = None,
    level: Annotated[
        str, typer.Option(help="quick: BOLT on the plain build; full: PGO, LTO and BOLT of the hot set.")
    ] = "full",
    toolchain: Annotated[str, typer.Option(help="clang, gcc or icx.")] = "clang",
    scope: Annotated[str | None, typer.Option(help="hot: rebuild what runs; all: the whole tree.")] = None,
    recipe: Annotated[str | None, typer.Option(help="A recipe's name or its .toml file.")] = None,
    workload: Annotated[
        list[str] | None, typer.Option(help="Train and measure on this (name or .toml file); repeatable.")
    ] = None,
    held_out: Annotated[list[str] | None, typer.Option(help="Measure on this without training on it; repeatable.")] = None,
    baseline: Annotated[Path | None, typer.Option(help="The server that you run today, as a further arm.")] = None,
    verify: Annotated[str, typer.Option(help="short, main, innodb, or MTR tests separated by commas.")] = "short",
    plugins: Annotated[bool, typer.Option("--plugins", help="Build the server's plugins and package them, too.")] = False,
    threads: Annotated[
        str | None, typer.Option(help="Client threads to measure with, separated by commas; default: 1,8, with quick 8.")
    ] = None,
    trials: Annotated[int, typer.Option(min=1, help="Server starts of each arm.")] = 6,
    rounds: Annotated[int, typer.Option(min=1, help="Times each load is measured in a server start.")] = 1,
    slice_seconds: Annotated[float, typer.Option(min=0.5, help="Length of one measured load.")] = 2.2,
    train_seconds: Annotated[
        float | None, typer.Option(min=1, help="Training time for each workload; default: 20, with quick 10.")
    ] = None,
    sample_seconds: Annotated[float, typer.Option(min=1, help="Sampling time for each workload, to find the hot set.")] = 12.0,
    jobs: Annotated[int, typer.Option(min=0, help="Compilers side by side; 0: one for each CPU.")] = 0,
    resume: Annotated[
        str | None,
        typer.Option(metavar="RUN", help="Go on with a run that was stopped; `last` is the newest."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show stages, commands and estimates; do nothing.")] = False,
    json: Annotated[bool, typer.Option("--json", help="The result as JSON on stdout.")] = False,
    fail_on: Annotated[
        float | None,
        typer.Option(metavar="RATIO", help="Exit 3 if a training workload's QPS ratio is surely below this."),
    ] = None,
    no_install: Annotated[bool, typer.Option("--no-install", help="Install no system packages.")] = False,
) -> None:
    """Rebuild a server around a workload, prove the gain, and leave a server to install."""
    from upshift import pipeline
    from upshift.cli.dry_run import show as show_plan
    from upshift.cli.outcome import exit_code, show_outcome
    from upshift.cli.session import session
    from upshift.options import Options
    from upshift.plan import prepare, recipe_of, refuse_pointless
    from upshift.values import checked

    options = checked(
        Options,
        {
            "source": source,
            "level": level,
            "toolchain": toolchain,
            "scope": scope,
            "recipe": recipe,
            **({"workloads": tuple(workload)} if workload else {}),
            **({"held_out": tuple(held_out)} if held_out else {}),
            "baseline": baseline and baseline.resolve(),
            "verify": verify,
            "plugins": plugins,
            "threads": parse_threads(_THREADS.get(level, _THREADS["full"]) if threads is None else threads),
            "trials": trials,
            "rounds": rounds,
            "slice_s": slice_seconds,
            "train_s": _TRAINING_S.get(level, _TRAINING_S["full"]) if train_seconds is None else train_seconds,
            "sample_s": sample_seconds,
            "jobs": jobs,
        },
    )
    if resume:
        options = _options_of(resume)
    refuse_pointless(options)
    stages = pipeline.all_stages(options.level, recipe_of(options), plugins=options.plugins)
    if dry_run:
        show_plan(options, stages, as_json=json)
        return
    work = prepare(options, allow_install=not no_install)
    with session("optimize", options.model_dump(mode="json"), stages=len(stages), jobs=options.jobs, resume=resume) as at_work:
        result: Result = pipeline.optimize(at_work.lab, work)
    show_outcome(result, at_work.run, as_json=json)
    code = exit_code(result, fail_on)
    if code:
        raise typer.Exit(code)


def parse_threads(text: str) -> tuple[int, ...]:
    from upshift.errors import UsageError

    try:
        counts = tuple(int(part) for part in text.split(","))
    except ValueError:
        counts = ()
    if not counts or min(counts) < 1:
        raise UsageError(f"--threads takes counts separated by commas, not '{text}'", "for example --threads 1,8,64")
    return counts


def _options_of(resume: str) -> Options:
    from upshift.errors import UsageError
    from upshift.options import Options
    from upshift.run.directory import RunDirectory
    from upshift.values import checked

    manifest = RunDirectory.open(resume, ("optimize",)).manifest
    if manifest.verb != "optimize":
        raise UsageError(f"run '{resume}' is not one of `upshift optimize`", "`upshift runs` lists them; name one that is")
    return checked(Options, manifest.options)
