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


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of its own: a run in the user's cache would be waited for."""
    monkeypatch.setenv("UPSHIFT_CACHE", str(tmp_path / "cache"))


@pytest.mark.parametrize(
    "arguments",
    [
        ("cache", "run", "--size", "4G", "--", "mysqld", "--defaults-file=my.cnf"),
        ("cache", "run", "--size", "4G", "--dry-run", "--", "mysqld", "--", "--help"),
        ("cache", "--help"),
        ("cache",),
        ("load", "tpcc", "run", "--server", "mysql://root@/tpcc", "--json"),
        ("load", "--version", "-x"),
        ("load", "-q", "--quiet", "-v", "-h"),
    ],
)
@pytest.mark.parametrize("library", ["", "/opt/libupshift_tier.so"])
def test_the_programs_get_every_argument(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, arguments: tuple[str, ...], library: str
) -> None:
    def become(program: Path, argv: list[str]) -> None:
        raise BecameAnother(program, argv)

    monkeypatch.setattr(sys, "argv", ["upshift", *arguments])
    monkeypatch.setattr(os, "execv", become)
    monkeypatch.setattr(system, "ensure_packages", lambda *_given, **_named: None)
    monkeypatch.setattr(programs, "build_programs", lambda *_given, **_named: tmp_path)
    monkeypatch.setenv("UPSHIFT_TIER_LIBRARY", library)
    with pytest.raises(BecameAnother) as became:
        app.main()
    assert became.value.program == tmp_path / f"upshift-{arguments[0]}"
    assert became.value.argv == [f"upshift {arguments[0]}", *arguments[1:]]
    assert os.environ["UPSHIFT_TIER_LIBRARY"] == (library or str(tmp_path / programs.TIER_LIBRARY))


@pytest.mark.parametrize(
    ("typed", "left", "allowed"),
    [
        (["run", "--no-install", "--size", "4G"], ["run", "--size", "4G"], False),
        (["run", "--", "mysqld", "--no-install"], ["run", "--", "mysqld", "--no-install"], True),
        (["--no-install", "run", "--", "mysqld"], ["run", "--", "mysqld"], False),
    ],
)
def test_no_install_is_upshifts_and_refuses_packages(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, typed: list[str], left: list[str], allowed: bool
) -> None:
    became: list[list[str]] = []
    asked: list[bool] = []
    monkeypatch.setattr(sys, "argv", ["upshift", "cache", *typed])
    monkeypatch.setattr(os, "execv", lambda _program, argv: became.append(argv))
    monkeypatch.setattr(programs, "programs_are_built", lambda: False)
    monkeypatch.setattr(system, "ensure_packages", lambda *_given, allow_install, **_named: asked.append(allow_install))
    monkeypatch.setattr(programs, "build_programs", lambda *_given, **_named: tmp_path)
    monkeypatch.setenv("UPSHIFT_TIER_LIBRARY", "")
    with pytest.raises(SystemExit):
        app.main()
    assert became == [["upshift cache", *left]]
    assert asked == [allowed]


def test_programs_that_are_built_need_no_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "argv", ["upshift", "load"])
    monkeypatch.setattr(os, "execv", lambda _program, _argv: None)
    monkeypatch.setattr(programs, "programs_are_built", lambda: True)
    monkeypatch.setattr(system, "ensure_packages", lambda *_given, **_named: pytest.fail("nothing is needed"))
    monkeypatch.setattr(programs, "build_programs", lambda *_given, **_named: tmp_path)
    monkeypatch.setenv("UPSHIFT_TIER_LIBRARY", "")
    with pytest.raises(SystemExit) as end:
        app.main()
    assert not end.value.code
