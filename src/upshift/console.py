"""What people see while Upshift works: stderr carries progress, stdout carries results. The one module that prints."""

from __future__ import annotations

import codecs
import json
import os
import sys
import textwrap
import time

from rich.console import Console
from rich.markup import escape

from upshift.run.record import StageRecord, duration

_REDRAW_S = 0.5
_PLAIN_EVERY_S = 30.0

# Without emoji: what stands between two colons is part of a path or a log. Without markup on stdout: what stands in brackets is
# part of a name, as in std::string[abi:cxx11].
out = Console(highlight=False, soft_wrap=True, emoji=False, markup=False)
err = Console(stderr=True, highlight=False, soft_wrap=True, emoji=False)

_quiet = False
_WIDEST, _NARROWEST, _USUAL = 100, 24, 80
"""In columns. COLUMNS may say anything; 0 says that nobody knows."""
for _each in (out, err):
    _each.width = max(_each.width or _USUAL, _NARROWEST)


def quiet(wanted: bool) -> None:
    """From now on show errors and results alone, or progress as well."""
    global _quiet  # noqa: PLW0603  the one state of the terminal
    _quiet = wanted


def say(text: str) -> None:
    """A line of progress or information, on stderr."""
    if not _quiet:
        err.print(escape(text))


def result(text: str) -> None:
    """A line of the result, on stdout, as it is."""
    out.print(text)


def result_json(text: str) -> None:
    """JSON on stdout, which is UTF-8 whatever encoding stdout has: ASCII is a part of both."""
    if not text.isascii() and codecs.lookup(sys.stdout.encoding or "utf-8").name != "utf-8":
        text = json.dumps(json.loads(text), indent=2)
    sys.stdout.write(text + "\n")


def entry(heading: str, *paragraphs: str) -> None:
    """An entry of a list, on stdout: a heading, and below it indented text that is wrapped to the terminal's width."""
    out.print(heading)
    width = min(max(out.width or _USUAL, _NARROWEST), _WIDEST) - 4
    for each in paragraphs:
        # Paths and options stay whole, so that they can be pasted.
        filled = textwrap.fill(each, width, break_long_words=False, break_on_hyphens=False)
        out.print(textwrap.indent(filled, "    "))


def error(message: str, hint: str) -> None:
    """The one form in which errors are shown: ERROR, and what to do."""
    err.print(f"[bold red]ERROR[/] {escape(message)}")
    if hint:
        err.print(f"[dim]hint:[/] {escape(hint)}")


class ConsoleProgress:
    """Shows stage i of n, how far it is and when it ends; redraws one line on a terminal, else writes a line now and then."""

    def __init__(self, stages: int) -> None:
        self._stages = stages
        self._number = 0
        self._name = ""
        self._started = 0.0
        self._shown = 0.0
        self._drawn = False

    def stage_started(self, name: str) -> None:
        self._number += 1
        self._name = name
        self._started = time.monotonic()
        self._shown = 0.0
        self.update(0, 1)

    def update(self, done: float, total: float, detail: str = "") -> None:
        now = time.monotonic()
        redraws = _redraws()
        if now - self._shown < (_REDRAW_S if redraws else _PLAIN_EVERY_S):
            return
        self._shown = now
        if _quiet:
            return
        spent_s = now - self._started
        share = done / total if total else 0.0
        remaining = f", {duration(spent_s / share - spent_s)} to go" if share > 0.02 else ""
        line = f"[{self._number}/{self._stages}] {self._name} {share:4.0%}{remaining}  {detail}"
        if redraws:
            err.file.write(f"\r\x1b[2K{line[: err.width - 1]}")
            err.file.flush()
            self._drawn = True
        else:
            say(line.rstrip())

    def note(self, text: str) -> None:
        self._clear()
        say(f"      {text}")

    def stage_ended(self, record: StageRecord) -> None:
        self._clear()
        how = "kept from an earlier run" if record.cached else f"{duration(record.wall_s)}, {duration(record.cpu_s)} CPU"
        say(f"[{self._number}/{self._stages}] {record.name}: {how}")

    def _clear(self) -> None:
        if self._drawn:
            err.file.write("\r\x1b[2K")
            err.file.flush()
            self._drawn = False


def _redraws() -> bool:
    """Whether stderr understands control codes. FORCE_COLOR makes a terminal of any file, and asks for colours alone."""
    return err.is_interactive and ("FORCE_COLOR" not in os.environ or err.file.isatty())
