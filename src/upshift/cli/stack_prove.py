"""`upshift stack prove`: one suspect, measured."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from upshift.cli.parameters import Budget, JudgedBy, NoInstall, Trace, Trials

if TYPE_CHECKING:
    from upshift.estimate import Estimate
    from upshift.measure.variant import Variant
    from upshift.options import Options
    from upshift.report.result import Result
    from upshift.run.directory import RunDirectory
    from upshift.shell import Shell
    from upshift.stack.answers import Answers
    from upshift.stack.evidence import Evidence
    from upshift.stack.proof import Change
    from upshift.stack.suspects.model import Finding
    from upshift.stages.answers import Replayed

DIFFER = 1
_MOST_CONNECTIONS = 64
_IMPORT_TIMEOUT_S = 3600.0


def _refuse_server(url: str | None) -> None:
    """Raises UsageError for the option that other commands of `stack` have."""
    from upshift.errors import UsageError

    if url is not None:
        raise UsageError(
            "stack prove takes no --server: it starts its own servers and uses no running one",
            "--before FILE.sql names a dump of the database as it was when the capture began, "
            "--binary FILE the server's program (mysqld, postgres)",
        )


def prove(
    trace: Trace,
    suspect: Annotated[str, typer.Option(metavar="ID", help="The finding to prove, such as C1.")],
    before: Annotated[
        Path,
        typer.Option(
            metavar="FILE.sql",
            help="A dump of the database as it was when the capture began (mysqldump, pg_dump --no-owner --no-privileges).",
        ),
    ],
    binary: Annotated[
        Path | None,
        typer.Option(
            help="The server's program, which runs on copies of the dump's data; default: the installed package's.",
            show_default=False,
        ),
    ] = None,
    sql: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE.sql", help="Change the second server's data by these statements; repeatable."),
    ] = None,
    setting: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="Give the second server this setting; repeatable.")
    ] = None,
    setting_now: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="Give both servers this setting, which the trace's server has; repeatable."),
    ] = None,
    findings: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.json", help="Take the finding from what `examine`, `plans` or `compare` printed with --json."
        ),
    ] = None,
    threshold: JudgedBy = None,
    loop: Annotated[
        Literal["reads", "always"],
        typer.Option(
            help="Repeat the trace when it ends: only a trace without writes, or any trace, whose later laps find changed rows."
        ),
    ] = "reads",
    connections: Annotated[
        str | None,
        typer.Option(
            "--connections",
            "-c",
            help="Client connections, separated by commas; default: the most that the trace had open at once, up to 64.",
        ),
    ] = None,
    trials: Trials = 6,
    slice_seconds: Annotated[
        float | None,
        typer.Option(
            min=0.02,
            help="Seconds that are measured in a turn; "
            "default: 0.4, or 0.1 where Upshift chooses more than two turns, for a trace that only reads.",
        ),
    ] = None,
    until: Annotated[
        str | None,
        typer.Option(metavar="PERCENT", help="Add trials until the intervals have this half-width, such as 1%."),
    ] = None,
    budget: Budget = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be measured, and exit.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the verdict and what was measured as JSON to stdout.")] = False,
    no_install: NoInstall = False,
    _server: Annotated[str | None, typer.Option("--server", hidden=True, is_eager=True, callback=_refuse_server)] = None,
) -> None:
    """Replay a trace as the application sent it and with one thing changed, in turns, and measure what the change gains."""
    from upshift import console
    from upshift.cli.check import options_of
    from upshift.cli.dry_run import show_estimates
    from upshift.cli.programs import STACK, built_programs
    from upshift.cli.session import locked
    from upshift.errors import UsageError
    from upshift.shell import SystemShell
    from upshift.stack.change import read_given
    from upshift.stack.examining import examined
    from upshift.stack.findings import read_findings
    from upshift.stack.proof import NotProvableError, change_of, not_provable
    from upshift.stack.prove import experiment_of, measuring, open_at_once, workload_text
    from upshift.stack.scratch import scratch
    from upshift.stack.suspects.rules import judge
    from upshift.stack.suspects.thresholds import read_thresholds

    thresholds = read_thresholds(threshold or ())
    given = read_given(sql or (), setting or (), setting_now or ())
    if findings and threshold:
        raise UsageError(
            "--threshold does not apply to --findings, whose report was judged already",
            "give --threshold to the command that printed it",
        )
    _refuse_missing(before, binary)
    shell = SystemShell()
    try:
        programs = built_programs(shell, allow_install=not no_install, say=console.say)
        evidence = examined(shell, lambda: programs / STACK, trace, say=console.say)
        try:
            outcomes = read_findings(findings, evidence) if findings else judge(evidence, thresholds)
            finding, variants = experiment_of(evidence, outcomes, suspect, given, binary)
        except NotProvableError as why:
            if not json:
                raise
            console.result_json(not_provable(suspect, why).model_dump_json(indent=2))
            return
        _say_what(variants, evidence, before)
        most = min(_MOST_CONNECTIONS, open_at_once(evidence))
        how = (connections or str(most), trials, slice_seconds, until, budget)
        if dry_run:
            options = options_of([str(trace.with_suffix(".toml"))], *how)
            return show_estimates(_estimates(measuring(evidence, options), variants, evidence, before), as_json=json)
        # A file of SQL may be another one once all is measured.
        change = change_of(*variants)
        with locked(), scratch("prove-") as folder:
            replayed = _replayed(shell, programs, folder, trace, most)
            workload = folder / f"{trace.stem}.toml"
            workload.write_text(workload_text(suspect, replayed.trace, before.resolve(), evidence, most, loop=loop))
            options = options_of([str(workload)], *how)
            answers, result, run = _measured(measuring(evidence, options), variants, replayed, allow_install=not no_install)
    finally:
        shell.close()
    _show(finding, change, answers, result, run, as_json=json)
    if answers.differ:
        raise typer.Exit(DIFFER)


def _say_what(variants: tuple[Variant, Variant], evidence: Evidence, before: Path) -> None:
    """What is started, and what is changed. Raises UsageError for a dump that cannot be restored."""
    from upshift import console
    from upshift.stack.change import described
    from upshift.stack.laboratory import laboratory_of, refuse_dump

    laboratory = laboratory_of(evidence.trace)
    refuse_dump(laboratory, before)
    version = evidence.trace.server_version or "of an unknown version"
    console.say(f"the trace is of {laboratory.family} {version}, the servers here are {variants[0].program.binary}")
    for variant in variants:
        console.say(described(variant))


def _estimates(options: Options, variants: tuple[Variant, Variant], evidence: Evidence, before: Path) -> tuple[Estimate, ...]:
    """What the proof would take. The trace's answers came one after the other: so much a replay takes, roughly."""
    from upshift.estimate import proving
    from upshift.stack.laboratory import laboratory_of

    budget = evidence.budget
    answered_us = budget.server_us + budget.commit_us + (budget.network_us or 0)
    restore = f"{laboratory_of(evidence.trace).client} ... {before}"
    return proving(options, variants, restore=restore, dump_bytes=before.stat().st_size, replay_s=answered_us / 1e6)


