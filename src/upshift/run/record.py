"""What one stage took."""

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
