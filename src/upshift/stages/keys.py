"""What stages' keys are made of, where a value alone does not say what a stage will do."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from upshift.build import pch_launcher
from upshift.build.recipe import Recipe
from upshift.build.whole import OPAQUE, configure_command, keeps_opaque
from upshift.machine import cpu_identity
from upshift.measure.variant import Variant
from upshift.native.programs import TIER_LIBRARY, programs_dir
from upshift.server.kind import Program, ServerKind, SourceKind
from upshift.shell import Shell
from upshift.source.model import Source
from upshift.toolchain.contents import loaded
from upshift.toolchain.flags import Flags
from upshift.toolchain.model import Toolchain
from upshift.values import file_sha256
from upshift.workload.model import Fill, Workload

_PROGRAMS = "{programs}"
SOMEWHERE = Path("/somewhere")
"""Stands in keys for a folder that is named by the key itself."""


def program_key(program: Program) -> Mapping[str, Any]:
    """A program by its contents: an upgrade leaves the path as it was."""
    return {"program": program, "sha256": file_sha256(program.binary)}


def libraries_key(arm: Variant, shell: Shell) -> Mapping[str, str]:
    """The shared libraries that a server loads in its environment, by their contents."""
    return {str(file): file_sha256(file) for file in sorted(loaded({arm.program.binary}, shell, arm.server_environment()))}


def surroundings_key(arm: Variant) -> Mapping[str, str]:
    """The contents of what a server runs with: preloaded libraries, the command that it runs under, and its page cache."""
    preloaded = (word for value in arm.server_environment().values() for word in re.split("[ :]+", value))
    cache = (str(programs_dir() / TIER_LIBRARY),) if arm.tier else ()
    commands = (arm.before_server(SOMEWHERE), (*preloaded, *cache))
    return files_key(tuple(filter(None, commands)))


def workloads_key(workloads: tuple[Workload, ...]) -> Mapping[str, Any]:
    """Workloads with the contents of their drivers and of every other file that their commands name."""
    files = files_key(tuple(command for each in workloads for command in (each.fill.command, each.load.command)))
    # What a workload says of itself, or of counting, changes nothing.
    unsaid = {"description": "", "fixed": None}
    return {"workloads": [each.model_copy(update=unsaid) for each in workloads], "files": files}


def fills_key(workloads: tuple[Workload, ...]) -> Mapping[str, Any]:
    """The commands that fill a database. In place of the files that they name stands what these hold: a copy of a dump fills it
    with the same rows.
    """
    commands = [each.fill.command for each in workloads]
    drivers = tuple(tuple(word for at, word in enumerate(each) if at == 0 or _PROGRAMS in word) for each in commands)
    fills = {Fill(command=tuple(_contents(word) if at else word for at, word in enumerate(each))) for each in commands}
    return {"fills": sorted(each.model_dump_json() for each in fills), "files": files_key(drivers)}


def _contents(word: str) -> str:
    """The word with the hash of the file that it names, alone or behind an option's name and an equals sign."""
    option, equals, value = word.partition("=")
    for before, path in (("", word), (option + equals, value)):
        named = path.replace("{{", "{").replace("}}", "}")
        if os.path.isfile(named):  # noqa: PTH113
            return f"{before}sha256:{file_sha256(Path(named))}"
    return word


def files_key(commands: tuple[tuple[str, ...], ...]) -> Mapping[str, str]:
    """The contents of the programs and of every other file that commands name."""
    words = [word for command in commands for word in command]
    drivers = [command[0] for command in commands]
    # A file may be a word of its own, or stand behind an option's name: --file=/dump.sql.
    named = [part.replace("{programs}", str(programs_dir())) for word in words for part in (word, word.partition("=")[2])]
    found = {*named, *(shutil.which(driver) or driver for driver in drivers)}
    # Not Path.is_file(), which raises on a word longer than a file's name may be.
    return {name: file_sha256(Path(name)) for name in sorted(found) if os.path.isfile(name)}  # noqa: PTH113


def configured(
    kind: SourceKind, source: Source, recipe: Recipe, toolchain: Toolchain, extra: Flags, relocations: bool
) -> tuple[str, ...]:
    """The CMake command of a whole build."""
    command = configure_command(kind, source, recipe, toolchain, SOMEWHERE, (), extra=extra, relocations=relocations)
    return command.argv


def processor_key(recipe: Recipe) -> Mapping[str, Any]:
    """The processor, where it decides what a compiler makes."""
    given = (*recipe.flags, *recipe.link_flags, *(word for value in recipe.options.values() for word in value.split()))
    return {"cpu": cpu_identity()} if any(word.endswith("=native") for word in given) else {}


def opaque_key(kind: SourceKind, recipe: Recipe) -> Mapping[str, Any]:
    """What keeps sources of a whole build from link-time optimisation, where something does."""
    return {"opaque": file_sha256(OPAQUE)} if keeps_opaque(kind, recipe) else {}


def headers_key(kind: SourceKind, recipe: Recipe) -> Mapping[str, Any]:
    """Which precompiled headers a build gets, and how."""
    if not recipe.precompiled_headers:
        return {}
    return {"headers": dict(kind.precompiled_headers()), "launcher": file_sha256(Path(pch_launcher.__file__))}


def servers_key(kind: ServerKind, program: Program, workloads: tuple[Workload, ...]) -> list[Any]:
    """How ``program`` is started for each workload."""
    configured = [{**kind.settings(), **workload.settings} for workload in workloads]
    return [kind.start(program, SOMEWHERE, SOMEWHERE, settings).argv for settings in configured]
