"""`upshift check`: what is wrong with a server's configuration, before anything is optimised."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from upshift.cli.parameters import Budget

if TYPE_CHECKING:
    from upshift.check.model import Facts, Report
    from upshift.check.rule import Rule
    from upshift.options import Options


Threshold = Literal["warning", "error"]
"""The least severity that fails."""

FAILED = 1


def check(
    context: typer.Context,
    server: Annotated[
        str | None,
        typer.Option(metavar="URL", help="The server, such as mysql://user@host:port or mysql://user@/?socket=PATH."),
    ] = None,
    defaults_file: Annotated[
        Path | None,
        typer.Option(help="Take address and login from this option file; default: those that MySQL's clients read."),
    ] = None,
    login_path: Annotated[
        str | None, typer.Option(metavar="NAME", help="Take address and login from this login path of mysql_config_editor.")
    ] = None,
    card: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The machine card of the server's machine, from `upshift card --json`.")
    ] = None,
    only: Annotated[list[str] | None, typer.Option(metavar="ID", help="Judge this rule alone; repeatable.")] = None,
    ignore: Annotated[list[str] | None, typer.Option(metavar="ID", help="Leave this rule out; repeatable.")] = None,
    fail_on: Annotated[
        Threshold | None, typer.Option(help="Exit 1 when there is a finding of this severity, or a worse one.")
    ] = None,
    prove: Annotated[
        str | None, typer.Option(metavar="ID", help="Measure this finding: the server's program without and with the fix.")
    ] = None,
    binary: Annotated[
        Path | None, typer.Option(help="The server's program for --prove; default: the running server's.", show_default=False)
    ] = None,
    workload: Annotated[
        list[str] | None,
        typer.Option(help="Prove on this workload (name or .toml file); repeatable. Default: oltp_read_write."),
    ] = None,
    connections: Annotated[
        str, typer.Option("--connections", "-c", help="Client connections of --prove, separated by commas.")
    ] = "8",
    trials: Annotated[int, typer.Option(min=1, help="Server starts of each arm of --prove.")] = 6,
    slice_seconds: Annotated[
        float | None,
        typer.Option(
            min=0.02,
            help="Seconds that are measured in a turn of --prove; "
            "default: 0.4, or 0.1 where Upshift chooses more than two turns.",
        ),
    ] = None,
    until: Annotated[
        str | None,
        typer.Option(metavar="PERCENT", help="Add trials to --prove until its intervals have this half-width, such as 1%."),
    ] = None,
    budget: Budget = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what --prove would measure, and exit.")] = False,
    json: Annotated[
        bool, typer.Option("--json", help="Print the report, or what --prove measured, as JSON to stdout.")
    ] = False,
    no_install: Annotated[bool, typer.Option("--no-install", help="Install no system packages for --prove.")] = False,
) -> None:
    """Report what is wrong with a server's configuration and schema, with the fix for each; it only reads."""
    from upshift import console
    from upshift.card.file import read_card
    from upshift.check.address import find_address
    from upshift.check.gather import read_facts
    from upshift.check.rule import judge
    from upshift.check.rules import RULES
    from upshift.check.session import opened
    from upshift.check.terminal import show
    from upshift.cli.passwords import with_password
    from upshift.cli.resume import typed

    refuse_mixed(prove, typed(context))
    if prove is not None:
        only, ignore = [prove], []
        options = options_of(workload, connections, trials, slice_seconds, until, budget)
    chosen = choose(RULES, only or [], ignore or [])
    measured = read_card(card) if card else None
    address = with_password(find_address(server, defaults_file, login_path), opened)
    with opened(address) as session:
        facts = read_facts(session, card=measured)
    left_out = tuple(each.id for each in RULES if each not in chosen)
    report = judge(facts, chosen, server=address.shown(), ignored=left_out)
    if prove is not None:
        measure_finding(report, facts, prove, binary, options, dry_run=dry_run, as_json=json, allow_install=not no_install)
        return
    if json:
        console.result_json(report.model_dump_json(indent=2))
    else:
        show(report, console.out)
    if fails(report, fail_on):
        raise typer.Exit(FAILED)


