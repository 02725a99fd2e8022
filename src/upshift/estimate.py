"""What a run will take: stages with the time, disk and memory that each needs, before any of it is done."""

from __future__ import annotations

import math

from upshift.build.recipe import Recipe
from upshift.build.whole import default_jobs
from upshift.control_groups import usable_cpus
from upshift.explain.recording import recording_s
from upshift.measure.duration import pilot_s, trial_s
from upshift.measure.model import Plan
from upshift.measure.noise import CALM, Expected, Noise, expect
from upshift.measure.schedule import loads_of
from upshift.measure.variant import Variant
from upshift.options import Options
from upshift.profile.places import MOST_A_CPU
from upshift.report.words import duet_sentence
from upshift.resolve import arms_of, measuring_plan, recipe_of
from upshift.stages.names import Stage
from upshift.values import Value


class Estimate(Value):
    """One stage, roughly: from MySQL 9.7 on two cores, with the commands that do most of the work."""

    name: str
    wall_s: float
    disk_bytes: int
    memory_bytes: int
    commands: tuple[str, ...]


# CPU seconds, disk, memory and commands for MySQL 9.7 with clang 22 on two CPUs: the stages in the result.json of
# 2026-11-22-turns, 2026-11-23-distribution and 2026-11-23-whole-series under docs/measurements.
_COSTS: dict[str, tuple[float, float, float, tuple[str, ...]]] = {
    Stage.CHECK: (2, 0, 0.2e9, ("SHOW GLOBAL VARIABLES", "SELECT ... FROM information_schema")),
    Stage.SOURCE: (25, 2.2e9, 0.2e9, ("apt-get download mysql-source", "tar -x")),
    Stage.PATCHED_SOURCE: (5, 0.01e9, 0.1e9, ()),
    Stage.PATCHED_BUILD: (65, 0.2e9, 3.0e9, ("{cxx} ... of what the patches touch", "{cxx} ... -o mysqld")),
    Stage.PLAIN_BUILD: (2150, 4.0e9, 3.0e9, ("cmake -G Ninja", "ninja mysqld mysql mysqltest ...")),
    Stage.DATA: (12, 0.4e9, 1.0e9, ("mysqld --initialize-insecure", "sysbench ... prepare")),
    Stage.CHANGED_DATA: (10, 0.4e9, 1.0e9, ("the statements of --sql",)),
    Stage.ANSWERS: (0, 0.8e9, 1.5e9, ("upshift-load replay --order serial ... as sent, as sent again, changed",)),
    Stage.HOT_SET: (4, 0.4e9, 1.5e9, ("perf record -e cpu-clock:u", "sysbench ... run")),
    Stage.INSTRUMENTED_BUILD: (265, 0.6e9, 3.0e9, ("{cxx} -fprofile-generate ...", "{cxx} ... -o mysqld")),
    Stage.TRAIN: (0, 0.5e9, 1.5e9, ("sysbench ... run", "llvm-profdata merge")),
    Stage.PROFILE_GATE: (1, 0, 0.5e9, ("llvm-profdata show --all-functions",)),
    Stage.OPTIMISED_BUILD: (180, 0.6e9, 4.0e9, ("{cxx} {flags} ...", "{cxx} ... -o mysqld")),
    Stage.POST_LINK: (25, 1.0e9, 9.0e9, ("llvm-bolt --instrument", "sysbench ... run", "llvm-bolt -data=...")),
    Stage.VERIFY: (70, 1.0e9, 2.0e9, ("mysql-test-run.pl --force --parallel=2 --mem",)),
    Stage.CARD: (0, 0.3e9, 0.6e9, ("upshift-card",)),
    Stage.MEASURE: (0, 1.0e9, 3.0e9, ("sysbench ... run, for each arm, workload and thread count",)),
    Stage.INSTRUCTIONS: (
        0,
        0,
        4.0e9,
        ("valgrind --tool=callgrind mysqld ...", "sysbench ... run, a fixed number of events"),
    ),
    Stage.EXPLAIN: (
        0,
        1.0e9,
        3.0e9,
        ("perf record -e cpu-clock -g", "sysbench ... run, for both servers in turns", "llvm-objdump -d"),
    ),
    Stage.PACKAGE: (12, 0.6e9, 0.2e9, ("tar -c",)),
    Stage.REPORT: (5, 0.01e9, 0.2e9, ()),
}
_COMPILERS: dict[str, str] = {"clang": "clang++", "gcc": "g++", "icx": "icpx"}
_BUILDS = (Stage.PLAIN_BUILD, Stage.INSTRUMENTED_BUILD, Stage.SECOND_INSTRUMENTED_BUILD, Stage.OPTIMISED_BUILD)
"""Those that keep all CPUs busy."""
# The hot set with other flags alone: it is parsed, too, as for the instrumented build, and was not measured by itself.
_FLAGS_CPU_S = 265.0
# GCC against clang on one machine, from docs/measurements/2026-11-21-main-job: the whole server 120.6 CPU minutes and 83.3, the
# hot set instrumented 21.0 and 7.7, with its profile and LTO 18.0 and 8.0 (clang parsed its sources again then).
_GCC_PLAIN, _GCC_INSTRUMENTED, _GCC_OPTIMISED = 1.45, 2.7, 2.25
# Where there was a training, BOLT instruments what that executed and no more: 2.3 GiB for all functions of the hot objects.
_BOLT_AFTER_TRAINING_BYTES = 3.0e9
# What `--scope all` costs in place of the hot set's: every object of the server is compiled again.
_COSTS_OF_ALL: dict[str, tuple[float, float, float, tuple[str, ...]]] = {
    Stage.HOT_SET: (5, 0.1e9, 1.0e9, ()),
    Stage.INSTRUMENTED_BUILD: (2300, 2.0e9, 4.0e9, ("{cxx} -fprofile-generate ...", "{cxx} ... -o mysqld")),
    Stage.OPTIMISED_BUILD: (2900, 1.5e9, 6.0e9, ("{cxx} {flags} ...", "{cxx} ... -o mysqld")),
}
# MySQL's suites main, innodb or those that train vendor-pgo: a guess, none was run to its end on that machine.
_TEST_SUITES_S = 7200.0
_TEST_S = 10.0
# Symbols, samples and machine code of two servers.
_READING_S = 20.0
# Restoring a dump, in bytes a second; its data with their indexes and a copy, in bytes for each of it.
_RESTORED_BYTES_S = 10e6
_DATA_OF_DUMP = 4
_REPLAYS = 3
_START_S = 8.0
# One server under one workload.
_COUNT_S = 12.0
# Beside counts alone: 96 and 68 s of CPU for two servers and two workloads on two AMD EPYC, 2026-11-25.
_SIMULATED = 1.4


