"""The statistics of data that were filled: of all rows, and not of some moment of the fill."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from mariadb_kind import KIND as MARIADB
from real_server import started

from upshift.server.data import template
from upshift.server.kind import Program, ServerKind
from upshift.server.mysql import KIND as MYSQL
from upshift.shell import SystemShell
from upshift.workload.model import Fill, LoadCommand, Workload

ROWS = 20_000
OPTIONS = {"mariadb": (), "mysql": ("--secure-file-priv=NULL", "--mysqlx=OFF")}
SQL = f"""
CREATE TABLE orders (id INT PRIMARY KEY, note CHAR(64), KEY (note));
CREATE TABLE `it``s` (id INT PRIMARY KEY);
CREATE VIEW few AS SELECT id FROM orders WHERE id < 9;
INSERT INTO orders VALUES (0, '');
INSERT INTO orders WITH RECURSIVE s (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < 999)
SELECT a.n * 1000 + b.n, SHA2(b.n, 256) FROM s a, s b WHERE a.n < {ROWS // 1000} + 1;
"""


@pytest.fixture(params=["mariadb", "mysql"])
def server(request: pytest.FixtureRequest) -> Iterator[tuple[ServerKind, Path]]:
    if request.param == "mariadb":
        yield MARIADB, Path(shutil.which("mariadbd") or "mariadbd")
    elif binary := os.environ.get("UPSHIFT_TEST_MYSQLD"):
        yield MYSQL, Path(binary)
    else:
        pytest.skip("UPSHIFT_TEST_MYSQLD names no MySQL")


def test_statistics_are_of_all_rows(server: tuple[ServerKind, Path], tmp_path: Path) -> None:
    kind, binary = server
    (file := tmp_path / "fill.sql").write_text(SQL)
    client = "mariadb" if kind.name == "mariadb" else str(binary.with_name("mysql"))
    fill = Fill(command=("sh", "-c", f"{client} --no-defaults --socket={{socket}} -uroot {{database}} < {file}"))
    workload = Workload(name="shop", fill=fill, load=LoadCommand(command=("true",)))
    shell = SystemShell()
    try:
        program = Program(kind=kind.name, binary=binary)
        data = template(shell, kind, program, (workload,), tmp_path / "data", tmp_path / "log")
        with started(str(binary), data, OPTIONS[kind.name]) as running:
            counted = running.run(
                "SELECT n_rows, clustered_index_size, sum_of_other_index_sizes FROM mysql.innodb_table_stats "
                "WHERE table_name = 'orders'"
            )
    finally:
        shell.close()
    ((rows, pages, others),) = counted
    # The server samples pages.
    assert 0.5 * ROWS < rows < 2 * ROWS
    assert pages > 50 and others > 50
