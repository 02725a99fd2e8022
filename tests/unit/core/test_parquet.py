"""A path with letters that duckdb takes for a pattern names one file."""

from __future__ import annotations

from pathlib import Path

import pytest

from upshift.parquet import database, quoted, read_from


@pytest.mark.parametrize("name", ["a[b]", "a*b", "a?b", "it's", "plain"])
def test_a_file_is_read_and_none_beside_it(tmp_path: Path, name: str) -> None:
    files = {other: tmp_path / other / "samples.parquet" for other in (name, "ab", "axb")}
    with database() as base:
        for number, file in enumerate(files.values()):
            file.parent.mkdir()
            base.execute(
                f"COPY (SELECT {number} AS number) TO {quoted(file)} (FORMAT parquet, KV_METADATA {{key: '{number}'}})"
            )
        found = base.execute(f"SELECT number FROM read_parquet({read_from(files[name])})").fetchall()
        assert found == [(0,)]
        metadata = base.execute(f"SELECT value FROM parquet_kv_metadata({read_from(files[name])})").fetchall()
        assert (b"0",) in metadata and (b"1",) not in metadata
