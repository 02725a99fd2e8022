"""A trace is exported to a folder below the cache, where there is room, and the folder is gone afterwards."""

from __future__ import annotations

import contextlib
import shutil
from collections import namedtuple
from pathlib import Path

import duckdb
import pytest
from fakes import FakeShell, Output

from upshift.errors import NotEnoughRoom, UpshiftError
from upshift.shell import Command
from upshift.stack import examining
from upshift.stack.examining import exported
from upshift.stack.scratch import scratch

PROGRAM = Path("/opt/upshift-stack")
Usage = namedtuple("Usage", "total used free")


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("UPSHIFT_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    (file := tmp_path / "app.trace").write_bytes(b"x" * 1000)
    return file


def exporting(returncode: int = 0) -> FakeShell:
    def effect(command: Command) -> None:
        (folder := Path(command.argv[-1])).mkdir()
        (folder / "exchanges.parquet").write_text("rows")

    return FakeShell({"export": Output("ERROR: the trace is cut\nhint: none\n" if returncode else "", returncode, effect)})


def left(cache: Path) -> list[Path]:
    return [each for each in (cache / "scratch").iterdir() if each.is_dir()]


def test_the_export_lies_below_the_cache_and_goes(cache: Path, trace: Path) -> None:
    said: list[str] = []
    with exported(exporting(), lambda: PROGRAM, trace, say=said.append) as folder:
        assert folder.is_relative_to(cache / "scratch") and (folder / "exchanges.parquet").is_file()
        assert len(left(cache)) == 1
    assert left(cache) == [] and said == []


@pytest.mark.parametrize("how", [UpshiftError("what it says"), KeyboardInterrupt()])
def test_it_goes_after_an_error_and_an_interrupt(cache: Path, trace: Path, how: BaseException) -> None:
    with pytest.raises(type(how)), exported(exporting(), lambda: PROGRAM, trace):
        raise how
    assert left(cache) == []


def test_it_goes_when_the_export_fails_or_is_interrupted(cache: Path, trace: Path) -> None:
    with pytest.raises(UpshiftError, match="the trace is cut"), exported(exporting(1), lambda: PROGRAM, trace):
        raise AssertionError("it was not exported")
    assert left(cache) == []

    def interrupt(command: Command) -> None:
        Path(command.argv[-1]).mkdir()
        raise KeyboardInterrupt

    shell = FakeShell({"export": Output(effect=interrupt)})
    with pytest.raises(KeyboardInterrupt), exported(shell, lambda: PROGRAM, trace):
        raise AssertionError("it was not exported")
    assert left(cache) == []


def test_a_disk_without_room_is_refused_before_the_export(cache: Path, trace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(10_000, 6_001, 3_999))
    shell = exporting()
    with pytest.raises(NotEnoughRoom, match=r"the export of .*app\.trace needs about 0\.0 GB") as refused:
        _entered(exported(shell, lambda: PROGRAM, trace))
    assert "UPSHIFT_CACHE" in refused.value.hint and shell.ran == [] and left(cache) == []
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(10_000, 6_000, 4_000))
    _entered(exported(shell, lambda: PROGRAM, trace))
    assert len(shell.ran) == 1


def test_a_large_trace_is_said_before_it_is_exported(cache: Path, trace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(examining, "_LARGE_BYTES", 1000)
    said: list[str] = []
    shell = FakeShell({"export": Output(effect=lambda _: said.append("exports"))})
    _entered(exported(shell, lambda: PROGRAM, trace, say=said.append))
    line, exports = said
    assert exports == "exports" and str(trace) in line and str(cache / "scratch") in line


def test_a_disk_that_fills_while_the_export_is_read_is_told(cache: Path, trace: Path) -> None:
    with (
        pytest.raises(NotEnoughRoom, match=r"app\.trace cannot be read: no space"),
        exported(exporting(), lambda: PROGRAM, trace),
    ):
        raise duckdb.IOException("no space")
    assert left(cache) == []


def test_what_a_killed_process_left_goes_and_what_another_has_stays(cache: Path) -> None:
    (killed := cache / "scratch" / "export-killed").mkdir(parents=True)
    (killed / "file").touch()
    with scratch("other-") as other:
        assert not killed.exists()
        with scratch("mine-") as mine:
            assert other.is_dir() and mine.is_dir()
        assert other.is_dir() and not mine.exists()
    assert left(cache) == []


def _entered(context: contextlib.AbstractContextManager[Path]) -> None:
    with context:
        pass
