"""Commands that show what is there: runs, reports, recipes, workloads."""

from __future__ import annotations

import json as jsonlib
from typing import Annotated

import typer

_JSON = Annotated[bool, typer.Option("--json", help="As JSON on stdout.")]


def report(
    run: Annotated[str, typer.Argument(help="A run's name, the end of it, its folder, or `last`: the newest that measured.")],
    json: _JSON = False,
) -> None:
    """Show a run's result again, and write its HTML report anew."""
    from upshift.cli.outcome import show_outcome
    from upshift.report.html import write_html
    from upshift.report.store import load_result
    from upshift.run.directory import RunDirectory

    found = RunDirectory.open(run, ("optimize", "measure"))
    result = load_result(found.path)
    write_html(result, found.path / "report.html")
    show_outcome(result, found, as_json=json)


def runs(json: _JSON = False) -> None:
    """List runs, newest first."""
    from rich.table import Table

    from upshift import console
    from upshift.run.directory import all_runs

    found = [
        {
            "name": each.name,
            "started_at": each.manifest.started_at,
            "command": " ".join(each.manifest.command),
            "finished": (each.path / "result.json").is_file(),
            "path": str(each.path),
        }
        for each in all_runs()
    ]
    if json:
        console.result_json(jsonlib.dumps({"schema_version": 1, "runs": found}, indent=2))
        return
    table = Table("run", "started (UTC)", "finished", "command")
    for each in found:
        table.add_row(
            str(each["name"]),
            str(each["started_at"])[:19],
            "yes" if each["finished"] else "no",
            str(each["command"]),
        )
    console.table(table)


def recipes(json: _JSON = False) -> None:
    """List the recipes that are shipped."""
    from rich.table import Table

    from upshift import console
    from upshift.build.recipe import shipped_recipes

    found = shipped_recipes()
    if json:
        console.result_json(jsonlib.dumps([each.model_dump(mode="json") for each in found], indent=2))
        return
    table = Table("recipe", "toolchain", "scope", "lto", "profile", "post-link", "what it is")
    for each in found:
        table.add_row(each.name, each.toolchain, each.scope, each.lto, each.profile, each.post_link, each.description)
    console.table(table)


def workloads(json: _JSON = False) -> None:
    """List the workloads that are shipped."""
    from rich.table import Table

    from upshift import console
    from upshift.workload.library import shipped_workloads

    found = shipped_workloads()
    if json:
        console.result_json(jsonlib.dumps([each.model_dump(mode="json") for each in found], indent=2))
        return
    table = Table("workload", "server", "what it is")
    for each in found:
        table.add_row(each.name, each.server, each.description)
    console.table(table)
