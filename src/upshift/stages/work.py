"""What the pipeline is told, and what training hands on."""

from __future__ import annotations

from pathlib import Path

from upshift.build.model import Build
from upshift.build.recipe import Recipe
from upshift.measure.model import Plan
from upshift.options import Options
from upshift.patches.model import Patch
from upshift.profile.model import Gated, HotSet
from upshift.source.model import Source
from upshift.stages.data import Filled
from upshift.toolchain.model import Toolchain
from upshift.values import Value
from upshift.workload.model import Workload


class Measuring(Value):
    """What servers are loaded with, and how that is measured."""

    options: Options
    train_on: tuple[Workload, ...]
    hold_out: tuple[Workload, ...]
    plan: Plan

    @property
    def counted(self) -> tuple[str, ...]:
        """The workloads that are trained on and have a command whose instructions are counted."""
        return tuple(each.name for each in self.train_on if each.fixed is not None)


class Work(Measuring):
    """Everything that the pipeline is told, resolved: files read, tools found."""

    source_identity: str
    patches: tuple[Patch, ...] = ()
    """Those of the recipe, with all that they need, in their order."""
    plain: Recipe
    recipe: Recipe
    toolchain: Toolchain
    perf: bool
    """Whether perf can sample here."""
    training: int = 1
    """Which of several trainings: each leads to a profile of its own."""
    layout: int = 1
    """Which of several layouts of the same code."""
    hot_set_of: tuple[Workload, ...] = ()
    """Those that find the hot set, trained on or held out; empty: those that train."""

    @property
    def relocations(self) -> bool:
        """Whether BOLT reads a server that is built: to lay it out, or to find the hot set in place of perf."""
        return self.recipe.post_link == "bolt" or (self.recipe.scope == "hot" and not self.perf)


class Stock(Value):
    """A source and its plain build."""

    source: Source
    plain: Build


class Ground(Stock):
    """What all other servers are made from: a plain build, with its patches, and data that it can serve."""

    stock: Stock
    """The same without patches."""
    data: Filled


class Trained(Ground):
    """What training led to: a hot set of the plain build, and a profile that passed the gate."""

    hot_set: HotSet
    gated: Gated
    parsed: Path | None
    """The bitcode of the hot set, which the optimised build is compiled from; None: there is none."""
