"""From what a user asked for to what the pipeline is told; everything that can be refused is refused here, before the work."""

from __future__ import annotations

import contextlib
import itertools
import os
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from upshift import needs
from upshift.build.recipe import Recipe
from upshift.build.whole import headers_bytes
from upshift.door import (
    data_format,
    refuse_cache_within,
    refuse_environment,
    refuse_many_connections,
    refuse_missing_programs,
    refuse_server_environment,
    refuse_source,
    refuse_unknown_tests,
    versions_of,
)
from upshift.errors import MissingTool, RecipeError, UsageError, WorkloadError
from upshift.explain.door import Asked, refuse_unexplainable
from upshift.explain.tools import find_tools
from upshift.measure.duet import refuse_other_numbers
from upshift.measure.probe import refuse_other_cpus, refuse_without_right
from upshift.measure.tier import refuse_shared_tiers
from upshift.measure.variant import Surroundings, Variant, refuse_large_pool
from upshift.native.programs import build_huge_text, build_programs, huge_text_is_built
from upshift.options import Options
from upshift.package.service import refuse_parts
from upshift.patches.choose import patches_of, refuse_switches
from upshift.patches.model import Patch
from upshift.patches.tree import refuse_unfit
from upshift.paths import cache_dir
from upshift.resolve import arms_of, measuring_plan, plain_of, recipe_of
from upshift.server.data import settings_of
from upshift.server.instance import start_limit_s, stop_limit_s
from upshift.server.kind import Program, ServerKind, refuse_reserved
from upshift.server.kinds import default_kind, kind_of
from upshift.server.preload import refuse_ignored
from upshift.shell import Shell, SystemShell
from upshift.stages.explain import Explaining
from upshift.stages.names import measuring_stages
from upshift.stages.work import Measuring, Work
from upshift.toolchain.find import find
from upshift.toolchain.flags import plain
from upshift.toolchain.model import Toolchain
from upshift.toolchain.perf import sampling_event
from upshift.toolchain.system import Purpose, ensure_packages
from upshift.values import content_hash
from upshift.workload.library import find_workload
from upshift.workload.model import Workload

Say = Callable[[str], None]


def prepare(
    options: Options,
    *,
    allow_install: bool,
    say: Say,
    recipe: Recipe | None = None,
    disk_bytes: int = needs.NEEDED_DISK_BYTES,
    kept: Iterable[Path] = (),
) -> Work:
    """Install what is missing, find tools, read recipes and workloads, and check that there is room.

    ``recipe`` takes the place of the one that the options name; ``kept`` are folders that a run which is resumed has filled.
    Raises UsageError (RecipeError, WorkloadError), MissingTool or NotEnoughRoom.
    """
    shell = SystemShell()
    try:
        recipe = recipe or recipe_of(options)
        train_on, hold_out, patches = _judged(shell, options, recipe)
        kind = default_kind()
        _refuse_limits(options)
        needs.require_disk(disk_bytes + headers_bytes(recipe), kept)
        needs.require_memory(needs.NEEDED_MEMORY_BYTES)
        without_llvm = recipe.toolchain == "gcc" and recipe.post_link == "none"
        _install("gcc-only" if without_llvm else "mysql", (kind.name,), train_on + hold_out, allow_install, shell, say)
        if "huge-text" in options.service:
            _build_huge_text(allow_install, shell, say)
        refuse_missing_programs(train_on + hold_out)
        toolchain = find(recipe.toolchain, version=str(recipe.version) if recipe.version else None, shell=shell)
        perf = _perf_samples(shell)
        _need_bolt(options, recipe, toolchain, perf=perf)
        return Work(
            options=options,
            source_identity=_identity(options.source),
            patches=patches,
            plain=plain_of(recipe),
            recipe=recipe,
            toolchain=toolchain,
            train_on=train_on,
            hold_out=hold_out,
            plan=measuring_plan(options),
            perf=perf,
        )
    finally:
        shell.close()


def refuse_building(options: Options) -> None:
    """What `prepare` refuses for the words of a command and what they name: all that needs no package and no tool.

    Raises what that raises.
    """
    shell = SystemShell()
    try:
        _judged(shell, options, recipe_of(options))
    finally:
        shell.close()


def refuse_measuring(options: Options, variants: tuple[Variant, ...], others: Sequence[Surroundings] = ()) -> None:
    """The same of `prepare_measuring`."""
    shell = SystemShell()
    try:
        _judged_measuring(shell, options, variants, others)
    finally:
        shell.close()


