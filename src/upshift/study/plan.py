"""From a study to what it will do: rows with their servers, builds, groups, trials, time, and the width to expect.

What can be refused is refused here, before any work.
"""

from __future__ import annotations

import itertools
import math
import operator
import os
from collections.abc import Iterable, Mapping
from typing import Annotated

from pydantic import Field, ValidationError

from upshift.build.recipe import Recipe, find_recipe
from upshift.control_groups import memory_available_bytes
from upshift.errors import MissingTool, RecipeError, UsageError
from upshift.limits import MOST_TRIALS
from upshift.measure.duet import ARMS as DUET_ARMS
from upshift.measure.duration import trial_s
from upshift.measure.model import Plan
from upshift.measure.noise import CALM, Noise, blocks
from upshift.measure.placement import Seat
from upshift.measure.schedule import loads_of
from upshift.measure.statistics import TYPICAL_TURNS
from upshift.measure.tier import refuse_shared_tiers
from upshift.measure.variant import Surroundings, Variant, refuse_impossible
from upshift.patches.choose import refuse_switches, resolved
from upshift.server.kind import Program, ServerKind
from upshift.server.kinds import default_kind, find_program, kind_of
from upshift.server.preload import refuse_ignored
from upshift.shell import SystemShell
from upshift.study.change import Change, grown
from upshift.study.contrasts import with_level
from upshift.study.dealing import deal
from upshift.study.designs import Design, Row, make_design
from upshift.study.file import Study
from upshift.study.power import half_width
from upshift.toolchain.model import Toolchain
from upshift.values import Value, content_hash, describe_invalid, is_empty
from upshift.workload.model import Workload

LEAST_TRIALS = 3
"""Fewer give intervals that no effect leaves."""
_SERVER_BYTES = 700_000_000
"""What a server takes beside its buffer pool and its tier."""
_SMALL_SERVER_BYTES = 200_000_000
_LAYING_OUT = 20
"""The first LLVM whose lld has --randomize-section-padding."""
_KEPT_FREE = 0.25
"""Of the free memory, for the page cache, the load and what else runs."""


class Arm(Value):
    """A row and how its server is come by."""

    name: str
    row: Row
    change: Change
    recipe: Recipe | None
    """None: the change names a binary."""

    @property
    def build(self) -> str:
        """What tells one build from another; rows with the same one share it. Empty for a binary."""
        if self.recipe is None:
            return ""
        change = self.change
        return content_hash(
            {"recipe": self.recipe.anonymous(), "trained_on": change.trained_on, "hot_set_of": change.hot_set_of}
        )

    @property
    def trained(self) -> bool:
        """Whether workloads shaped the server: by its profile, its hot set, or BOLT."""
        return self.bolt_alone or (self.recipe is not None and (self.recipe.profile != "none" or self.recipe.scope == "hot"))

    @property
    def bolt_alone(self) -> bool:
        """Whether BOLT's training is its only one: no training before it makes the next server another one."""
        return self.recipe is not None and self.recipe.profile == "none" and self.recipe.post_link == "bolt"


class StudyPlan(Value):
    """What a study will do."""

    design: Design
    arms: tuple[Arm, ...]
    """One for each row, the first is what the others are compared with."""
    trials: int
    confirm_trials: int
    """0: nothing is confirmed."""
    arms_at_once: int
    """Servers that run side by side: as many as free memory holds, or the two of a duet."""
    duet: Annotated[tuple[Seat, ...], Field(exclude_if=is_empty)] = ()
    """The CPUs that the two have in turn; empty: servers take turns."""
    loads: int
    wall_s: float
    """Measuring, with what confirms; without builds."""
    half_width: float
    """Of the widest factor's interval to expect at ``connections`` and workloads together, as a logarithm."""
    noise: Noise = CALM
    """What that follows from."""

    @property
    def built(self) -> tuple[Arm, ...]:
        """The first arm of each build."""
        found = {arm.build: arm for arm in reversed(self.arms) if arm.recipe}
        return tuple(reversed(found.values()))

    def like(self, arm: Arm) -> tuple[Arm, ...]:
        """Those built before ``arm`` that may have its server: their rows differ in one factor, which adds flags of clang that
        a profile of the hot set is used with.
        """
        before = itertools.takewhile(lambda each: each.build != arm.build, self.built)
        return tuple(each for each in before if _may_be_alike(each, arm))

    def groups(self, names: Iterable[str]) -> tuple[tuple[str, ...], ...]:
        """Which of these arms run side by side, the first in each group."""
        wanted = set(names)
        return deal([(arm.name, arm.row) for arm in self.arms if arm.name in wanted], self.arms_at_once)


