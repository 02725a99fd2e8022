"""MySQL Connector/Python."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import mysql.connector
from connecting import Target

MISSING_TABLE = "1146"
REFUSED: tuple[type[Exception], ...] = (mysql.connector.Error,)
# It asks for TLS wherever the server has it, and goes on without where it has none: it cannot be told to require it alone.
PREFERS_TLS = True
FILES: Mapping[str, Any] = {"allow_local_infile": True}


def version() -> str:
    return str(mysql.connector.__version__)


def connect(target: Target, **more: Any) -> Any:
    return mysql.connector.connect(
        host=target.host,
        port=target.port,
        user=target.user,
        password=target.password,
        database=target.database,
        **{**target.options, **more},
    )


def cursor(connection: Any, use: Mapping[str, str]) -> Any:
    return connection.cursor(prepared=use.get("statements") == "prepared")


def server_cursor(connection: Any, use: Mapping[str, str]) -> Any:
    """Rows are read when they are asked for, the default of this driver."""
    return cursor(connection, use)