def estimate(
    options: Options,
    stages: tuple[str, ...],
    recipe: Recipe | None = None,
    variants: tuple[Variant, ...] = (),
    noise: Noise = CALM,
) -> tuple[Estimate, ...]:
    """Estimates for these stages of the pipeline. Measuring and training times follow from the options.

    ``recipe`` takes the place of the one that the options name; ``variants`` are measured in place of what it makes; ``noise``
    says how many trials ``--until`` takes. Raises UsageError for a duet that is impossible.
    """
    cpus = options.jobs or default_jobs()
    recipe = recipe or recipe_of(options)
    costs = _COSTS
    plan = measuring_plan(options, variants)
    timed = _timed(options, recipe, plan, len(variants) or arms_of(options, recipe), noise)
    if recipe.scope == "all" and recipe.profile != "none":
        costs = {**_COSTS, **_COSTS_OF_ALL}
        timed[Stage.HOT_SET] = 0.0

    def of(name: str) -> Estimate:
        like = name.removeprefix("second ")
        cpu_s, disk_bytes, memory_bytes, commands = costs[like]
        cpu_s = _building_s(like, cpu_s, recipe) if like in _BUILDS else cpu_s
        if like == Stage.POST_LINK and Stage.TRAIN in stages:
            memory_bytes = _BOLT_AFTER_TRAINING_BYTES
        if like == Stage.MEASURE and plan.duet:
            commands = (*commands, duet_sentence(plan.duet))
        return Estimate(
            name=name,
            wall_s=cpu_s / (cpus if like in _BUILDS else 1) + timed.get(like, 0.0),
            disk_bytes=int(disk_bytes),
            memory_bytes=int(memory_bytes),
            commands=_spelled(commands, recipe),
        )

    return tuple(of(name) for name in stages)


def _spelled(commands: tuple[str, ...], recipe: Recipe) -> tuple[str, ...]:
    """The commands with the recipe's compiler and what it adds to the flags of the plain build."""
    lto = {"none": (), "thin": ("-flto=thin",), "full": ("-flto",)}[recipe.lto]
    profile = () if recipe.profile == "none" else ("-fprofile-use",)
    flags = " ".join((*recipe.flags, *profile, *lto))
    # GCC's counters are files of its own, which no program merges.
    own = (each for each in commands if recipe.toolchain != "gcc" or not each.startswith("llvm-profdata"))
    return tuple(each.format(cxx=_COMPILERS[recipe.toolchain], flags=flags) for each in own)


