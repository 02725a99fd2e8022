"""How many tests passed, failed and were not run, read from what cargo and pytest print."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_RESULT = re.compile(r"^test result: \S+ (\d+) passed; (\d+) failed; (\d+) ignored")
_IGNORED = re.compile(r"^test (\S+) (?:- should panic )?\.\.\. ignored(?:, (.*))?$")
_OUTPUT_OF = re.compile(r"^---- (\S+) stdout ----$")
_NOT_RUN = "NOT RUN"


@dataclass
class Count:
    """What some tests came to."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0
    not_run: list[str] = field(default_factory=list)
    """Tests that were not run, or in part, each with the reason."""

    def add(self, other: Count) -> None:
        self.passed += other.passed
        self.failed += other.failed
        self.skipped += other.skipped
        self.not_run += other.not_run

    def closing_line(self) -> str:
        return f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped"


class CargoOutput:
    """Reads the lines of one `cargo test -- --show-output`."""

    def __init__(self) -> None:
        self.count = Count()
        self._test = ""
        self._hidden = False

    def line(self, text: str) -> bool:
        """Take a line in; whether people want to see it: what passing tests printed is left out."""
        if found := _IGNORED.match(text):
            self.count.not_run.append(f"{found[1]}: {found[2] or 'ignored'}")
        elif found := _OUTPUT_OF.match(text):
            self._test = found[1]
        elif self._hidden and self._test and text.startswith(_NOT_RUN):
            self.count.not_run.append(f"{self._test}: {text.removeprefix(_NOT_RUN).lstrip(': ')}")
            self.count.passed -= 1
            self.count.skipped += 1
            self._test = ""  # once is enough
        elif text == "successes:":
            self._hidden = True
        elif text == "failures:":
            self._hidden = False
        elif found := _RESULT.match(text):
            self._test, self._hidden = "", False
            self.count.passed += int(found[1])
            self.count.failed += int(found[2])
            self.count.skipped += int(found[3])
        return not self._hidden


class PytestOutput:
    """Reads the lines of one pytest."""

    def __init__(self) -> None:
        self.count = Count()
        self.deselected = 0

    def line(self, text: str) -> bool:
        """Take a line in. People want to see each."""
        if re.search(r"\d+ (passed|failed|skipped|errors?|deselected)\b.* in \d[\d.]*s", text):
            numbers = {what.rstrip("s"): int(number) for number, what in re.findall(r"(\d+) ([a-z]+)", text)}
            passed = numbers.get("passed", 0) + numbers.get("xpassed", 0)
            skipped = numbers.get("skipped", 0) + numbers.get("xfailed", 0)
            self.count = Count(passed, numbers.get("failed", 0) + numbers.get("error", 0), skipped)
            self.deselected = numbers.get("deselected", 0)
        return True
