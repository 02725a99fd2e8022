"""A command line as Options."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from upshift.cli.app import app
from upshift.cli.asked import field_of, options_asked
from upshift.cli.resume import options_of
from upshift.errors import UsageError
from upshift.options import Options
from upshift.run.directory import Manifest, RunDirectory

GROUP: Any = typer.main.get_command(app)


def context_of(command: str, *arguments: str) -> Any:
    return GROUP.commands[command].make_context(command, list(arguments))


def test_each_of_the_options_is_a_parameter_of_optimize() -> None:
    """So a value that is typed counts, and --resume judges it."""
    fields = [field_of(each.name) for each in GROUP.commands["optimize"].params]
    assert sorted(field for field in fields if field) == sorted(Options.model_fields)


def test_what_is_typed_becomes_options(tmp_path: Path) -> None:
    amounts = ["-c", "1,8", "--until", "2%", "--budget", "10m", "--card-seconds", "0", "-j", "3"]
    typed = ("--workload", "commit", "--patches", "a, b", "--duet", *amounts)
    found = options_asked(context_of("optimize", *typed, "--baseline", str(tmp_path)), train_s=10.0)
    assert found == Options(
        workloads=("commit",),
        connections=(1, 8),
        until=0.02,
        budget_s=600.0,
        card_s=0.0,
        patches=("a", "b"),
        baseline=tmp_path,
        jobs=3,
        duet=True,
        train_s=10.0,
    )


def test_what_is_not_typed_has_the_defaults_that_are_named_or_those_of_options() -> None:
    assert options_asked(context_of("optimize")) == Options()
    found = options_asked(context_of("measure", "a=/x", "b=/y", "--trials", "2"), held_out=(), trials=9)
    assert found == Options(held_out=(), trials=2)


def test_a_run_that_is_resumed_has_its_own_value_of_every_option(monkeypatch: Any, tmp_path: Path) -> None:
    monkeypatch.setenv("UPSHIFT_CACHE", str(tmp_path / "cache"))
    own = Options()
    manifest = Manifest(
        command=("upshift", "optimize"),
        options=own.model_dump(mode="json"),
        started_at="2026-11-21T05:15:00+00:00",
        upshift_version="0.1.0",
    )
    RunDirectory.create("optimize", manifest)
    refused = set()
    for name in (each.name for each in GROUP.commands["optimize"].params):
        if not (field := field_of(name)):
            continue
        asked = own.model_copy(update={field: "another"})
        try:
            options_of("last", asked, (name,))
        except UsageError as error:
            assert error.message.endswith(f"another value of --{name.replace('_', '-')}")
            refused.add(field)
    assert refused == set(Options.model_fields) - {"jobs"}
