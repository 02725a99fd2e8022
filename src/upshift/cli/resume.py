"""`--resume`: the options of the run that it goes on with, and no others; and what earlier runs have filled."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import typer

from upshift.cli.asked import field_of
from upshift.errors import UsageError
from upshift.options import Options
from upshift.paths import cache_dir
from upshift.run.directory import RunDirectory, all_runs
from upshift.values import checked

_BUILDING = ("source", "level", "toolchain", "scope", "recipe", "patches", "workloads", "held_out", "train_s", "sample_s")
"""Those of Options that decide what is built and trained, and on what data."""


def typed(context: typer.Context) -> tuple[str, ...]:
    """The parameters that were typed, and do not have their default."""
    sources = {name: context.get_parameter_source(name) for name in context.params}
    return tuple(name for name, source in sources.items() if source is not None and source.name == "COMMANDLINE")


def held_by(resume: str, verb: str) -> tuple[Path, ...]:
    """The folders that a run of this command has filled so far."""
    run = RunDirectory.open(resume, (verb,))
    return (*_held(run), run.path)


def held_by_same(verb: str, options: Mapping[str, Any]) -> tuple[Path, ...]:
    """Those that the newest run of this command that built the same has filled: the command goes on with them, or takes them as
    they are. None without such a run.
    """

    def builds(run: RunDirectory) -> bool:
        return all(run.manifest.options.get(name) == options[name] for name in _BUILDING)

    runs = (run for run in all_runs() if run.manifest.verb == verb and builds(run))
    run = next((each for each in runs if each.uses()), None)
    return _held(run) if run else ()


def _held(run: RunDirectory) -> tuple[Path, ...]:
    cache = cache_dir()
    stages = (cache / "stages" / name for name in run.uses())
    return tuple(each for each in (*stages, cache / "sources") if each.is_dir())


def options_of(resume: str, asked: Options, typed: tuple[str, ...]) -> Options:
    """The run's own options, but for ``--jobs``, which changes no result. Raises UsageError when another option that was
    ``typed`` asks for something else.
    """
    manifest = RunDirectory.open(resume, ("optimize",)).manifest
    if manifest.verb != "optimize":
        raise UsageError(f"run '{resume}' is not one of `upshift optimize`", "`upshift runs` lists them; name one that is")
    options = checked(Options, manifest.options)
    fields = {name: field for name in typed if (field := field_of(name)) and field != "jobs"}
    other = [name for name, field in fields.items() if getattr(asked, field) != getattr(options, field)]
    if other:
        named = ", ".join("--" + name.replace("_", "-") for name in other)
        raise UsageError(
            f"--resume continues with the run's own options, and the run has another value of {named}",
            f"leave {named} out, or start a new run without --resume: it reuses the builds that are the same",
        )
    return options.model_copy(update={"jobs": asked.jobs}) if "jobs" in typed else options