def make_plan(study: Study, kind: ServerKind, plan: Plan, settings: Mapping[str, str], noise: Noise = CALM) -> StudyPlan:
    """What ``study`` will do on this machine; ``kind`` is what recipes build, ``plan`` says how a trial is measured,
    ``settings`` are the workloads', ``noise`` is what to expect.

    Raises UsageError for a design too large for its budget, an unknown factor, one that changes nothing and a variant that is
    impossible; RecipeError for one that cannot be built.
    """
    if study.metric == "typical_cpu_us_per_query" and plan.rounds < TYPICAL_TURNS:
        raise UsageError(
            f'metric = "{study.metric}" is the median of {TYPICAL_TURNS} turns or more of each server in a trial, '
            f"and trials here have {plan.rounds}",
            "give rounds = 4 or more",
        )
    design = make_design(study.design, study.listed_factors(), study.listed_rows())
    arms = arms_of(study, design)
    _refuse_idle_factors(study, design)
    refuse_impossible_rows(arms, kind)
    if study.trainings > 1 and not any(arm.recipe and arm.recipe.profile != "none" for arm in arms):
        raise UsageError("trainings: no row's recipe has a profile", "leave trainings out")
    if study.layouts > 1:
        _refuse_one_layout(arms)
    if plan.duet:
        _refuse_own_cpus(arms)
    times = study.times_built
    if study.trials and study.trials < times:
        raise UsageError(
            f"each row has {times} servers ({study.trainings} trainings, {study.layouts} layouts of each), which share "
            f"{study.trials} trials",
            "give each of them a trial at least",
        )
    loads = loads_of(study.workloads, study.held_out, study.connections)
    at_once = min(len(arms), DUET_ARMS if plan.duet else _arms_at_once(arms, kind, settings))
    groups = deal([(arm.name, arm.row) for arm in arms], at_once)
    round_s = sum(trial_s(plan, len(group), loads) for group in groups)
    screening_s = study.budget * (1 - study.confirm)
    trials = study.trials or min(MOST_TRIALS, int(screening_s / round_s))
    trials -= trials % times if trials >= times else 0
    # Each of a row's servers has as many trials as the others.
    fewest = times * math.ceil(LEAST_TRIALS / times)
    least = study.trials - study.trials % times if study.trials else fewest
    if trials * round_s > screening_s + 1 or trials < min(least, fewest):
        raise _too_large(study, design, trials=max(least, trials), round_s=round_s)
    two_s = trial_s(plan, 2, loads)
    confirm_trials = min(MOST_TRIALS, int(study.budget * study.confirm / two_s)) if study.confirm else 0
    if study.confirm and confirm_trials < LEAST_TRIALS:
        raise UsageError(
            f"the share that confirms, {study.confirm:.0%} of the budget, holds {confirm_trials} trials of "
            f"{two_s:.0f} s, and {LEAST_TRIALS} are the least",
            "give a larger budget, fewer loads, or confirm = 0 to publish nothing",
        )
    pooled = len(study.workloads) * len(study.connections)
    return StudyPlan(
        design=design,
        arms=arms,
        trials=trials,
        confirm_trials=confirm_trials,
        arms_at_once=at_once,
        duet=plan.duet,
        loads=len(loads),
        wall_s=trials * round_s + confirm_trials * two_s,
        half_width=half_width(
            design,
            trials,
            start_log_sd=noise.start_log_sd,
            pair_log_sd=noise.pair_log_sd,
            blocks=blocks(plan) * pooled,
            replicates=study.replicates,
            groups=groups,
        ),
        noise=noise,
    )


def refuse_impossible_rows(arms: Iterable[Arm], kind: ServerKind) -> None:
    """Raises UsageError or NotEnoughRoom for a row that this machine cannot run now; ``kind`` is what recipes build."""
    arms = tuple(arms)
    for arm in arms:
        _refuse_impossible(arm, _kind(arm, kind))
    refuse_shared_tiers((f"row '{arm.name}'", arm.change.tier) for arm in arms)


