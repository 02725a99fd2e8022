"""`upshift patch prove`: a patched server against stock."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from upshift.cli.parameters import JsonResult, NoInstall

if TYPE_CHECKING:
    from upshift.prove.model import Asked


def prove(
    stock: Annotated[Path, typer.Option(metavar="MYSQLD", help="The server without the patches.")],
    patched: Annotated[Path, typer.Option(metavar="MYSQLD", help="The same server with the patches.")],
    setting: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE", help="Start with this setting; repeatable. Default: all switches of the patches ON."
        ),
    ] = None,
    statements: Annotated[int, typer.Option(min=0, help="Random statements to each server; 0 for none.")] = 1_000_000,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the random statements and disturbances.")] = 1,
    minutes: Annotated[float, typer.Option(min=0, help="Minutes of the disturbed load; 0 for none, and no crash.")] = 5.0,
    allow: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A TOML file of differences that patches make on purpose.", show_default=False),
    ] = None,
    mtr_statements: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SUITE",
            help="Also compare the answers to the statements of this suite of MySQL's tests, such as main; repeatable.",
            show_default=False,
        ),
    ] = None,
    mtr: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SUITE",
            help="Also run this suite of MySQL's tests, or SUITE.TEST,SUITE.TEST; repeatable.",
            show_default=False,
        ),
    ] = None,
    mtr_mode: Annotated[
        list[str] | None,
        typer.Option(
            metavar="MODE",
            help="How they run: on, off (all switches), ps-on, ps-off (with --ps-protocol); repeatable. Default: all four.",
            show_default=False,
        ),
    ] = None,
    mtr_source: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", help="The source with the tests. Default: the one stock was built from.", show_default=False
        ),
    ] = None,
    keep: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", help="Keep logs and reports in this new folder, each part's as it ends.", show_default=False
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would run, and exit.")] = False,
    json: JsonResult = False,
    no_install: NoInstall = False,
) -> None:
    """Test a patched server: the same bytes as stock, and right answers under disturbances and after a crash."""
    import os

    from upshift import console
    from upshift.cli import programs
    from upshift.cli.dry_run import show_lines
    from upshift.errors import UsageError
    from upshift.native.programs import DIFFER
    from upshift.paths import paths_of
    from upshift.prove.model import MODES, Asked, Proof
    from upshift.prove.proving import prove as run_proof
    from upshift.prove.proving import refuse_servers
    from upshift.prove.terminal import lines
    from upshift.run.directory import write_json
    from upshift.server.kinds import default_kind
    from upshift.shell import SystemShell
    from upshift.values import checked

    settings = _settings(setting or ())
    _refuse_options_without_tests(mtr, mtr_statements, mtr_mode, mtr_source)
    with paths_of("the command line"):
        given: dict[str, object] = {
            "stock": stock.resolve(),
            "patched": patched.resolve(),
            "allow": allow.resolve() if allow else None,
        }
        source = mtr_source.resolve() if mtr_source else None
    tests = {
        # What is named again would run again.
        "statements_of": tuple(dict.fromkeys(mtr_statements or ())),
        "suites": tuple(dict.fromkeys(mtr or ())),
        "modes": tuple(dict.fromkeys(mtr_mode or MODES)),
        "source": source,
    }
    given |= {"settings": settings, "statements": statements, "seed": seed, "minutes": minutes, **tests}
    asked = checked(Asked, given, {"modes": "--mtr-mode"})
    refuse_servers(asked)
    if keep and os.path.lexists(keep):
        raise UsageError(f"--keep: {keep} exists already", "name a new folder")
    if dry_run:
        show_lines(tuple(_planned(asked)), "parts", as_json=json)
        return

    def kept(proof: Proof) -> None:
        if keep:
            write_json(keep / "proof.json", proof.model_dump(mode="json"))

    shell = SystemShell()
    try:
        differ = programs.built_programs(shell, allow_install=not no_install, say=console.say) / DIFFER
        with _folder(keep) as folder:
            proof = run_proof(shell, default_kind(), differ, asked, folder, say=console.say, keep=kept)
            kept(proof)
    finally:
        shell.close()
    if json:
        console.result_json(proof.model_dump_json(indent=2))
    else:
        for line in lines(proof):
            console.result(line)
    if proof.verdict == "different":
        raise typer.Exit(1)


def _refuse_options_without_tests(
    mtr: Sequence[str] | None, mtr_statements: Sequence[str] | None, mode: Sequence[str] | None, source: Path | None
) -> None:
    """Raises UsageError for options about tests where none run: they would seem to have passed."""
    from upshift.errors import UsageError

    if mode and not mtr:
        raise UsageError("--mtr-mode says how the tests of --mtr run, and --mtr names none", "add --mtr SUITE")
    if source and not (mtr or mtr_statements):
        raise UsageError("--mtr-source has tests, and no option names any", "add --mtr SUITE or --mtr-statements SUITE")


def _planned(asked: Asked) -> Iterator[str]:
    """The parts of a proof, for --dry-run."""
    from upshift.prove.suites import title_of

    yield "mix: fixed statements"
    yield from (f"tests: statements of MySQL's suite {suite}" for suite in asked.statements_of)
    if asked.statements:
        yield f"random: {asked.statements} statements from seed {asked.seed}"
    if asked.minutes:
        yield from (f"storm: {asked.minutes:g} minutes", "crash: kill -9 and restart")
    yield from (f"mtr: {title_of(suite, mode)}" for suite in asked.suites for mode in asked.modes)


@contextlib.contextmanager
def _folder(keep: Path | None) -> Iterator[Path]:
    """The folder to keep, or one that goes at the end, with the logs that a hint may name. A refusal keeps none, so that
    the next command may name the folder again.
    """
    import shutil
    import tempfile

    from upshift.errors import UpshiftError, UsageError

    if keep:
        keep.mkdir(parents=True)
        try:
            yield keep.resolve()
        except UsageError:
            shutil.rmtree(keep, ignore_errors=True)
            raise
        return
    with tempfile.TemporaryDirectory(prefix="upshift-prove-") as made:
        folder = Path(made).resolve()
        try:
            yield folder
        except UpshiftError as error:
            if str(folder) in error.hint:
                error.hint = "the logs are gone: run it again with --keep FOLDER, where they stay"
            raise


def _settings(given: Sequence[str]) -> dict[str, str]:
    """Raises UsageError for what is not NAME=VALUE, and for a name with two values."""
    from upshift.errors import UsageError

    found: dict[str, str] = {}
    for each in given:
        name, equals, value = each.partition("=")
        if not (name and equals):
            raise UsageError(f"--setting {each}: it is not NAME=VALUE", "for example --setting ps_point_lookup=OFF")
        if name in found:
            raise UsageError(f"--setting {name} is named twice", "name it once: both servers have one value of it")
        found[name] = value
    return found
