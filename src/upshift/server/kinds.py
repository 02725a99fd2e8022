"""Which kinds of server there are: those that Upshift ships, and one that ``$UPSHIFT_SERVER_KIND`` names."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from typing import cast

from upshift.errors import UsageError
from upshift.server.kind import ServerKind


def kinds() -> dict[str, ServerKind]:
    """All kinds by name. ``$UPSHIFT_SERVER_KIND`` is a Python file whose ``KIND`` is a ServerKind; it comes first."""
    from upshift.server import mysql

    found: dict[str, ServerKind] = {}
    if named := os.environ.get("UPSHIFT_SERVER_KIND"):
        own = _load(Path(named))
        found[own.name] = own
    found[mysql.KIND.name] = mysql.KIND
    return found


def default_kind() -> ServerKind:
    return next(iter(kinds().values()))


def _load(file: Path) -> ServerKind:
    spec = importlib.util.spec_from_file_location("upshift_server_kind", file)
    if spec is None or spec.loader is None or not file.is_file():
        raise UsageError(f"$UPSHIFT_SERVER_KIND names {file}, which is not a Python file", "unset it, or name one")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
        return cast(ServerKind, module.KIND)
    except Exception as error:
        raise UsageError(
            f"$UPSHIFT_SERVER_KIND names {file}, which cannot be used: {error}",
            "it must be a Python file whose KIND is a server kind, like src/upshift/server/mysql.py",
        ) from error
