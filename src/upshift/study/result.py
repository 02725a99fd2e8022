"""What a study found, as a value: pages, terminal and JSON draw from it alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from upshift.card.model import Card
from upshift.instructions.model import Instructions
from upshift.machine import Machine
from upshift.measure.model import Experiment, Flag, Load, Metric, Plan, Verdict
from upshift.measure.variance import Component
from upshift.run.record import StageRecord
from upshift.study.attribution import Attribution, Step
from upshift.study.change import Change
from upshift.study.designs import Design
from upshift.study.intervals import LEVEL, Effect
from upshift.values import Value

SCHEMA_VERSION = 1


class StudyRow(Value):
    """A row of the design and the server that stood for it."""

    name: str
    change: Change
    """The base with the row's levels."""
    server: str
    """The executable's path."""
    sha256: str
    flags: tuple[str, ...]
    """What the recipe adds to each compile command."""
    same_as: str | None
    """The row whose server is the same in every byte and setting: it was measured once."""
    died: str | None
    """Why it has no figures."""


class Cell(Value):
    """A row under one load: the metric, and its ratio to all off."""

    row: str
    load: Load
    value: float
    """Geometric mean over trials, in the metric's unit."""
    effect: Effect
    verdict: Verdict


class Crossed(Value):
    """A row under a load that ``own`` alone was trained on: the metric's ratio to that of ``own``."""

    row: str
    own: str
    load: Load
    effect: Effect
    verdict: Verdict


class LoadEffects(Value):
    """What the factors do under one load."""

    load: Load
    effects: Attribution


class StudyResult(Value):
    """Everything that a study's report shows."""

    schema_version: int = SCHEMA_VERSION
    kind: Literal["study"] = "study"
    run: str
    study: str
    description: str
    started_at: str
    """ISO 8601, UTC."""
    command: str
    upshift_version: str
    machine: Machine
    card: Card | None = None
    """What the machine costs a server; None: it was not measured."""
    stages: tuple[StageRecord, ...]
    design: Design
    metric: Metric
    settings: Mapping[str, str] = {}
    """All that the base's server runs with; a row's change comes on top."""
    rows: tuple[StudyRow, ...]
    loads: tuple[Load, ...]
    transactions: tuple[str, ...] = ()
    """Workloads of which transactions are counted in place of queries."""
    trials: int
    trainings: int
    layouts: int = 1
    plan: Plan
    """How each trial was measured."""
    cells: tuple[Cell, ...]
    cells_confidence: float
    """Of the cells' intervals."""
    crossed: tuple[Crossed, ...] = ()
    """Trained on one workload and run on another, the greatest loss first; empty where no factor says what is trained on."""
    crossed_confidence: float = 1 - LEVEL
    """Of their intervals."""
    effects: Attribution
    """Over all loads that are not held out."""
    by_load: tuple[LoadEffects, ...]
    """All loads' factors have one confidence."""
    instructions: Instructions | None = None
    """What each measured row's server executes for a query."""
    by_instructions: Attribution | None = None
    """What the factors do to that, over the workloads that are not held out."""
    steps: tuple[Step, ...]
    """A grid's: what each group of factors does wherever two rows differ in it alone, over all loads."""
    variance: tuple[Component, ...]
    """Of a single block's logarithm, by source."""
    recommended: tuple[str, ...]
    """What to switch on; empty: nothing helps."""
    recommended_file: str
    """The recipe, or the variant, that has it; empty without one."""
    confirmed: Experiment | None
    """The recommended set against all off, in trials of their own: the one gain to publish."""
    slowed_share: float | None = None
    """As an experiment's, over all that was measured but what confirms."""
    flags: tuple[Flag, ...]
    warnings: tuple[str, ...]
