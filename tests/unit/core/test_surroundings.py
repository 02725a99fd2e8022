"""What the command line meets outside: encodings without µ, folders that cannot be written, closed pipes, full disks."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from upshift import console
from upshift.cli import app as cli_app
from upshift.console import ConsoleProgress
from upshift.machine import describe_machine
from upshift.paths import CHECKOUT


def upshift(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """The command line in a process of its own."""
    return subprocess.run(
        (sys.executable, "-m", "upshift", *arguments),
        env={**os.environ, "PYTHONPATH": str(CHECKOUT / "src"), **environment},
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.mark.parametrize("encoding", ["ascii", "iso8859-1", "utf-8"])
def test_a_result_is_printed_in_any_encoding(monkeypatch: pytest.MonkeyPatch, encoding: str) -> None:
    stdout = io.TextIOWrapper(io.BytesIO(), encoding=encoding)

    def command(*_given: object, **_named: object) -> None:
        console.result("5 µs → less")
        console.result_json('{"text": "5 µs"}')

    monkeypatch.setattr(cli_app, "app", command)
    monkeypatch.setattr(sys, "stdout", stdout)
    with pytest.raises(SystemExit) as end:
        cli_app.main()
    stdout.flush()
    assert isinstance(stdout.buffer, io.BytesIO)
    line, _, told = stdout.buffer.getvalue().partition(b"\n")
    assert end.value.code == 0 and line.decode(encoding).endswith("less")
    assert json.loads(told.decode("utf-8")) == {"text": "5 µs"}


def test_a_cache_that_cannot_be_there_is_no_traceback(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    done = upshift("clean", UPSHIFT_CACHE=str(file / "cache"))
    assert done.returncode == 1
    assert done.stderr.startswith(f"ERROR {file}/cache: Not a directory\n") and "UPSHIFT_CACHE" in done.stderr


@pytest.mark.parametrize(
    ("error", "traceback"),
    [
        (PermissionError(13, "Permission denied", "/cache"), False),
        (OSError(30, "Read-only file system", "/cache"), False),
        (OSError(122, "Disk quota exceeded"), False),
        (FileNotFoundError(2, "No such file or directory", "/x"), True),
        (PermissionError(1, "Operation not permitted"), True),
    ],
)
def test_what_the_machine_is_at_fault_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: OSError, traceback: bool
) -> None:
    def command(*_given: object, **_named: object) -> None:
        raise error

    monkeypatch.setattr(cli_app, "app", command)
    with pytest.raises(OSError if traceback else SystemExit) as end:
        cli_app.main()
    if not traceback:
        assert isinstance(end.value, SystemExit) and end.value.code == 1
        assert "hint: " in capsys.readouterr().err


def test_a_machine_without_os_release_or_systemd_is_described(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_given: object, **_named: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("platform.freedesktop_os_release", refuse)
    monkeypatch.setattr("subprocess.run", refuse)
    found = describe_machine()
    assert (found.os, found.virtual) == ("Linux", "unknown") and found.cpus >= 1


@pytest.mark.parametrize("arguments", [("recipes",), ("recipes", "--json"), ("runs", "--json")])
def test_a_reader_that_goes_away_ends_it_quietly(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    read, write = os.pipe()
    os.close(read)
    try:
        done = subprocess.run(
            (sys.executable, "-m", "upshift", *arguments),
            env={**os.environ, "PYTHONPATH": str(CHECKOUT / "src"), "UPSHIFT_CACHE": str(tmp_path)},
            stdout=write,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
        )
    finally:
        os.close(write)
    assert (done.returncode, done.stderr) == (1, "")


@pytest.mark.parametrize(
    ("environment", "is_a_terminal", "redraws"),
    [
        ({"TERM": "xterm"}, True, True),
        ({"TERM": "dumb"}, True, False),
        ({"FORCE_COLOR": "1"}, False, False),
        ({"TERM": "xterm", "FORCE_COLOR": "1"}, True, True),
    ],
)
def test_control_codes_are_for_terminals_that_know_them(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], is_a_terminal: bool, redraws: bool
) -> None:
    class File(io.StringIO):
        def isatty(self) -> bool:
            return is_a_terminal

    shown: Any = File()
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(console, "err", Console(file=shown, width=60, highlight=False))
    ConsoleProgress(1).stage_started("train")
    assert ("\x1b[2K" in shown.getvalue()) is redraws and "train" in shown.getvalue()
