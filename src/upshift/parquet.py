"""duckdb, which reads and writes Parquet."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path

import duckdb

from upshift.errors import NotEnoughRoom


def database(**settings: str) -> duckdb.DuckDBPyConnection:
    """A database in memory. The caller closes it."""
    # An extension that is missing is an error, not a download.
    return duckdb.connect(config={"autoinstall_known_extensions": "false", **settings})


def quoted(path: Path) -> str:
    """A path as a text in SQL."""
    return "'" + str(path).replace("'", "''") + "'"


def read_from(path: Path) -> str:
    """A path to read from, as a text in SQL: duckdb takes it for a pattern."""
    return quoted(Path(re.sub(r"([\[*?])", r"[\1]", str(path))))


@contextlib.contextmanager
def writing(file: Path) -> Iterator[None]:
    """Around what makes duckdb write ``file``. Raises NotEnoughRoom where that fails."""
    try:
        yield
    except duckdb.IOException as error:
        raise NotEnoughRoom(f"{file} cannot be written: {error}", "free some space on its disk") from error
