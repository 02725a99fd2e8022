"""Which kinds of server there are: those that Upshift ships, and one that ``$UPSHIFT_SERVER_KIND`` names."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from typing import cast

from upshift.errors import MissingTool, UsageError
from upshift.server.kind import Program, ServerKind, SourceKind


def kinds() -> dict[str, ServerKind]:
    """All kinds by name. ``$UPSHIFT_SERVER_KIND`` is a Python file whose ``KIND`` is a SourceKind; it comes first."""
    from upshift.server import mysql, postgres

    first: dict[str, ServerKind] = {each.name: each for each in _own()}
    return {**first, mysql.KIND.name: mysql.KIND, postgres.KIND.name: postgres.KIND}


def default_kind() -> SourceKind:
    """The kind that is built where nothing says otherwise."""
    from upshift.server import mysql

    return next(iter(_own()), mysql.KIND)


def kind_of(program: Program) -> ServerKind:
    """The kind of a program that was found."""
    return kinds()[program.kind]


def kind_named(name: str | None) -> str:
    """``name`` of a kind, without one the default's. Raises UsageError where there is no such kind."""
    if name is None:
        return default_kind().name
    if name not in kinds():
        raise UsageError(f"there is no kind of server '{name}'", f"there are {', '.join(kinds())}")
    return name


def kind_of_file(binary: Path) -> str:
    """The kind of an executable by its file name, such as ``postgres``; any other name is the default's."""
    return next((name for name, kind in kinds().items() if kind.server_target == binary.name), default_kind().name)


def find_program(binary: Path | None, server: str | None) -> Program:
    """The server of an executable, of a kind whose package is installed, or of an executable that is said to be of a kind.

    Raises UsageError for an unknown kind, MissingTool where no package of it is installed.
    """
    if binary is None:
        return Program(kind=kind_named(server), binary=_packaged(kind_named(server)))
    return Program(kind=kind_named(server) if server else kind_of_file(binary), binary=binary)


def _packaged(name: str) -> Path:
    kind = kinds()[name]
    found = kind.packaged()
    if found is None:
        raise MissingTool(f"no package of {kind.name} is installed", "install it, or name an executable in `binary`")
    return found


def _own() -> tuple[SourceKind, ...]:
    named = os.environ.get("UPSHIFT_SERVER_KIND")
    return (_load(Path(named)),) if named else ()


def _load(file: Path) -> SourceKind:
    spec = importlib.util.spec_from_file_location("upshift_server_kind", file)
    if spec is None or spec.loader is None or not file.is_file():
        raise UsageError(f"$UPSHIFT_SERVER_KIND names {file}, which is not a Python file", "unset it, or name one")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
        return cast(SourceKind, module.KIND)
    except Exception as error:
        raise UsageError(
            f"$UPSHIFT_SERVER_KIND names {file}, which cannot be used: {error}",
            "it must be a Python file whose KIND is a server kind, like src/upshift/server/mysql.py",
        ) from error
