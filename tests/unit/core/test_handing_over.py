"""`upshift cache` and `upshift load`: the programs get every argument as it was typed."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from upshift.cli import app
from upshift.native import programs
from upshift.toolchain import system


class BecameAnother(BaseException):
    """What execv would have replaced this process by."""

    def __init__(self, program: Path, argv: list[str]) -> None:
        self.program, self.argv = program, argv


@pytest.mark.parametrize(
    "arguments",
    [
        ("cache", "run", "--size", "4G", "--", "mysqld", "--defaults-file=my.cnf"),
        ("cache", "run", "--size", "4G", "--dry-run", "--", "mysqld", "--", "--help"),
        ("cache", "--help"),
        ("cache",),
        ("load", "tpcc", "run", "--server", "mysql://root@/tpcc", "--json"),
        ("load", "--version", "-x"),
    ],
)
def test_the_programs_get_every_argument(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, arguments: tuple[str, ...]) -> None:
    def become(program: Path, argv: list[str]) -> None:
        raise BecameAnother(program, argv)

    monkeypatch.setattr(sys, "argv", ["upshift", *arguments])
    monkeypatch.setattr(os, "execv", become)
    monkeypatch.setattr(system, "ensure_packages", lambda *_given, **_named: None)
    monkeypatch.setattr(programs, "build_programs", lambda *_given, **_named: tmp_path)
    monkeypatch.setenv("UPSHIFT_TIER_LIBRARY", "")
    with pytest.raises(BecameAnother) as became:
        app.main()
    assert became.value.program == tmp_path / f"upshift-{arguments[0]}"
    assert became.value.argv == [f"upshift {arguments[0]}", *arguments[1:]]
    assert os.environ["UPSHIFT_TIER_LIBRARY"] == str(tmp_path / programs.TIER_LIBRARY)
