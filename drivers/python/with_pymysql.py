"""PyMySQL."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import metadata
from typing import Any

import pymysql
from connecting import Target

MISSING_TABLE = "1146"
REFUSED: tuple[type[Exception], ...] = (pymysql.MySQLError,)
FILES: Mapping[str, Any] = {"local_infile": True}


def version() -> str:
    return metadata.version("pymysql")  # pymysql.__version__ is that of the module whose place it can take


def connect(target: Target, **more: Any) -> Any:
    return pymysql.connect(
        host=target.host,
        port=target.port,
        user=target.user,
        password=target.password,
        database=target.database,
        **{**target.options, **more},
    )


def cursor(connection: Any, _use: Mapping[str, str]) -> Any:
    return connection.cursor()


def server_cursor(connection: Any, _use: Mapping[str, str]) -> Any:
    """Rows as they come; the server holds none back."""
    return connection.cursor(pymysql.cursors.SSCursor)
