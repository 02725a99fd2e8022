"""Progress as people see it: one line redrawn on a terminal, a line now and then elsewhere; results on stdout alone."""

from __future__ import annotations

import io

import pytest
from fakes import FakeClock
from rich.console import Console
from rich.table import Table

from upshift import console
from upshift.console import ConsoleProgress
from upshift.run.record import StageRecord, duration


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> FakeClock:
    made = FakeClock()
    made.now_s = 1000.0
    monkeypatch.setattr(console, "time", made)
    return made


def screen(monkeypatch: pytest.MonkeyPatch, *, terminal: bool) -> io.StringIO:
    file = io.StringIO()
    monkeypatch.setattr(console, "err", Console(file=file, force_terminal=terminal, width=60, highlight=False, soft_wrap=True))
    return file


def record(name: str, *, cached: bool = False) -> StageRecord:
    return StageRecord(name=name, wall_s=754, cpu_s=1320, peak_memory_bytes=1, cached=cached)


def test_off_a_terminal_a_line_now_and_then_and_no_control_codes(monkeypatch: pytest.MonkeyPatch, clock: FakeClock) -> None:
    shown = screen(monkeypatch, terminal=False)
    progress = ConsoleProgress(2)
    progress.stage_started("plain build")
    for step in range(1, 101):
        clock.sleep(1)
        progress.update(step, 200, f"file-{step}.cc")
    progress.note("a choice that was made")
    progress.stage_ended(record("plain build"))
    progress.stage_started("train")
    progress.stage_ended(record("train", cached=True))
    text = shown.getvalue()
    assert "\x1b" not in text and "\r" not in text
    assert [line.split("  ")[-1] for line in text.splitlines() if "file-" in line] == ["file-30.cc", "file-60.cc", "file-90.cc"]
    assert "[1/2] plain build  30%, 2 min 20 s to go  file-60.cc" in text
    assert "[1/2] plain build: 12 min 34 s, 22 min 00 s CPU" in text
    assert "[2/2] train: kept from an earlier run" in text


def test_on_a_terminal_one_line_is_redrawn_within_its_width(monkeypatch: pytest.MonkeyPatch, clock: FakeClock) -> None:
    shown = screen(monkeypatch, terminal=True)
    progress = ConsoleProgress(1)
    progress.stage_started("train")
    clock.sleep(0.1)
    progress.update(1, 10, "too soon")
    clock.sleep(1)
    progress.update(5, 10, "x" * 200)
    assert "too soon" not in shown.getvalue() and "\n" not in shown.getvalue()
    assert max(len(part) for part in shown.getvalue().split("\r\x1b[2K")) < 60
    progress.note("kept")
    assert shown.getvalue().endswith("\r\x1b[2K      kept\n")


def test_a_total_of_nothing_is_no_error(monkeypatch: pytest.MonkeyPatch, clock: FakeClock) -> None:
    shown = screen(monkeypatch, terminal=False)
    ConsoleProgress(1).stage_started("empty")
    progress = ConsoleProgress(1)
    progress.update(0, 0)
    assert "0%" in shown.getvalue()


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.04, "0.0 s"),
        (9.96, "10.0 s"),
        (12.4, "12 s"),
        (59.6, "1 min 00 s"),
        (61, "1 min 01 s"),
        (3599.7, "1 h 00 min"),
        (7384, "2 h 03 min"),
    ],
)
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_results_are_on_stdout_and_all_else_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    console.say("about [it]")
    console.result("/path/[to]/server")
    console.result_json('{"a": "[b]"}')
    console.error("[failed]", "")
    captured = capsys.readouterr()
    assert captured.out == '/path/[to]/server\n{"a": "[b]"}\n'
    assert captured.err == "about [it]\nERROR [failed]\n"


def test_what_stands_between_colons_stays_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    console.result("a.c:cd:[b]")
    console.say("a.c:cd:[b]")
    console.entry("a.c:cd:[b]", "a.c:cd:[b]")
    captured = capsys.readouterr()
    assert captured.out == "a.c:cd:[b]\na.c:cd:[b]\n    a.c:cd:[b]\n"
    assert captured.err == "a.c:cd:[b]\n"


def test_brackets_in_a_results_tables_are_parts_of_names(monkeypatch: pytest.MonkeyPatch) -> None:
    file = io.StringIO()
    monkeypatch.setattr(console.out, "_file", file)
    table = Table("function", title="[/mix]")
    table.add_row("std::string[abi:cxx11]")
    console.out.print(table)
    assert "[/mix]" in file.getvalue() and "std::string[abi:cxx11]" in file.getvalue()
