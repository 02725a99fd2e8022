"""`upshift count`: what servers execute for a query."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from upshift.cli.parameters import Arms, Json, NoInstall


def count(
    context: typer.Context,
    arms: Arms,
    workload: Annotated[
        list[str] | None, typer.Option(help="Count under this workload (name or .toml file); repeatable.")
    ] = None,
    by: Annotated[
        Literal["bolt"] | None,
        typer.Option(help="bolt: count with BOLT-instrumented copies of the servers; default: hardware counters, or valgrind."),
    ] = None,
    json: Json = False,
    no_install: NoInstall = False,
) -> None:
    """Count the instructions that servers execute for a query, with hardware counters, valgrind or BOLT."""
    from json import dumps

    from upshift import console
    from upshift.cli.asked import options_asked
    from upshift.cli.session import locked, session
    from upshift.cli.single import find_variants
    from upshift.errors import CountFailed, MissingTool, UsageError
    from upshift.instructions.tools import (
        NO_BOLT,
        NO_FIXED_ADDRESSES,
        NOTHING_COUNTS,
        find_bolt,
        find_tool,
        fixes_addresses,
    )
    from upshift.pipeline import count_variants
    from upshift.plan import prepare_measuring, refuse_unstartable
    from upshift.report import instructions
    from upshift.shell import SystemShell
    from upshift.stages.names import Stage
    from upshift.toolchain.system import install_line

    if by == "bolt" and find_bolt(SystemShell()) is None:
        raise MissingTool(NO_BOLT, "`upshift doctor` says what to install")
    if by is None and find_tool(SystemShell()) is None:
        raise MissingTool(NOTHING_COUNTS, f"on Debian and Ubuntu: `{install_line(('valgrind',))}`")
    if not fixes_addresses(SystemShell()):
        raise MissingTool(
            NO_FIXED_ADDRESSES, "run it outside of the container, or let its seccomp profile allow personality(2)"
        )
    variants = find_variants(arms)
    options = options_asked(context, held_out=())
    with locked():
        # Measuring, and the machine's card, are none of its stages.
        stages = refuse_unstartable(variants) - len((Stage.MEASURE, Stage.CARD))
        measuring = prepare_measuring(options, variants, allow_install=not no_install, say=console.say)
        if not any(each.fixed for each in measuring.train_on):
            names = ", ".join(each.name for each in measuring.train_on)
            raise UsageError(f"no workload has a [fixed] command: {names}", "docs/reference/workloads.md says what it is")
        with session("count", options.model_dump(mode="json"), stages=stages, jobs=0) as at_work:
            found = count_variants(at_work.lab, measuring, variants, by_bolt=by == "bolt")
    if not found.counts:
        raise CountFailed("nothing was counted: " + "; ".join(found.not_counted), f"logs are in {at_work.run.path}")
    if json:
        console.result_json(dumps({"schema_version": 1, **found.model_dump(mode="json")}, indent=2))
    else:
        instructions.show(found, console.out)
