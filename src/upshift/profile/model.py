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
    """What a profile was made from and trained on."""

    source_sha256: str
    compiler: str
    flags: tuple[str, ...]
    workloads: tuple[str, ...]
    """Their names; of the server's own tests what ``Recipe.trained_by`` says."""


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


class Gated(Value):
    """A profile that passed the gate."""

    profile: Profile
    notes: tuple[str, ...]
    """What the gate found."""