def _judged(
    shell: Shell, options: Options, recipe: Recipe
) -> tuple[tuple[Workload, ...], tuple[Workload, ...], tuple[Patch, ...]]:
    """The workloads to train on and to hold out, and the patches. Raises for what building by these options cannot be."""
    kind = default_kind()
    train_on, hold_out = _workloads(options, (kind,))
    _refuse_weights(recipe, train_on)
    refuse_environment(kind, os.environ)
    refuse_server_environment(os.environ)
    refuse_source(kind, options.source)
    refuse_cache_within(options.source)
    refuse_parts(kind, options.service)
    _refuse_characters(kind)
    tree = Path(options.source) if options.source and Path(options.source).is_dir() else None
    patches = patches_of(kind, recipe)
    if patches and tree:  # Others are judged as soon as they are unpacked.
        refuse_unfit(shell, patches, tree, kind.recognise(tree) or "")
    refuse_unknown_tests(kind, "--verify", options.verify, tree)
    if recipe.training == "mtr":
        refuse_unknown_tests(kind, "training_tests", recipe.training_tests, tree)
    if (server := options.baseline) is not None:
        if not (server.is_file() and os.access(server, os.X_OK)):
            raise UsageError(f"--baseline {server} is not an executable", "name the server's binary, mysqld")
        versions_of(shell, lambda _program: kind, {"--baseline": Program(kind=kind.name, binary=server)})
    return train_on, hold_out, patches


def _judged_measuring(
    shell: Shell, options: Options, variants: tuple[Variant, ...], others: Sequence[Surroundings]
) -> tuple[tuple[Workload, ...], tuple[Workload, ...], tuple[str, ...]]:
    """The workloads to train on and to hold out, and the kinds of the servers. Raises for what cannot be measured."""
    refuse_server_environment(os.environ)
    for variant in variants:
        kind = kind_of(variant.program)
        refuse_reserved(kind, f"server '{variant.name}'", variant.settings)
        refuse_switches(kind, variant.name, variant.settings, variant.program.binary)
        refuse_ignored(shell, f"server '{variant.name}'", variant.environment)
    if options.speed_probe and not options.duet:
        named = [(f"'{variant.name}'", variant) for variant in variants]
        refuse_other_cpus([*named, *(("a server that is built", each) for each in others)])
    refuse_shared_tiers((f"server '{variant.name}'", variant.tier) for variant in variants)
    measured = {variant.program.kind: kind_of(variant.program) for variant in variants}
    if others:
        measured[default_kind().name] = default_kind()
    return *_workloads(options, tuple(measured.values())), tuple(measured)


def prepare_measuring(
    options: Options,
    variants: tuple[Variant, ...],
    *,
    allow_install: bool,
    say: Say,
    others: Sequence[Surroundings] = (),
    kept: Iterable[Path] = (),
) -> Measuring:
    """The part of `prepare` that servers which exist already need: no compiler, and less room. ``others`` surround servers that
    do not exist yet; ``kept`` is as there.

    Raises UsageError (WorkloadError), MissingTool or NotEnoughRoom.
    """
    shell = SystemShell()
    try:
        train_on, hold_out, measured = _judged_measuring(shell, options, variants, others)
        _refuse_limits(options)
        needs.require_disk(needs.MEASURING_DISK_BYTES, kept)
        needs.require_memory(needs.MEASURING_MEMORY_BYTES)
        surroundings = (*variants, *others)
        tiers = any(each.tier for each in surroundings)
        _install("measure", measured, train_on + hold_out, allow_install, shell, say, programs=tiers)
        if any(each.text_huge_pages for each in surroundings):
            _build_huge_text(allow_install, shell, say)
        refuse_missing_programs(train_on + hold_out)
        return Measuring(options=options, train_on=train_on, hold_out=hold_out, plan=measuring_plan(options, variants))
    finally:
        shell.close()


def prepare_explaining(
    options: Options,
    asked: Asked,
    *,
    seconds: float,
    counts: bool,
    simulate: bool = False,
    functions: tuple[str, ...] = (),
    allow_install: bool,
    say: Say,
) -> Explaining:
    """What an explanation of two servers needs.

    Raises UsageError (WorkloadError) for servers that cannot be explained, MissingTool without perf, or NotEnoughRoom.
    """
    shell = SystemShell()
    try:
        version = refuse_unexplainable(shell, default_kind(), asked.pair)
        event = sampling_event(shell)
        tools = find_tools(shell)
    finally:
        shell.close()
    return Explaining(
        asked=asked,
        version=version,
        measuring=prepare_measuring(options, asked.pair, allow_install=allow_install, say=say),
        event=event,
        tools=tools,
        seconds=seconds,
        counts=counts,
        simulate=simulate,
        functions=functions,
    )


