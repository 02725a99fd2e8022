"""`upshift explain`: why one server is faster than another."""

from __future__ import annotations

from typing import Annotated

import typer

from upshift.cli.parameters import NoInstall


def explain(
    servers: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN | A=PATH B=PATH",
            help="A run that measured (its optimised server, and the plain one of the same source), or two servers: "
            "executables, or .toml files.",
        ),
    ],
    workload: Annotated[
        list[str] | None,
        typer.Option(
            help="Explain under this workload (name or .toml file); repeatable. Default: the run's, or oltp_read_write."
        ),
    ] = None,
    connections: Annotated[
        int | None, typer.Option("--connections", "-c", min=1, help="Client connections; default: the run's most, or 8.")
    ] = None,
    seconds: Annotated[float, typer.Option(min=4, help="Seconds that each server is sampled under each workload.")] = 16.0,
    counts: Annotated[
        bool,
        typer.Option(
            "--counts",
            help="Also count taken branches, and each function's instructions and calls, with valgrind: a minute more.",
        ),
    ] = False,
    simulate: Annotated[
        bool,
        typer.Option(
            "--simulate",
            help="Do what --counts does, and simulate caches and branch prediction: misses a query, as indications.",
        ),
    ] = False,
    function: Annotated[
        list[str] | None,
        typer.Option(help="Show this function by itself, with its callers and source lines, also where inlined; repeatable."),
    ] = None,
    card_seconds: Annotated[
        float, typer.Option(min=0, help="Seconds to measure this machine for the explanation, 5 to 600; 0: leave its card out.")
    ] = 10.0,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show stages and estimates, and exit.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the explanation as JSON to stdout.")] = False,
    no_install: NoInstall = False,
) -> None:
    """Explain why one server takes less CPU time than another: where, by which functions, and how their code changed."""
    from upshift import console, pipeline
    from upshift.cli.dry_run import show_estimates
    from upshift.cli.session import locked, session
    from upshift.estimate import explaining
    from upshift.explain.door import asked, nothing_differs, refuse_nameless
    from upshift.options import Options
    from upshift.plan import prepare_explaining, refuse_measuring
    from upshift.report.explained import PAGE_FILE
    from upshift.report.explanation_terminal import show
    from upshift.stages.names import Stage
    from upshift.values import checked

    named = asked(servers, workload or ())
    options = checked(
        Options,
        {
            "workloads": named.workloads or ("oltp_read_write",),
            "held_out": (),
            "connections": (connections or named.connections or 8,),
            "card_s": card_seconds,
        },
    )
    refuse_nameless(function or ())
    counts = counts or simulate
    if dry_run:
        refuse_measuring(options, named.pair)
        show_estimates(explaining(options, seconds, counts=counts, simulate=simulate), as_json=json)
        return
    how = {"seconds": seconds, "counts": counts, "simulate": simulate, "functions": function or []}
    with locked():
        prepared = prepare_explaining(
            options,
            named,
            seconds=seconds,
            counts=counts,
            simulate=simulate,
            functions=tuple(function or ()),
            allow_install=not no_install,
            say=console.say,
        )
        stages = 0 if nothing_differs(named.pair) else len((Stage.DATA, Stage.CARD, Stage.EXPLAIN)) + counts
        with session("explain", {**options.model_dump(mode="json"), **how}, stages=stages, jobs=0) as at_work:
            explanation = pipeline.explain(at_work.lab, prepared)
    if json:
        console.result_json(explanation.model_dump_json(indent=2))
        return
    show(explanation, console.out)
    console.say(f"page: {at_work.run.path / PAGE_FILE}")
