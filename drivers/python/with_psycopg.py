"""psycopg 3."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import psycopg
from connecting import Target

MISSING_TABLE = "42P01"
REFUSED: tuple[type[Exception], ...] = (psycopg.Error,)


def version() -> str:
    return psycopg.__version__


def connect(target: Target, **more: Any) -> Any:
    options = {**target.options, **more}
    if options.get("prepare_threshold") == "none":
        options["prepare_threshold"] = None
    return psycopg.connect(
        host=target.host,
        port=target.port,
        user=target.user,
        password=target.password,
        dbname=target.database,
        **options,
    )


def cursor(connection: Any, use: Mapping[str, str]) -> Any:
    return psycopg.ClientCursor(connection) if use.get("cursor") == "client" else connection.cursor()


def server_cursor(connection: Any, use: Mapping[str, str]) -> Any:
    named = connection.cursor(name="rows")
    if "itersize" in use:
        named.itersize = int(use["itersize"])
    return named
