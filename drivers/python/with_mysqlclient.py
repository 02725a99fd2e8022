"""mysqlclient, over the C library that it was built with."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import metadata
from typing import Any

import MySQLdb
import MySQLdb.cursors
from connecting import Target

MISSING_TABLE = "1146"
REFUSED: tuple[type[Exception], ...] = (MySQLdb.MySQLError,)
# Else bytes go as text of the connection's character set.
BINARY: Mapping[str, Any] = {"binary_prefix": True}
FILES: Mapping[str, Any] = {"local_infile": 1}


def version() -> str:
    return metadata.version("mysqlclient")


def connect(target: Target, **more: Any) -> Any:
    return MySQLdb.connect(
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
    return connection.cursor(MySQLdb.cursors.SSCursor)
