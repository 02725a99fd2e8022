"""What the series promises of a prepared point select that is executed again: two system calls, no allocation on the heap."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from marks import only_full

from upshift.cli.test import MYSQLD, PATCHED_MYSQLD
from upshift.paths import CHECKOUT

pytestmark = only_full

_TIMEOUT_S = 900.0


def measured(bench: str, tmp_path: Path, *arguments: str) -> Any:
    """The rows of a bench, which anybody may run by hand."""
    file = tmp_path / "rows.json"
    argv = (sys.executable, str(CHECKOUT / "tests" / "benches" / bench), *arguments, "--json", str(file))
    done = subprocess.run(argv, capture_output=True, text=True, timeout=_TIMEOUT_S, cwd=CHECKOUT)
    assert done.returncode == 0, done.stderr
    return json.loads(file.read_text())["rows"]


@pytest.fixture
def servers() -> tuple[str, str]:
    for variable in (MYSQLD, PATCHED_MYSQLD):
        if not os.environ.get(variable):
            pytest.skip(f"{variable} names no server")
    return f"stock={os.environ[MYSQLD]}", f"patched={os.environ[PATCHED_MYSQLD]}"


def test_a_point_select_takes_two_system_calls(servers: tuple[str, str], tmp_path: Path) -> None:
    stock, patched = measured("system_calls.py", tmp_path, *servers, "--transactions", "300")
    assert stock["all_per_statement"] > 4
    # A timer or a purge may add one now and then.
    assert patched["all_per_statement"] < 2.1
    assert {name: round(each) for name, each in patched["calls_per_statement"].items() if each > 0.5} == {
        "recvfrom": 1,
        "sendto": 1,
    }


def test_a_point_select_allocates_nothing(servers: tuple[str, str], tmp_path: Path) -> None:
    stock, patched = measured("allocations.py", tmp_path, *servers)
    assert sum(stock["calls_per_transaction"].values()) > 1
    assert sum(patched["calls_per_transaction"].values()) < 0.1
