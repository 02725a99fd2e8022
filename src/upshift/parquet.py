"""duckdb, which reads and writes Parquet."""

from __future__ import annotations

from pathlib import Path

import duckdb


def database(**settings: str) -> duckdb.DuckDBPyConnection:
    """A database in memory. The caller closes it."""
    # An extension that is missing is an error, not a download.
    return duckdb.connect(config={"autoinstall_known_extensions": "false", **settings})


def quoted(path: Path) -> str:
    """A path as a text in SQL."""
    return "'" + str(path).replace("'", "''") + "'"
