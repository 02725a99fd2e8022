"""Profiles and hot sets, always with where they came from."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from upshift.values import Value


class HotObject(Value):
    """An object file and its share of what was executed."""

    path: str
    """Relative to the build folder, as ninja names it."""
    share: float


class HotFunction(Value):
    symbol: str
    share: float


class HotSet(Value):
    """The objects that the workload really executes, hottest first."""

    method: Literal["perf", "bolt", "all"]
    objects: tuple[HotObject, ...]
    coverage: float
    """Share of samples or executed branches that these objects hold."""
    all_objects: int
    """Objects in the whole server."""
    samples: int
    functions: tuple[HotFunction, ...]
    """The hottest functions, to 95 % of samples: those that a profile must know."""


class Provenance(Value):
    """What a profile was trained on: two profiles may stand in for each other only when all of this is the same."""

    source_sha256: str
    compiler: str
    flags: tuple[str, ...]
    workloads: tuple[str, ...]


class Profile(Value):
    """What a training run left, merged into one file."""

    kind: Literal["ir", "gcc"]
    path: Path
    """A .profdata or .fdata file named by its content; for GCC the folder with the counters."""
    sha256: str
    provenance: Provenance
    duration_s: float
    queries: int | None
    """Statements that the server executed while training; None when its own tests trained it."""
    corrupt: int = 0
    """Raw profiles or counters that the merge had to leave out or mend."""


class Quality(Value):
    """What the profile gate found."""

    functions: int
    """Functions in the profile."""
    executed: int
    """Functions with a count."""
    hot_functions: int
    """Functions that hold 95 % of samples."""
    hot_with_counts: int
    corrupt: int
    notes: tuple[str, ...]
