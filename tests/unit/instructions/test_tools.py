"""What counts is what works: hardware counters where there are some, else valgrind."""

from __future__ import annotations

from pathlib import Path

import pytest
from fakes import FakeShell, Output

from upshift.instructions.callgrind import Callgrind
from upshift.instructions.perf_stat import PerfStat
from upshift.instructions.tools import Tool, find_tool

COUNTED = "1204,,instructions:u,301000,100.00,,\n"
VALGRIND = {"valgrind --version": Output("valgrind-3.19.0\n")}
PERF = {"perf --version": Output("perf version 6.1.90\n")}


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name: f"/usr/bin/{name}")
    monkeypatch.delenv("UPSHIFT_PERF", raising=False)


@pytest.mark.parametrize(
    "probe",
    [
        Output("<not supported>,,instructions:u,0,100.00,,\n"),
        Output("<not counted>,,instructions:u,0,0.00,,\n"),
        Output("Error: No permission", returncode=255),
        Output(""),
    ],
    ids=["no counters", "not counted", "not allowed", "silent"],
)
def test_without_counters_valgrind_counts(probe: Output) -> None:
    assert find_tool(FakeShell({"perf stat": probe, **VALGRIND, **PERF})) == Tool(source="callgrind", version="3.19.0")


def test_counters_are_preferred_unless_perf_is_off(monkeypatch: pytest.MonkeyPatch) -> None:
    shell = FakeShell({"perf stat": Output(COUNTED), **VALGRIND, **PERF})
    assert find_tool(shell) == Tool(source="perf stat", version="6.1.90")
    monkeypatch.setenv("UPSHIFT_PERF", "off")
    assert find_tool(shell) == Tool(source="callgrind", version="3.19.0")


def test_nothing_counts_where_neither_is_there_or_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_tool(FakeShell({"valgrind --version": Output(returncode=1)})) is None
    monkeypatch.setattr("shutil.which", lambda _name: None)
    assert find_tool(FakeShell(VALGRIND)) is None


def test_addresses_are_the_same_at_each_start_whatever_counts(tmp_path: Path) -> None:
    perf, valgrind = Tool(source="perf stat", version="6"), Tool(source="callgrind", version="3")
    assert perf.before_server(tmp_path) == ("setarch", "-R")
    assert valgrind.before_server(tmp_path)[:3] == ("setarch", "-R", "valgrind")
    assert isinstance(perf.on(FakeShell(), 1, tmp_path, tmp_path / "log"), PerfStat)
    assert isinstance(valgrind.on(FakeShell(), 1, tmp_path, tmp_path / "log"), Callgrind)
