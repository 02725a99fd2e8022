"""What is asked of a proof, and its result."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import field_validator

from upshift.server.kind import one_spelling
from upshift.values import Value

SCHEMA_VERSION = 2

PartName = Literal["mix", "tests", "random", "storm", "crash", "mtr"]
Verdict = Literal["equal", "different"]
Mode = Literal["on", "off", "ps-on", "ps-off"]
"""How a suite of MySQL's tests runs: all switches ON or OFF, and with --ps-protocol."""
MODES: tuple[Mode, ...] = ("on", "off", "ps-on", "ps-off")


class Asked(Value):
    """What is run, and on which servers."""

    stock: Path
    patched: Path
    settings: Mapping[str, str] = {}
    """Of both servers; a variable that only the patched one has is its alone."""
    statements: int = 1_000_000
    """Random statements to each server; 0: none."""
    seed: int = 1
    minutes: float = 5.0
    """Of the disturbed load; 0: none, and no crash."""
    allow: Path | None = None
    """A file of the differences that patches make on purpose."""
    statements_of: tuple[str, ...] = ()
    """Suites of MySQL's own tests whose statements are sent to both servers."""
    suites: tuple[str, ...] = ()
    """Of MySQL's own tests: names of suites, or tests with commas between them."""
    modes: tuple[Mode, ...] = MODES
    """How each of them runs."""
    source: Path | None = None
    """The source whose tests those are; None: the one that stock was built from."""

    @field_validator("settings")
    @classmethod
    def _one_spelling(cls, settings: Mapping[str, str]) -> Mapping[str, str]:
        return one_spelling(settings)


class Part(Value):
    """One part of the proof."""

    name: PartName
    statements: int
    """Sent to each server; of storm those whose answers were checked; of mtr, tests that ran."""
    wall_s: float
    wrong: tuple[str, ...]
    """What differs or cannot be, each with its script; empty: nothing."""
    unsteady: tuple[str, ...] = ()
    """Differences that did not come again, or that stock has with itself: no fault of the patch is shown by them."""
    silent: tuple[str, ...] = ()
    """Requests that stock did not answer either, or that were answered late while stock was late, too."""
    short_paths: Mapping[str, int] = {}
    """How often the part took each patch's short path, by its counter; of crash and mtr nobody knows."""
    failed_on_both: tuple[str, ...] = ()
    """Of mtr: tests that fail on stock, too."""
    differ_on_purpose: tuple[str, ...] = ()
    """Of mtr: tests that fail on the patched server alone, and that the list of allowed differences names."""
    detail: Mapping[str, Any]
    """All that the program said."""


class Proof(Value):
    """The result."""

    schema_version: int = SCHEMA_VERSION
    asked: Asked
    switches: Mapping[str, str]
    """Variables of the series that the patched server has and stock has not, as they stood."""
    parts: tuple[Part, ...]
    verdict: Verdict
    """Of the parts that there are."""
    complete: bool = True
    """False: parts are still to come, or were when the proof was interrupted."""

    @property
    def untaken(self) -> tuple[str, ...]:
        """Counters of short paths that no part took, so that nothing is proven of them."""
        taken: dict[str, int] = {}
        for part in self.parts:
            for name, count in part.short_paths.items():
                taken[name] = taken.get(name, 0) + count
        return tuple(sorted(name for name, count in taken.items() if not count))
