"""``result.json``: what a run found, for machines. The HTML and terminal reports draw from it and from nothing else."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import computed_field, model_validator

from upshift.card.model import Card
from upshift.check.model import Checked
from upshift.explain.model import Explanation
from upshift.instructions.model import Instructions
from upshift.machine import Machine
from upshift.measure.model import Comparison, Experiment
from upshift.run.record import StageRecord
from upshift.source.model import Source
from upshift.values import Value

SCHEMA_VERSION = 3


class BuildSummary(Value):
    """One server that was built, for the report's table."""

    name: str
    compiler: str
    flags: tuple[str, ...]
    recipe: str
    scope: Literal["all", "hot", "touched", "none"]
    """What was compiled for it; ``touched``: what patches touch."""
    objects: int
    """Objects compiled for it."""
    profile: str
    """Kind and short hash of the profile; empty without one."""
    post_link: str
    """``bolt 22.1.8``; empty without."""
    binary_bytes: int
    text_bytes: int


class HotSetSummary(Value):
    method: str
    objects: int
    all_objects: int
    coverage: float
    top: tuple[tuple[str, float], ...]
    """The hottest objects with their shares."""


class VerifySummary(Value):
    tests_run: int
    tests_passed: int
    failed_on_both: tuple[str, ...] = ()
    """Tests that fail on the plain server as well: no fault of the optimised one."""
    passed_again: tuple[str, ...] = ()
    """Tests that failed in the suite and passed when the optimised server ran them again."""
    suite: str
    nesting: tuple[tuple[str, int, int], ...] = ()
    """(shape of an expression, levels that the plain server takes at its default stack, the optimised one)."""
    hardening: tuple[tuple[str, str, str], ...]
    """(property, plain, optimised)."""


class Result(Value):
    """Everything a report shows."""

    schema_version: int = SCHEMA_VERSION
    run: str
    """The run's name, which is its folder's name."""
    started_at: str
    """ISO 8601, UTC."""
    command: str
    upshift_version: str
    level: str
    machine: Machine
    card: Card | None = None
    """What the machine costs a server; None when it was not measured."""
    check: Checked | None = None
    """What is wrong with the configuration of the server in use; None in results of earlier versions and of other commands."""
    source: Source
    stages: tuple[StageRecord, ...]
    builds: tuple[BuildSummary, ...]
    hot_set: HotSetSummary | None
    profile_notes: tuple[str, ...]
    """What the profile gate found: functions matched, corrupt counters, ..."""
    verify: VerifySummary | None
    experiment: Experiment
    instructions: Instructions | None = None
    """None in results of earlier versions."""
    explanation: Explanation | None = None
    """Why the optimised server is faster, or not; None when it was not asked for, or could not be found."""
    warnings: tuple[str, ...]
    """What went on without: BOLT failed, a precompiled header fell back, ..."""
    package: str

    @computed_field  # type: ignore[prop-decorator]
    @property
    def comparisons(self) -> tuple[Comparison, ...]:
        """The experiment's comparisons, at the top level of the JSON for those who read nothing else."""
        return self.experiment.comparisons

    @model_validator(mode="before")
    @classmethod
    def _without_computed(cls, given: Any) -> Any:
        return {name: value for name, value in given.items() if name != "comparisons"} if isinstance(given, dict) else given
