"""Commands that show what is there: runs, reports, recipes, workloads."""

from __future__ import annotations

import json as jsonlib
import shlex
from typing import Annotated

import typer

from upshift.cli.parameters import Json, RecipeName


def report(
    run: Annotated[
        str,
        typer.Argument(
            help="A run's name, its beginning or end, its folder, or `last`: the newest of optimize, measure and study."
        ),
    ] = "last",
    json: Json = False,
) -> None:
    """Show the result of a run, and write its HTML report. A study's samples are analysed again."""
    from upshift.cli.outcome import show_outcome
    from upshift.cli.study import show_study
    from upshift.report.html import write_html
    from upshift.report.store import load_result
    from upshift.run.directory import RunDirectory
    from upshift.stages.study_again import report_again

    found = RunDirectory.open(run, ("optimize", "measure", "study"))
    if found.manifest.verb == "study":
        show_study(report_again(found), found, as_json=json)
        return
    result = load_result(found.path)
    write_html(result, found.path / "report.html")
    show_outcome(result, found, as_json=json)


runs_app = typer.Typer()
recipes_app = typer.Typer()


@runs_app.callback(invoke_without_command=True)
def runs(context: typer.Context, json: Json = False) -> None:
    """List runs, newest first."""
    if context.invoked_subcommand:
        return
    from upshift import console
    from upshift.run.directory import all_runs

    found = [
        {
            "name": each.name,
            "started_at": each.manifest.started_at,
            "command": shlex.join(each.manifest.command),
            "finished": each.finished,
            "path": str(each.path),
        }
        for each in all_runs()
    ]
    if json:
        console.result_json(jsonlib.dumps({"schema_version": 1, "runs": found}, indent=2))
        return
    if not found:
        console.result("There are no runs.")
    for each in found:
        finished = "finished" if each["finished"] else "not finished"
        console.entry(f"{each['name']}  {str(each['started_at'])[:19]} UTC  {finished}", str(each["command"]))


@runs_app.command("rm")
def remove_run(run: Annotated[str, typer.Argument(help="A run's name, or its beginning or end.")]) -> None:
    """Remove a run with its logs, report and package."""
    from upshift import console
    from upshift.errors import UsageError
    from upshift.paths import cache_dir
    from upshift.run.cleaning import processes_in, remove
    from upshift.run.directory import RunDirectory, runs_dir
    from upshift.run.lock import exclusive

    with exclusive(cache_dir()):
        found = RunDirectory.open(run, ())
        if found.path.parent.resolve() != runs_dir().resolve():
            raise UsageError(f"{found.path} is not a run of this cache", "`upshift runs` lists them")
        if at_work := processes_in(found.path):
            raise UsageError(f"{', '.join(at_work)} executes a file of {found.name} or works in it", "stop it first")
        remove([found.path])
    console.say(f"removed {found.name}; `upshift clean` frees what it alone used")


@recipes_app.callback(invoke_without_command=True)
def recipes(context: typer.Context, json: Json = False) -> None:
    """List the shipped recipes."""
    if context.invoked_subcommand:
        return
    from upshift import console
    from upshift.build.recipe import shipped_recipes

    found = shipped_recipes()
    if json:
        console.result_json(jsonlib.dumps([each.model_dump(mode="json") for each in found], indent=2))
        return
    for each in found:
        keys = ("toolchain", "scope", "lto", "profile", "post_link")
        console.entry(each.name, each.description, ", ".join(f"{key} {getattr(each, key)}" for key in keys))


@recipes_app.command("show")
def show_recipe(
    recipe: RecipeName,
    json: Json = False,
) -> None:
    """Print a recipe's file, or with --json all of its keys."""
    from upshift import console
    from upshift.build.recipe import find_recipe, recipe_file

    found = find_recipe(recipe)
    if json:
        console.result_json(found.model_dump_json(indent=2))
    else:
        console.result(recipe_file(recipe).read_text().rstrip())


def workloads(json: Json = False) -> None:
    """List the shipped workloads."""
    from upshift import console
    from upshift.workload.library import shipped_workloads

    found = shipped_workloads()
    if json:
        console.result_json(jsonlib.dumps([each.model_dump(mode="json") for each in found], indent=2))
        return
    for each in found:
        console.entry(f"{each.name} ({', '.join(each.server)})", each.description)
