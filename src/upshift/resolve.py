"""What options resolve to: recipes, the number of servers that are measured, the plan of measuring. Nothing is run for it."""

from __future__ import annotations

import os
from collections.abc import Sequence

from upshift.build.recipe import Recipe, find_recipe
from upshift.control_groups import least_quota_cpus
from upshift.errors import RecipeError, UsageError
from upshift.measure.allocation import ROUNDS, divided
from upshift.measure.duet import assign_duet, refuse_odd_rounds
from upshift.measure.model import Plan
from upshift.measure.pilot import PILOT_TURNS
from upshift.measure.placement import assign, read_topology
from upshift.measure.schedule import loads_of
from upshift.measure.until import refuse_short_first_stage
from upshift.measure.variant import Surroundings
from upshift.options import LEAD_S, SLICE_S, Options
from upshift.patches.choose import resolved
from upshift.server.kinds import default_kind
from upshift.toolchain.model import Family

_DEFAULT_RECIPES: dict[Family, str] = {"clang": "max-clang", "gcc": "gcc-pgo-lto", "icx": "max-clang"}


def recipe_of(options: Options) -> Recipe:
    """The recipe that the options name, with the toolchain, the scope and the patches that they ask for. Raises RecipeError."""
    recipe = find_recipe(options.recipe or _DEFAULT_RECIPES[options.toolchain or "clang"])
    toolchain = options.toolchain or recipe.toolchain
    if "gcc" in (recipe.toolchain, toolchain) and recipe.toolchain != toolchain:
        raise RecipeError(f"recipe '{recipe.name}' is for {recipe.toolchain}, not for {toolchain}", "leave --toolchain out")
    recipe = recipe.model_copy(update={"toolchain": toolchain})
    if options.scope:
        recipe = recipe.model_copy(update={"scope": options.scope})
    if options.patches:
        recipe = recipe.model_copy(update={"patches": options.patches})
    return resolved(default_kind(), recipe)


def plain_of(recipe: Recipe) -> Recipe:
    """What the recipe's server is compared with, and linked into: the same compiler and CMake options, nothing else."""
    shared = ("toolchain", "version", "build_type", "options", "precompiled_headers")
    return find_recipe("plain").model_copy(update={name: getattr(recipe, name) for name in shared})


def arms_of(options: Options, recipe: Recipe) -> int:
    """How many servers `optimize` measures: the plain and the optimised one, the patched one, and the one in use."""
    return 2 + bool(options.baseline) + bool(recipe.patches)


def measuring_plan(options: Options, arms: Sequence[Surroundings] = ()) -> Plan:
    """How the servers are measured, ``arms`` in place of what the options' recipe makes; server and load get CPUs of their own,
    by the machine's topology. Those of a duet may be named by ``arms``.

    Raises UsageError where the machine, the arms or the rounds make a duet impossible, for a first stage of one trial, and for
    a speed probe with one round.
    """
    refuse_short_first_stage(options.until, options.trials)
    allowed, topology = os.sched_getaffinity(0), read_topology()
    if options.duet and options.rounds is not None:
        refuse_odd_rounds(options.rounds)
    if options.speed_probe and options.rounds == 1:
        raise UsageError(
            "the speed probe compares the turns of a server in a trial with each other, and trials here have one",
            "give two rounds or more; or leave the speed probe out",
        )
    counted = options.until is not None or options.budget_s is not None
    placement = assign_duet(allowed, topology, arms) if options.duet else assign(allowed, topology)
    plan = Plan(
        trials=options.trials,
        rounds=ROUNDS if options.rounds is None else options.rounds,
        slice_s=SLICE_S if options.slice_s is None else options.slice_s,
        lead_s=LEAD_S if options.lead_s is None else options.lead_s,
        pilot_turns=PILOT_TURNS if counted and options.lead_s is None else 0,
        until=options.until,
        budget_s=options.budget_s,
        warmup_s=options.warmup_s,
        seed=1,
        headline_connections=max(options.connections),
        server_cpus=placement.server_cpus,
        client_cpus=placement.client_cpus,
        quota_cpus=least_quota_cpus(),
        placement=placement.words,
        speed_probe=options.speed_probe,
        duet=placement.duet,
    )
    if options.rounds is not None or not counted:
        return plan
    count = len(arms) or arms_of(options, recipe_of(options))
    loads = loads_of(options.workloads, options.held_out, options.connections)
    return divided(plan, count, loads, shorten=options.slice_s is None)
