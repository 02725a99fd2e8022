"""While a run works in a cache, no other command prepares or builds there: it would take CPU time from what is measured, or
replace the programs that measure. What only runs programs that are there goes on.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from fakes import another_run

from upshift import plan
from upshift.check.model import Report
from upshift.cli import app, check, programs
from upshift.errors import CacheBusy
from upshift.instructions import tools
from upshift.native import programs as native
from upshift.options import Options
from upshift.run.lock import exclusive, holding
from upshift.shell import SystemShell
from upshift.toolchain import system

SERVERS = ("/bin/true", "b=/bin/echo")
COMMANDS = [
    ("optimize",),
    ("build", "plain"),
    ("train",),
    ("measure", *SERVERS),
    ("count", *SERVERS),
    ("explain", "a=/bin/true", "b=/bin/echo"),
    ("study", "flags"),
]


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("UPSHIFT_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("UPSHIFT_SERVER_KIND", raising=False)
    for name in ("prepare", "prepare_measuring", "prepare_explaining", "refuse_unstartable"):
        monkeypatch.setattr(plan, name, lambda *_given, **_named: pytest.fail("prepared beside a measurement"))
    monkeypatch.setattr(tools, "find_tool", lambda _shell: "valgrind")
    monkeypatch.setattr(system, "ensure_packages", lambda *_given, **_named: pytest.fail("installed"))
    return tmp_path / "cache"


def upshift(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["upshift", *arguments])
    with pytest.raises(SystemExit) as end:
        app.main()
    return int(end.value.code or 0)


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_a_command_prepares_nothing_beside_another_run(
    cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: tuple[str, ...]
) -> None:
    with another_run(cache):
        assert upshift(monkeypatch, *command) == 1
        assert "another run (process 4711) works in" in " ".join(capsys.readouterr().err.split())
        if command[0] != "count":
            assert upshift(monkeypatch, *command, "--dry-run") == 0, "what only looks may look"
    assert not (cache / "runs").exists()


def test_a_finding_is_not_prepared_beside_another_run(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("upshift.check.prove.refuse_server", lambda *_given: None)
    monkeypatch.setattr("upshift.check.prove.variants_of", lambda *_given: ())
    monkeypatch.setattr("upshift.check.prove.find_finding", lambda *_given: None)
    monkeypatch.setattr("upshift.check.prove.find_binary", lambda *_given: None)
    report, facts = Report.model_construct(), None
    with another_run(cache), pytest.raises(CacheBusy):
        check.measure_finding(
            *(report, facts, "id", None, Options()),  # type: ignore[arg-type]
            dry_run=False,
            as_json=False,
            allow_install=False,
        )


@pytest.mark.parametrize("built", [True, False])
def test_programs_are_run_beside_another_run_and_not_built(
    cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], built: bool
) -> None:
    became: list[Path] = []
    monkeypatch.setattr(os, "execv", lambda program, _argv: became.append(program))
    monkeypatch.setattr(native, "programs_are_built", lambda: built)
    monkeypatch.setenv("UPSHIFT_TIER_LIBRARY", "")
    with another_run(cache):
        assert upshift(monkeypatch, "load", "--help") == (0 if built else 1)
    assert became == ([cache / "target" / "release" / "upshift-load"] if built else [])
    if not built:
        said = " ".join(capsys.readouterr().err.split())
        assert "process 4711) works in" in said and "may use the programs that would be built there" in said


def test_who_holds_the_cache_builds_programs_in_it(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "programs_are_built", lambda: False)
    monkeypatch.setattr(system, "ensure_packages", lambda *_given, **_named: None)
    monkeypatch.setattr(native, "build_programs", lambda *_given, **_named: cache)
    with exclusive(cache):
        assert programs.built_programs(SystemShell(), allow_install=False, say=print) == cache
        with holding(cache), pytest.raises(CacheBusy), exclusive(cache):
            raise AssertionError("it is one command's alone")
    with another_run(cache.with_name("other")), holding(cache):
        pass