def _measured(
    options: Options, variants: tuple[Variant, Variant], replayed: Replayed, *, allow_install: bool
) -> tuple[Answers, Result | None, RunDirectory]:
    from upshift import console
    from upshift.cli.session import session
    from upshift.pipeline import prove_variants
    from upshift.plan import prepare_measuring, refuse_unstartable

    # One more: the answers.
    stages = refuse_unstartable(variants) + 1
    measuring = prepare_measuring(options, variants, allow_install=allow_install, say=console.say)
    with session("prove", options.model_dump(mode="json"), stages=stages, jobs=0) as at_work:
        answers, result = prove_variants(at_work.lab, measuring, variants, replayed)
    return answers, result, at_work.run


def _show(
    finding: Finding, change: Change, answers: Answers, result: Result | None, run: RunDirectory, *, as_json: bool
) -> None:
    """Raises NotProvableError where much of a replay failed; with ``as_json`` that is a verdict."""
    from upshift import console
    from upshift.cli.outcome import show_outcome
    from upshift.measure.samples import read_samples
    from upshift.stack.proof import proof_of
    from upshift.stack.prove import failed, of_suspect, told

    comparisons = result.experiment.comparisons if result else ()
    spoilt = failed(finding.suspect, read_samples(run.path / "samples.parquet")) if result else None
    if as_json:
        proof = proof_of(finding, of_suspect(comparisons), result, change, answers, spoilt)
        console.result_json(proof.model_dump_json(indent=2))
    if result and (as_json or spoilt):
        console.say(f"again: upshift report {run.argument}")
    elif result:
        show_outcome(result, run, as_json=False)
    for line in (*answers.remarks(), *(() if spoilt else told(finding, comparisons, answers))):
        console.say(line)
    if spoilt and not as_json:
        raise spoilt


def _refuse_missing(before: Path, binary: Path | None) -> None:
    from upshift.errors import UsageError

    for file, what in ((before, "dump"), (binary, "server's program")):
        if file is not None and not file.is_file():
            raise UsageError(f"there is no {what} {file}", "name an existing file")


def _replayed(shell: Shell, programs: Path, folder: Path, trace: Path, connections: int) -> Replayed:
    """The trace as a replay takes it. Raises UpshiftError for one that cannot be replayed."""
    from upshift import console
    from upshift.native.failure import failure_of
    from upshift.shell import Command
    from upshift.stages.answers import Replayed

    replayable = folder / "replay.trace"
    done = shell.run(
        Command((str(programs / "upshift-load"), "import", str(trace), str(replayable))),
        check=False,
        timeout_s=_IMPORT_TIMEOUT_S,
    )
    if done.returncode != 0:
        raise failure_of(done, "the trace's program")
    for line in done.stdout.splitlines():
        if not line.startswith("next:"):
            console.say(line)
    return Replayed(trace=replayable, connections=connections)
