"""How many tests passed, failed and were not run, read from what cargo and pytest print."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_RESULT = re.compile(r"^test result: \S+ (\d+) passed; (\d+) failed; (\d+) ignored")
_RUNNING = re.compile(r"^ +Running .*/([\w-]+)-[0-9a-f]+\)$")
_IGNORED = re.compile(r"^test (\S+) (?:- should panic )?\.\.\. ignored(?:, (.*))?$")
_OUTPUT_OF = re.compile(r"^---- (.+) stdout ----$")
_NOT_RUN = "NOT RUN"
_SKIPPED = re.compile(r"^SKIPPED (.+?)(?: - (?:Skipped: )?(.*))?$")


@dataclass
class Count:
    """What some tests came to."""

    passed: int = 0
    failed: int = 0
    not_run: int = 0
    """Tests that were not run, or in part."""
    why: list[str] = field(default_factory=list)
    """Those tests by name, each with the reason."""

    def add(self, other: Count) -> None:
        self.passed += other.passed
        self.failed += other.failed
        self.not_run += other.not_run
        self.why += other.why

    def closing_line(self) -> str:
        return f"{self.passed} passed, {self.failed} failed, {self.not_run} not run"


class CargoOutput:
    """Reads the lines of one `cargo test -- --show-output`."""

    def __init__(self) -> None:
        self.count = Count()
        self._program = ""
        self._test = ""
        self._hidden = False

    def line(self, text: str) -> bool:
        """Take a line in; whether people want to see it: what passing tests printed is left out."""
        if found := _RUNNING.match(text):
            self._program = f"{found[1]}::"
        elif found := _IGNORED.match(text):
            self._leave_out(found[1], found[2] or "ignored")
        elif found := _OUTPUT_OF.match(text):
            self._test = found[1]
        elif self._hidden and self._test and text.startswith(_NOT_RUN):
            self._leave_out(self._test, text.removeprefix(_NOT_RUN).lstrip(": "))
            self.count.passed -= 1
            self.count.not_run += 1
            self._test = ""  # once is enough
        elif text == "successes:":
            self._hidden = True
        elif text == "failures:":
            self._hidden = False
        elif found := _RESULT.match(text):
            self._test, self._hidden = "", False
            self.count.passed += int(found[1])
            self.count.failed += int(found[2])
            self.count.not_run += int(found[3])
        return not self._hidden

    def _leave_out(self, test: str, why: str) -> None:
        self.count.why.append(f"{self._program}{test}: {why}")


class PytestOutput:
    """Reads the lines of one `pytest -rs --no-fold-skipped`."""

    def __init__(self) -> None:
        self.count = Count()

    def line(self, text: str) -> bool:
        """Take a line in. People want to see each."""
        if found := _SKIPPED.match(text):
            self.count.why.append(f"{found[1]}: {found[2] or 'skipped'}")
        elif re.search(r"\d+ (passed|failed|skipped|errors?)\b.* in \d[\d.]*s", text):
            numbers = {what.rstrip("s"): int(number) for number, what in re.findall(r"(\d+) ([a-z]+)", text)}
            self.count.passed = numbers.get("passed", 0)
            self.count.failed = numbers.get("failed", 0) + numbers.get("error", 0)
            self.count.not_run = numbers.get("skipped", 0)
        return True