def _building_s(stage: str, cpu_s: float, recipe: Recipe) -> float:
    """CPU seconds of a build by the recipe: ``cpu_s`` are clang's, with a profile."""
    gcc = recipe.toolchain == "gcc"
    if stage == Stage.OPTIMISED_BUILD and recipe.profile == "none":
        return _FLAGS_CPU_S * (_GCC_PLAIN if gcc else 1)
    if not gcc:
        return cpu_s
    if stage == Stage.PLAIN_BUILD or recipe.scope == "all":
        return cpu_s * _GCC_PLAIN
    # clang's optimised build takes what the instrumented one has parsed: GCC's is compared with one that parsed.
    return _FLAGS_CPU_S * (_GCC_OPTIMISED if stage == Stage.OPTIMISED_BUILD else _GCC_INSTRUMENTED)


def expected(options: Options, noise: Noise, variants: tuple[Variant, ...] = ()) -> Expected:
    """The interval that measuring will give, of ``variants`` in place of what the options' recipe makes."""
    arms = len(variants) or arms_of(options, recipe_of(options))
    return _expected(options, measuring_plan(options, variants), arms, noise)


def explaining(options: Options, seconds: float, *, counts: bool, simulate: bool) -> tuple[Estimate, ...]:
    """Estimates for `upshift explain`, which samples two servers for ``seconds`` under each workload, and counts them first."""
    data, carded, counted, explained = estimate(options, (Stage.DATA, Stage.CARD, Stage.INSTRUCTIONS, Stage.EXPLAIN))
    if simulate:
        counted = counted.model_copy(update={"wall_s": counted.wall_s * _SIMULATED})
    wall_s = len(options.workloads) * _explained_s(seconds)
    return data, carded, *((counted,) if counts else ()), explained.model_copy(update={"wall_s": wall_s})


def proving(
    options: Options, variants: tuple[Variant, ...], *, restore: str, dump_bytes: int, replay_s: float
) -> tuple[Estimate, ...]:
    """Estimates for `upshift stack prove`, which fills the data by the command ``restore`` from a dump, sends the trace three
    times to compare answers, ``replay_s`` each, and measures.
    """
    changed = (Stage.CHANGED_DATA,) if any(each.sql for each in variants) else ()
    data, *others, measured = estimate(options, (Stage.DATA, *changed, Stage.ANSWERS, Stage.MEASURE), variants=variants)
    grown = {"disk_bytes": data.disk_bytes + _DATA_OF_DUMP * dump_bytes, "commands": (restore,)}
    *changing, answers = others
    return (
        data.model_copy(update={"wall_s": data.wall_s + dump_bytes / _RESTORED_BYTES_S, **grown}),
        *changing,
        answers.model_copy(update={"wall_s": _REPLAYS * (_START_S + replay_s)}),
        measured.model_copy(update={"commands": ("upshift-load replay ... as sent and changed, in turns",)}),
    )


def _explained_s(seconds: float) -> float:
    return recording_s(seconds) + _READING_S if seconds else 0.0


def _expected(options: Options, plan: Plan, arms: int, noise: Noise) -> Expected:
    loads = loads_of(options.workloads, options.held_out, options.connections)
    return expect(plan, noise, trial_s=trial_s(plan, arms, loads), pilot_s=pilot_s(plan, arms, loads))


def _timed(options: Options, recipe: Recipe, plan: Plan, arms: int, noise: Noise) -> dict[str, float]:
    """Seconds that the options ask for, however fast the machine is."""
    workloads = len(options.workloads) + len(options.held_out)
    rounds = math.ceil(len(options.workloads) / (MOST_A_CPU * usable_cpus()))
    training_s = rounds * (options.train_s + 12)
    tests_s = _TEST_SUITES_S if recipe.training_tests == "profile" else _TEST_S * len(recipe.training_tests.split(","))
    return {
        Stage.HOT_SET: rounds * (options.sample_s + 12),
        Stage.TRAIN: tests_s if recipe.training == "mtr" else training_s,
        Stage.POST_LINK: tests_s if recipe.training == "mtr" else training_s,
        Stage.CARD: options.card_s,
        Stage.MEASURE: _expected(options, plan, arms, noise).wall_s,
        Stage.INSTRUCTIONS: _COUNT_S * math.ceil(arms * workloads / usable_cpus()),
        Stage.EXPLAIN: _explained_s(options.explain_s),
        Stage.VERIFY: _TEST_SUITES_S if options.verify in ("main", "innodb", "sys_vars", "whole") else 0.0,
    }
