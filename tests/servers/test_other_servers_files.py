"""A server that Upshift starts beside others leaves their temporary tables alone: a server removes all #sql* in its tmpdir."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from mariadb_kind import KIND as MARIADB
from real_server import started

from upshift.server.instance import running
from upshift.server.kind import Program, ServerKind
from upshift.server.mysql import KIND as MYSQL
from upshift.shell import SystemShell

OPTIONS = {"mariadb": (), "mysql": ("--secure-file-priv=NULL", "--mysqlx=OFF")}


@pytest.mark.parametrize("kind", [MARIADB, MYSQL], ids=["mariadb", "mysql"])
def test_temporary_tables_of_others_stay(kind: ServerKind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = shutil.which("mariadbd") if kind is MARIADB else os.environ.get("UPSHIFT_TEST_MYSQLD")
    if found is None:
        pytest.skip("UPSHIFT_TEST_MYSQLD names no MySQL")
    program = Program(kind=kind.name, binary=Path(found))
    (shared := tmp_path / "shared").mkdir()
    (table := shared / "#sql-temptable-1-2-3.MAI").touch()
    monkeypatch.setenv("TMPDIR", str(shared))
    shell, data, log = SystemShell(), tmp_path / "data", tmp_path / "log"
    try:
        shell.run(kind.initialise(program, data), log=log)
        with running(shell, kind, program, data, log=log):
            assert table.exists()
    finally:
        shell.close()
    with started(found, data, (f"--tmpdir={shared}", *OPTIONS[kind.name])):
        assert not table.exists(), "it removes what lies in its tmpdir"
