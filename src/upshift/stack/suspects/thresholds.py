"""Where each rule begins to speak: one table of named values, which ``--threshold NAME=VALUE`` overrides."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Mapping

from upshift.errors import UsageError
from upshift.values import Value


class Threshold(Value):
    """One value of the table."""

    value: float
    meaning: str
    """What it is compared with."""
    why: str
    """Why it has this value."""


def _at(value: float, meaning: str, why: str) -> Threshold:
    return Threshold(value=value, meaning=meaning, why=why)


THRESHOLDS: Mapping[str, Threshold] = {
    "report.share": _at(
        0.03,
        "the least share that a finding has",
        "less is within what a server's speed differs from one start to the next",
    ),
}


class Thresholds(Value):
    """The table with what a user changed."""

    changed: Mapping[str, float] = {}

    def __getitem__(self, name: str) -> float:
        return self.changed[name] if name in self.changed else THRESHOLDS[name].value


def read_thresholds(given: Iterable[str]) -> Thresholds:
    """From ``NAME=VALUE`` each. Raises UsageError for a name that the table lacks, and for what is no number of 0 or more."""
    changed = {}
    for each in given:
        name, _, text = each.partition("=")
        if name not in THRESHOLDS:
            near = difflib.get_close_matches(name, THRESHOLDS, n=3) or sorted(THRESHOLDS)
            raise UsageError(f"there is no threshold {name!r}", f"as {', '.join(near)}; the reference lists all")
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not (math.isfinite(value) and value >= 0):
            raise UsageError(f"--threshold {each}: {text!r} is no number of 0 or more", f"as {name}={THRESHOLDS[name].value:g}")
        changed[name] = value
    return Thresholds(changed=changed)