def _refuse_characters(kind: ServerKind) -> None:
    """MySQL's test suite executes the server by a line for the shell, without quotes. Compilers take a comma in what they hand
    on to the linker for two words, LLVM's profiles are named by a pattern with %, and a library is preloaded from a list with
    colons.
    """
    found = re.search(r"[^\w/.+@=~-]", str(cache_dir()))
    if kind.name == "mysql" and found:
        what = "white space" if found.group().isspace() else found.group()
        raise UsageError(
            f"the cache is {cache_dir()}, and MySQL's build and tests do not run below a path with {what}",
            "set UPSHIFT_CACHE to another folder",
        )


def _refuse_limits(options: Options) -> None:
    """Raises UsageError before a build, not at the first server. A dry run needs none of this."""
    start_limit_s()
    stop_limit_s()
    if options.speed_probe:
        refuse_without_right()


def refuse_unstartable(variants: tuple[Variant, ...]) -> int:
    """How many stages measuring these servers takes: those of another data format than the first have data of their own, and
    those with SQL change a copy.

    Raises UsageError when one does not start.
    """
    shell = SystemShell()
    try:
        versions = versions_of(shell, kind_of, {variant.name: variant.program for variant in variants})
    finally:
        shell.close()
    formats = {data_format(kind_of(variant.program), versions[variant.name], variant) for variant in variants}
    return len(measuring_stages()) + len(formats) - 1 + sum(bool(variant.sql) for variant in variants)


def refuse_pointless(options: Options) -> None:
    """Raises RecipeError when the recipe gives the level nothing to do, or what it would not do; UsageError for a scope of
    nothing, when nothing is held out of training, or a duet is asked for and there would be more than two servers.
    """
    recipe = recipe_of(options)
    if not options.held_out:
        raise UsageError(
            "no workload is held out", "name one with --held-out: a profile is judged on what it was not trained on"
        )
    if options.level == "full" and recipe.profile == "none":
        raise RecipeError(
            f"recipe '{recipe.name}' has no profile, so there is nothing to train",
            "build it with `upshift build`, or choose one with a profile; --level quick uses BOLT alone",
        )
    if options.duet:
        refuse_other_numbers(arms_of(options, recipe))
    if options.level == "quick" and recipe.post_link == "none":
        raise RecipeError(
            f"--level quick runs BOLT alone, and recipe '{recipe.name}' has post_link = \"none\"", "leave --level quick out"
        )
    given = plain(recipe.toolchain, bolt=True)
    lacking = [flag for flag in (*recipe.flags, *recipe.link_flags) if flag not in (*given.compile, *given.link)]
    if options.level == "quick" and lacking:
        raise RecipeError(
            f"--level quick runs BOLT on the plain build, which has no {' '.join(lacking)} of recipe '{recipe.name}'",
            "leave --level quick out, or build the recipe with `upshift build`",
        )
    if options.level == "quick" and options.scope:
        raise UsageError(
            "--scope says what is compiled again, and --level quick compiles nothing again", "leave one of them out"
        )


def _workloads(options: Options, kinds: Sequence[ServerKind]) -> tuple[tuple[Workload, ...], tuple[Workload, ...]]:
    """Those that the options name, which are for servers of all ``kinds``."""
    train_on = tuple(find_workload(name) for name in options.workloads)
    hold_out = tuple(find_workload(name) for name in options.held_out)
    names = [workload.name for workload in train_on + hold_out]
    for name in names:
        if names.count(name) > 1:
            by_default = options.held_out == Options.model_fields["held_out"].default
            others = "; --held-out names others than its defaults" if by_default else ""
            hint = f"a workload is either trained on or held out{others}" if options.held_out else "name each workload once"
            raise UsageError(f"workload '{name}' is named twice", hint)
    for workload, kind in itertools.product(train_on + hold_out, kinds):
        if kind.name not in workload.server:
            raise WorkloadError(
                f"workload '{workload.name}' is for {' and '.join(workload.server)}, the server is {kind.name}",
                "choose another workload",
            )
        refuse_reserved(kind, f"workload '{workload.name}'", workload.settings)
        refuse_large_pool(kind, f"workload '{workload.name}'", workload.settings)
    _refuse_contradictions(train_on + hold_out)
    for kind in kinds:
        refuse_many_connections(kind, train_on + hold_out, options.connections)
    return _configured(train_on, train_on + hold_out), _configured(hold_out, train_on + hold_out)


