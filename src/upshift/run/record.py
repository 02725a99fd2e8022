"""What one stage took."""

from __future__ import annotations

from upshift.values import Value


class StageRecord(Value):
    """What one stage took. For a cached stage the figures are those of the run that did the work."""

    name: str
    wall_s: float
    cpu_s: float
    peak_memory_bytes: int
    cached: bool