def refuse_missing_libraries(plan: StudyPlan) -> None:
    """Raises UsageError for a preloaded library that cannot be loaded, as ``refuse_ignored``."""
    shell = SystemShell()
    try:
        for arm in plan.arms:
            refuse_ignored(shell, f"row '{arm.name}'", arm.change.environment)
    finally:
        shell.close()


def refuse_missing_latency(study: Study, workloads: Iterable[Workload]) -> None:
    """Raises UsageError when the study judges by latencies, and the driver of one of these workloads reports none."""
    for each in workloads if study.metric == "latency_ms_p99" else ():
        if each.load.latency == "none":
            raise UsageError(
                f"metric = \"{study.metric}\": the driver of workload '{each.name}' reports no latencies",
                "choose another metric, or say in the workload's file how its driver reports them",
            )


def recipe_of(change: Change, name: str) -> Recipe | None:
    """The recipe with the change's own keys; None for a binary. Raises RecipeError."""
    if change.recipe is None:
        return None
    recipe = find_recipe(change.recipe)
    given = grown({"patches": [], **recipe.model_dump(mode="json")}, change.build)
    try:
        return resolved(default_kind(), Recipe.model_validate({**given, "name": name}))
    except ValidationError as error:
        raise RecipeError(
            f"the recipe of row '{name}' is impossible: {describe_invalid(error)}", "docs/reference/recipes.md lists the keys"
        ) from error


def arms_of(study: Study, design: Design) -> tuple[Arm, ...]:
    """The arm of each row, by what the study and the files that it names say now."""
    return tuple(_arm(study, design, row) for row in design.rows)


def arm_of(study: Study, plan: StudyPlan, row: Row | None) -> Arm | None:
    """The arm of any row, also of one that the design does not have; None for none."""
    if row is None:
        return None
    # A recipe's file may have changed since the row was measured.
    planned = next((arm for arm in plan.arms if arm.row == row), None)
    return planned or _arm(study, plan.design, row)


def refuse_without_layouts(arm: Arm, toolchain: Toolchain) -> None:
    """Raises MissingTool when the tools that there are give an arm's server one layout only."""
    if arm.recipe and arm.recipe.post_link == "bolt":
        if toolchain.bolt is None:
            raise MissingTool(
                f"layouts: BOLT lays out row '{arm.name}', and there is none beside {toolchain.cc}",
                "`upshift doctor` names its package; or leave layouts out",
            )
    elif toolchain.family == "clang" and toolchain.major < _LAYING_OUT:
        raise MissingTool(
            f"layouts: row '{arm.name}' is linked by lld {toolchain.version}, which cannot vary the layout",
            f"lld {_LAYING_OUT} can: install a newer clang with its lld, or leave layouts out",
        )


def variant_of(arm: Arm, program: Program) -> Variant:
    """What is measured of an arm: the program that was built for it, or that it names, with all that surrounds it."""
    surroundings = {name: getattr(arm.change, name) for name in Surroundings.model_fields}
    return Variant(name=arm.name, program=program, **surroundings)


def _arm(study: Study, design: Design, row: Row) -> Arm:
    change, name = study.change(row), design.name(row)
    if change.server and change.binary is None:
        change = change.model_copy(update={"binary": find_program(None, change.server).binary})
    lost = [factor for factor, level in study.levels(row) if level.needs_a_recipe] if change.recipe is None else []
    if lost:
        raise UsageError(
            f"row '{name}' is an executable that nothing builds, and factor '{lost[0]}' says how one is built",
            'choose design = "grid" and list the rows without this one, or measure the two factors in studies of their own',
        )
    arm = Arm(name=name, row=row, change=change, recipe=recipe_of(change, name))
    if arm.recipe and change.trained_on and not arm.trained:
        raise UsageError(
            f"row '{name}' has trained_on, and its recipe trains nothing",
            "leave trained_on out, or name another recipe",
        )
    if arm.recipe and change.hot_set_of and arm.recipe.scope != "hot":
        raise UsageError(
            f"row '{name}' has hot_set_of, and its recipe compiles the whole server",
            'leave hot_set_of out, or name a recipe with scope = "hot"',
        )
    return arm


def _may_be_alike(arm: Arm, other: Arm) -> bool:
    one, two = arm.recipe, other.recipe
    if one is None or two is None or sum(map(operator.ne, arm.row, other.row)) != 1:
        return False
    trained = one.toolchain == "clang" and one.scope == "hot" and one.profile != "none"
    change = ("trained_on", "hot_set_of")
    same = all(getattr(arm.change, name) == getattr(other.change, name) for name in change)
    return trained and same and one.without_flags() == two.without_flags()