_OF_PROVE = ("binary", "workload", "connections", "trials", "slice_seconds", "until", "budget", "dry_run", "no_install")
_OF_REPORT = ("only", "ignore", "fail_on")


def refuse_mixed(prove: str | None, typed: tuple[str, ...]) -> None:
    """Raises UsageError for an option that was ``typed`` and would do nothing, with ``--prove`` or without."""
    from upshift.errors import UsageError

    for name in typed:
        option = "--" + name.replace("_", "-")
        if prove is None and name in _OF_PROVE:
            raise UsageError(f"{option} belongs to --prove, which is missing", "name the finding to measure: --prove ID")
        if prove is not None and name in _OF_REPORT:
            raise UsageError(
                f"{option} does nothing beside --prove, which judges its own rule alone", "check first, then prove a finding"
            )


def choose(rules: tuple[Rule, ...], only: list[str], ignore: list[str]) -> tuple[Rule, ...]:
    """The rules that are asked for. Raises UsageError for one that there is not."""
    from difflib import get_close_matches

    from upshift.errors import UsageError

    names = [each.id for each in rules]
    for name in (*only, *ignore):
        if name not in names:
            near = get_close_matches(name, names, 1)
            raise UsageError(
                f"there is no rule '{name}'", f"did you mean {near[0]}?" if near else "docs/reference/check.md lists the rules"
            )
    return tuple(each for each in rules if each.id not in ignore and (not only or each.id in only))


def fails(report: Report, fail_on: Threshold | None) -> bool:
    failing = {None: (), "error": ("error",), "warning": ("error", "warning")}[fail_on]
    return any(each.severity in failing for each in report.findings)


def options_of(
    workloads: list[str] | None,
    connections: str,
    trials: int,
    slice_seconds: float | None,
    until: str | None,
    budget: str | None,
) -> Options:
    """How --prove measures. Raises UsageError for what cannot be meant."""
    from upshift.cli.amounts import parse_budget, parse_connections, parse_until
    from upshift.options import Options
    from upshift.values import checked

    return checked(
        Options,
        {
            "workloads": tuple(workloads or ("oltp_read_write",)),
            "connections": parse_connections(connections),
            "trials": trials,
            "slice_s": slice_seconds,
            "until": parse_until(until),
            "budget_s": parse_budget(budget),
            "card_s": 0,
            "held_out": (),
        },
    )


def measure_finding(
    report: Report,
    facts: Facts,
    id: str,
    binary: Path | None,
    options: Options,
    *,
    dry_run: bool,
    as_json: bool,
    allow_install: bool,
) -> None:
    """The finding as two variants, by the pipeline of `upshift measure`."""
    from upshift import console
    from upshift.check.prove import find_binary, find_finding, refuse_server, told, variants_of
    from upshift.cli.dry_run import show
    from upshift.cli.outcome import show_outcome
    from upshift.cli.session import locked, session
    from upshift.pipeline import measure_variants
    from upshift.plan import prepare_measuring, refuse_unstartable
    from upshift.stages.names import Stage

    refuse_server(facts)
    variants = variants_of(find_finding(report, id), facts, find_binary(facts, binary))
    for variant in variants:
        settings = " ".join(f"{name}={value}" for name, value in variant.settings.items())
        console.say(f"{variant.name}: {variant.program.binary} {settings}".rstrip())
    if dry_run:
        show(options, (Stage.DATA, Stage.MEASURE, Stage.INSTRUCTIONS), as_json=as_json)
        return
    with locked():
        stages = refuse_unstartable(variants)
        measuring = prepare_measuring(options, variants, allow_install=allow_install, say=console.say)
        with session("check", options.model_dump(mode="json"), stages=stages, jobs=0) as at_work:
            result = measure_variants(at_work.lab, measuring, variants)
    show_outcome(result, at_work.run, as_json=as_json)
    for line in told(id, result.experiment.comparisons):
        console.say(line)
