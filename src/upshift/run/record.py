"""What one stage took, and such times in words."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from upshift.values import Value, is_empty


class StageRecord(Value):
    """What one stage took. For a cached stage the figures are those of the run that did the work."""

    name: str
    wall_s: float
    cpu_s: float
    peak_memory_bytes: int
    cached: bool
    folder: Annotated[str, Field(exclude_if=is_empty)] = ""
    """Of its result, which tells stages of one name apart; empty in a record of an earlier Upshift."""


def duration(seconds: float) -> str:
    """``2.4 s``, ``12 s``, ``1 min 01 s``, ``2 h 03 min``"""
    whole = round(seconds)
    if whole < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
