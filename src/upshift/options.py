"""What a user asked for, parsed once at the edge."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from upshift.toolchain.model import Family
from upshift.values import Value

Level = Literal["quick", "full"]


class Options(Value):
    """The options of ``upshift optimize``; a run keeps them in its manifest, and ``--resume`` takes them from there."""

    source: str | None = None
    level: Level = "full"
    toolchain: Family = "clang"
    scope: Literal["hot", "all"] | None = None
    """None: what the recipe says."""
    recipe: str | None = None
    """None: the level's and the toolchain's own."""
    workloads: tuple[str, ...] = ("oltp_read_write", "oltp_read_only", "oltp_point_select")
    held_out: tuple[str, ...] = ("oltp_write_only", "select_random_ranges")
    baseline: Path | None = None
    verify: str = "short"
    plugins: bool = False
    threads: tuple[int, ...] = (1, 8)
    trials: int = 6
    rounds: int = 1
    slice_s: float = 2.2
    """With its lead-in and its end a load of three seconds: drivers take whole ones."""
    warmup_s: float = 4.0
    train_s: float = 20.0
    sample_s: float = 12.0
    jobs: int = 0
    """0: one for each CPU."""
