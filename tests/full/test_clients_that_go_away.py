"""A client that goes away without a word: stock and patched servers do not take it for one that was idle for too long."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pymysql
import pytest
from marks import only_full
from real_server import initialised, started

from upshift.cli.test import MYSQLD, PATCHED_MYSQLD

pytestmark = only_full

_NOTED_WITHIN_S = 20.0
# While it waits, the server looks whether its client is there: that leaves a timeout in errno, and the connection stays well.
_WAITS = ("SELECT GET_LOCK('held', 2)", "SELECT SLEEP(6)")


@pytest.mark.parametrize("waits", _WAITS)
@pytest.mark.parametrize("variable", [MYSQLD, PATCHED_MYSQLD])
def test_a_client_that_goes_away_has_not_been_idle_too_long(variable: str, waits: str, tmp_path: Path) -> None:
    if not os.environ.get(variable) or not os.environ.get(MYSQLD):
        pytest.skip(f"{variable} names no server")
    binary, built = os.environ[variable], Path(os.environ[MYSQLD]).resolve().parents[1]
    options = (f"--lc-messages-dir={built}/share", "--secure-file-priv=")
    data = initialised(binary, tmp_path / "data", options)
    with started(binary, data, (*options, "--log-error-verbosity=3", "--mysqlx=OFF")) as server:
        holder, leaver = (pymysql.connect(unix_socket=str(server.socket), user="root") for _ in range(2))
        with holder, holder.cursor() as held:
            held.execute("SELECT GET_LOCK('held', 0)")
            with leaver.cursor() as asked:
                asked.execute(waits)
                asked.execute("SELECT 1")
            leaver._force_close()  # type: ignore[attr-defined]
            deadline = time.monotonic() + _NOTED_WITHIN_S
            while "Aborted connection" not in (said := data.with_suffix(".log").read_text(errors="replace")):
                assert "IO-layer timeout" not in said, said[-1500:]
                assert time.monotonic() < deadline, said[-1500:]
                time.sleep(0.2)
    assert "IO-layer timeout" not in said