def _kind(arm: Arm, built: ServerKind) -> ServerKind:
    return built if arm.recipe else kind_of(find_program(arm.change.binary, arm.change.server))


def _refuse_idle_factors(study: Study, design: Design) -> None:
    """A level that no row has, or differs by from off or from another level of its factor, is a mistake in the file."""
    for number, factor in enumerate(design.factors):
        for level, name in enumerate(factor.levels[1:], 1):
            rows = [row for row in design.rows if row[number] == level]
            if not rows:
                alone = design.name(with_level(design.rows[0], number, level))
                raise UsageError(f"no row has {alone} on, so nothing would be said of it", "list it in rows, or leave it out")
            for other, same in enumerate(factor.levels[:level]):
                if not any(_differ(study, row, with_level(row, number, other)) for row in rows):
                    raise UsageError(
                        f"factor '{factor.name}' changes nothing: its level '{name}' is the same as '{same}'",
                        "leave the factor out, or change what the level says",
                    )


def _differ(study: Study, row: Row, other: Row) -> bool:
    try:
        return _told(study.change(row)) != _told(study.change(other))
    except RecipeError:  # of the other, which need not be a row of the design
        return True


def _told(change: Change) -> tuple[Change, Recipe | None]:
    """What a change comes to, whatever way it is written."""
    recipe = recipe_of(change, "")
    return change.model_copy(update={"recipe": None, "build": {}}), recipe.anonymous() if recipe else None


def _refuse_one_layout(arms: tuple[Arm, ...]) -> None:
    """Raises UsageError when a row's server has one layout only, whatever is installed."""
    for arm in arms:
        if arm.recipe is None:
            raise UsageError(
                f"layouts: row '{arm.name}' is an executable that nothing builds",
                "name a recipe: its server is linked again for each layout",
            )
        if arm.recipe.toolchain == "gcc" and arm.recipe.post_link == "none":
            raise UsageError(
                f"layouts: row '{arm.name}' is linked by GNU ld, which cannot vary the layout",
                "lld can: choose a recipe with clang, or leave layouts out",
            )


def _refuse_own_cpus(arms: tuple[Arm, ...]) -> None:
    """Raises UsageError when a row names its CPUs: in a duet each row swaps them with the first one."""
    for arm in arms:
        if arm.change.server_cpus or arm.change.client_cpus:
            raise UsageError(
                f"row '{arm.name}' names its CPUs, and a duet swaps the CPUs of its servers", "leave one of them out"
            )


def _refuse_impossible(arm: Arm, kind: ServerKind) -> None:
    """Raises UsageError or NotEnoughRoom for a variant that this machine cannot run."""
    change = arm.change
    if change.binary and not (os.access(change.binary, os.X_OK) and change.binary.is_file()):
        raise UsageError(f"row '{arm.name}': {change.binary} is not an executable", "name the server's binary, such as mysqld")
    server = change.binary or (arm.recipe.patches if arm.recipe else ())
    refuse_switches(kind, f"row '{arm.name}'", change.settings, server)
    refuse_impossible(f"row '{arm.name}'", change, kind)


def _arms_at_once(arms: tuple[Arm, ...], kind: ServerKind, settings: Mapping[str, str]) -> int:
    def needed_bytes(arm: Arm) -> int:
        each = _kind(arm, kind)
        pool = each.pool_bytes({**each.settings(), **settings, **arm.change.settings})
        tier = arm.change.tier.memory_bytes if arm.change.tier else 0
        return tier + (_SMALL_SERVER_BYTES if pool is None else pool + _SERVER_BYTES)

    most = max(needed_bytes(arm) for arm in arms)
    free = memory_available_bytes() * (1 - _KEPT_FREE)
    return max(2, int(free / most))


def _too_large(study: Study, design: Design, *, trials: int, round_s: float) -> UsageError:
    needed_s = math.ceil(trials * round_s / (1 - study.confirm) / 60) * 60
    return UsageError(
        f"the design is too large for its budget: {len(design.rows)} rows take {round_s / 60:.1f} min a trial, {trials} trials "
        f"and what confirms them {needed_s / 60:.0f} min, and the budget is {study.budget / 60:.0f} min",
        f'give budget = "{needed_s // 60:.0f}m", or fewer factors, loads or trials',
    )