def _refuse_contradictions(workloads: tuple[Workload, ...]) -> None:
    """All workloads of a run are measured on one server, so they can't ask for two values of a setting."""
    asked: dict[str, tuple[str, str]] = {}
    for workload in workloads:
        for name, value in workload.settings.items():
            by, earlier = asked.setdefault(name, (workload.name, value))
            if earlier != value:
                raise WorkloadError(
                    f"workload '{by}' asks for {name}={earlier}, workload '{workload.name}' for {name}={value}",
                    "one run measures all workloads on the same server: use separate runs",
                )


def _configured(workloads: tuple[Workload, ...], all_workloads: tuple[Workload, ...]) -> tuple[Workload, ...]:
    """Workloads with the settings of all: a server is trained as it is measured, and on the same data."""
    settings = settings_of(all_workloads)
    return tuple(workload.model_copy(update={"settings": settings}) for workload in workloads)


def _refuse_weights(recipe: Recipe, workloads: tuple[Workload, ...]) -> None:
    """GCC's counters have no shares: those of all workloads add up."""
    if recipe.profile == "gcc" and recipe.training == "workload" and len({workload.weight for workload in workloads}) > 1:
        raise WorkloadError(
            "workloads have different weights, and GCC's profile has none",
            "give all the same weight, or choose --toolchain clang",
        )


def _need_bolt(options: Options, recipe: Recipe, toolchain: Toolchain, *, perf: bool) -> None:
    """For BOLT that instruments a whole server: all that --level quick does, or what finds the hot set.

    Raises MissingTool or NotEnoughRoom.
    """
    if options.level == "full" and recipe.scope == "hot" and not perf:
        what, otherwise = "perf cannot sample here; BOLT, which then finds the hot set,", "let perf sample, or add --scope all"
    elif options.level == "quick" and recipe.post_link == "bolt":
        what, otherwise = (
            "BOLT without an instrumented build",
            "train a profile first, with --level full or a recipe that has one",
        )
    else:
        return
    if toolchain.bolt is None:
        raise MissingTool(f"{what} is missing beside {toolchain.cc}", f"`upshift doctor` names its package; or {otherwise}")
    needs.require_memory(needs.BOLT_MEMORY_BYTES, what, otherwise)


def _install(
    purpose: Purpose,
    kinds: Iterable[str],
    workloads: tuple[Workload, ...],
    allow_install: bool,
    shell: Shell,
    say: Say,
    *,
    programs: bool = False,
) -> None:
    """A PostgreSQL is measured as it was installed: that lies with the user."""
    if "mysql" in kinds:
        ensure_packages(purpose, allow_install=allow_install, shell=shell, say=say)
    if programs or any(workload.needs_programs for workload in workloads):
        ensure_packages("native", allow_install=allow_install, shell=shell, say=say)
        build_programs(shell, say=say)


def _build_huge_text(allow_install: bool, shell: Shell, say: Say) -> None:
    if not huge_text_is_built():
        ensure_packages("native", allow_install=allow_install, shell=shell, say=say)
    build_huge_text(shell, say=say)


def _identity(source: str | None) -> str:
    """What tells one state of a source from another, cheaply; empty for the distribution's.

    A run keeps its source stage to itself, and that hashes contents.
    """
    if source is None or not Path(source).exists():
        return ""
    path = Path(source).resolve()
    if path.is_file():
        status = path.stat()
        return f"{path}:{status.st_size}:{status.st_mtime_ns}"
    entries = [
        (str(file.relative_to(path)), file.stat().st_size, file.stat().st_mtime_ns)
        for file in sorted(path.rglob("*"))
        if file.is_file() and not file.is_symlink() and ".git" not in file.parts
    ]
    return content_hash([str(path), entries])


def _perf_samples(shell: Shell) -> bool:
    """Whether perf can sample user code by the CPU clock here."""
    with contextlib.suppress(MissingTool):
        return bool(sampling_event(shell, ("cpu-clock:u",)))
    return False
