"""The stages of ``optimize``, one function each: what goes in, what comes out, and under which hash it is kept.

``upshift.pipeline`` puts them in order; the single commands (``build``, ``train``, ``measure``) call the same functions.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from upshift.build import bolt
from upshift.build.model import Build
from upshift.build.ninja import run_ninja
from upshift.build.recipe import Recipe
from upshift.build.relink import build_hot
from upshift.build.whole import build_whole
from upshift.errors import CommandFailed, UpshiftError
from upshift.profile import gate, gcc, llvm, sampling
from upshift.profile.model import HotSet, Profile, Provenance, Quality
from upshift.profile.training import Trained, train
from upshift.run.directory import RunDirectory
from upshift.run.stages import Progress, Stages, Workbench
from upshift.server import data
from upshift.server.kind import Program, ServerKind
from upshift.source.fetch import obtain
from upshift.source.model import Source
from upshift.toolchain import flags
from upshift.toolchain.flags import Flags
from upshift.toolchain.model import Toolchain
from upshift.values import Value, file_sha256
from upshift.workload.model import Workload


@dataclass(frozen=True)
class Lab:
    """What every stage works with."""

    stages: Stages
    kind: ServerKind
    progress: Progress
    cache: Path
    jobs: int
    run: RunDirectory


class Filled(Value):
    """A data folder that the workloads have filled."""

    path: Path


class Instrumented(Value):
    """An instrumented server and the folder into which it writes its counters."""

    build: Build
    counters: Path


class Gated(Value):
    """A profile that passed the gate."""

    profile: Profile
    quality: Quality


class Plugins(Value):
    """Shared objects that the server loads when it is asked to, built like the plain server."""

    files: tuple[Path, ...]


class PostLinked(Value):
    """A build after the post-link step, or the build as it was with the reason."""

    build: Build
    applied: str
    """``bolt 22.1.8``; empty when the step did not work."""
    reason: str


def get_source(lab: Lab, spec: str | None, identity: str) -> Source:
    """``identity`` tells one state of the given source from another (a directory's or tarball's hash; the day, for apt)."""

    def action(bench: Workbench) -> Source:
        return obtain(spec, kind=lab.kind, cache=lab.cache, shell=bench.shell, say=bench.progress.note, log=bench.log)

    return lab.stages.run("source", Source, action, inputs={"spec": spec, "identity": identity, "kind": lab.kind.name})


def build_plain(lab: Lab, source: Source, recipe: Recipe, toolchain: Toolchain) -> Build:
    """The whole tree by a recipe without a profile."""
    shared = recipe.before_post_link()
    inputs = {"source": source, "recipe": shared, "toolchain": toolchain, "targets": lab.kind.targets}
    made = lab.stages.run(
        "plain build",
        Build,
        lambda bench: build_whole(bench, lab.kind, source, shared, toolchain, extra=_lto(lab, recipe), jobs=lab.jobs),
        inputs=inputs,
    )
    return made.model_copy(update={"recipe": recipe})


def fill_data(lab: Lab, program: Program, workloads: tuple[Workload, ...], name: str = "data") -> Filled:
    """A data template made by the program that is measured against (its data format is then the program's own)."""

    def action(bench: Workbench) -> Filled:
        return Filled(path=data.template(bench.shell, lab.kind, program, workloads, bench.folder, bench.log))

    fills = sorted({workload.fill.model_dump_json() for workload in workloads})
    return lab.stages.run(name, Filled, action, inputs={"program": program, "fills": fills})


def find_hot_set(
    lab: Lab,
    source: Source,
    plain: Build,
    workloads: tuple[Workload, ...],
    filled: Filled,
    *,
    seconds: float,
    use_perf: bool,
) -> HotSet:
    """What the workloads execute, from perf's samples; without perf from a BOLT-instrumented run."""
    program = lab.kind.program(source.path, plain.tree, plain.server)

    def from_perf(bench: Workbench) -> HotSet:
        link_map = sampling.map_plain_server(bench.shell, lab.kind, plain, bench.folder, bench.log)
        files = {workload.name: bench.folder / f"{workload.name}.perf" for workload in workloads}
        train(
            bench,
            lab.kind,
            program,
            filled.path,
            workloads,
            seconds=seconds,
            environment=lambda _workload: {},
            samples=lambda workload: files[workload.name],
        )
        counted = [sampling.count_samples(bench.shell, file, plain.server, link_map) for file in files.values()]
        for file in files.values():
            file.unlink()
        return sampling.hot_set(bench.shell, lab.kind, plain, sampling.merged(counted))

    def from_bolt(bench: Workbench) -> HotSet:
        link_map = sampling.map_plain_server(bench.shell, lab.kind, plain, bench.folder, bench.log)
        files = _bolt_counts(lab, bench, source, plain, workloads, filled, None, seconds)
        return sampling.hot_set(bench.shell, lab.kind, plain, sampling.count_fdata(files, link_map))

    inputs = {"plain": plain, "workloads": workloads, "seconds": seconds, "perf": use_perf}
    return lab.stages.run("hot set", HotSet, from_perf if use_perf else from_bolt, inputs=inputs)


def whole_tree(lab: Lab, plain: Build) -> HotSet:
    """``--scope all``: every object of the server is rebuilt."""

    def action(bench: Workbench) -> HotSet:
        link_map = sampling.map_plain_server(bench.shell, lab.kind, plain, bench.folder, bench.log)
        return sampling.whole_tree(bench.shell, lab.kind, plain, link_map)

    return lab.stages.run("hot set", HotSet, action, inputs={"plain": plain, "scope": "server"})


def build_instrumented(
    lab: Lab, source: Source, recipe: Recipe, toolchain: Toolchain, plain: Build, hot_set: HotSet, first: Profile | None = None
) -> Instrumented:
    """The hot set compiled to count its branches, in the plain server; after ``first``, once more behind its inlining."""

    shared = recipe.before_profile() if first is None else recipe.before_post_link()

    def action(bench: Workbench) -> Instrumented:
        counters = bench.folder / "counters"
        if first is None:
            extra = flags.instrument(recipe.toolchain, counters)
        else:
            # Link-time optimisation too, so that the inlining is that of the optimised build.
            extra = flags.instrument_again(recipe.toolchain, first.path, counters) + _lto(lab, recipe)
        made = build_hot(bench, lab.kind, source, shared, toolchain, plain, hot_set, extra, jobs=lab.jobs)
        return Instrumented(build=made, counters=counters)

    inputs = {"recipe": shared, "toolchain": toolchain, "plain": plain, "hot_set": hot_set}
    if first is None:
        return lab.stages.run("instrumented build", Instrumented, action, inputs=inputs)
    return lab.stages.run("second instrumented build", Instrumented, action, inputs={**inputs, "first": first})


def train_profile(
    lab: Lab,
    source: Source,
    recipe: Recipe,
    instrumented: Instrumented,
    workloads: tuple[Workload, ...],
    filled: Filled,
    first: Profile | None = None,
    *,
    seconds: float,
) -> Profile:
    """The workloads on the instrumented server; their counters merged by weight, and with those of the ``first`` training."""
    build = instrumented.build
    program = lab.kind.program(source.path, build.tree, build.server)
    provenance = provenance_of(build, workloads)

    def exercise(bench: Workbench, environment: Callable[[str], Mapping[str, str]]) -> tuple[Trained, ...]:
        """Load the server, or run its own tests, as the recipe asks."""
        if recipe.training == "mtr":
            started = time.monotonic()
            lab.kind.verify(source.path, build.tree, build.server, recipe.training_tests, bench, lab.jobs, environment("mtr"))
            return (Trained("mtr", 1.0, time.monotonic() - started, None),)
        return train(
            bench, lab.kind, program, filled.path, workloads, seconds=seconds, environment=lambda each: environment(each.name)
        )

    def llvm_action(bench: Workbench) -> Profile:
        raw = bench.folder / "raw"
        trained = exercise(bench, lambda name: {"LLVM_PROFILE_FILE": str(raw / name / "%p.profraw")})
        weighted = [(file, each.weight) for each in trained for file in (raw / each.name).glob("*.profraw")]
        if first is not None and weighted:
            # Counts of the two trainings never meet: a function's context-sensitive ones are a record of their own.
            weighted.append((first.path, min(weight for _file, weight in weighted)))
        merged, corrupt = llvm.merge(bench.shell, build.toolchain, weighted, bench.folder, bench.log)
        if corrupt:
            bench.progress.note(f"{corrupt} warnings while merging the counters: see {bench.log}")
        return _profile("ir", merged, file_sha256(merged), provenance, trained, corrupt)

    def gcc_action(bench: Workbench) -> Profile:
        gcc.reset(instrumented.counters)
        trained = exercise(bench, lambda _name: {})
        return _profile("gcc", instrumented.counters, gcc.sha256(instrumented.counters), provenance, trained)

    action = gcc_action if build.toolchain.family == "gcc" else llvm_action
    trains = {"with": recipe.training, "tests": recipe.training_tests}
    inputs = {"build": build, "trains": trains, "workloads": workloads, "seconds": seconds, "filled": filled}
    return lab.stages.run("train" if first is None else "second train", Profile, action, inputs=inputs)


def gate_profile(
    lab: Lab, profile: Profile, toolchain: Toolchain, hot_set: HotSet, wanted: Provenance, *, again: bool = False
) -> Gated:
    """Refuse a profile that would not help. Raises ProfileRefused."""

    def action(bench: Workbench) -> Gated:
        gate.refuse_foreign(profile, wanted)
        if profile.kind == "gcc":
            # GCC's counter files name no functions, so only their presence and size can be judged.
            quality = gate.examine(gcc.counts(profile.path), hot_set.model_copy(update={"functions": ()}), profile)
        else:
            quality = gate.examine(llvm.read(bench.shell, toolchain, profile.path), hot_set, profile)
        for note in quality.notes:
            bench.progress.note(note)
        return Gated(profile=profile, quality=quality)

    name = "second profile gate" if again else "profile gate"
    return lab.stages.run(name, Gated, action, inputs={"profile": profile, "hot_set": hot_set, "wanted": wanted})


def build_optimised(
    lab: Lab,
    source: Source,
    recipe: Recipe,
    toolchain: Toolchain,
    plain: Build,
    hot_set: HotSet,
    gated: Gated,
) -> Build:
    """The hot set compiled with its profile and LTO, in the plain server."""
    shared = recipe.before_post_link()
    extra = flags.use(recipe.toolchain, gated.profile.path) + _lto(lab, recipe)
    inputs = {
        "recipe": shared,
        "toolchain": toolchain,
        "plain": plain,
        "hot_set": hot_set,
        "profile": gated.profile,
    }
    made = lab.stages.run(
        "optimised build",
        Build,
        lambda bench: build_hot(
            bench,
            lab.kind,
            source,
            shared,
            toolchain,
            plain,
            hot_set,
            extra,
            profile_sha256=gated.profile.sha256,
            jobs=lab.jobs,
        ),
        inputs=inputs,
    )
    return made.model_copy(update={"recipe": recipe})


def post_link(
    lab: Lab,
    source: Source,
    build: Build,
    hot_set: HotSet | None,
    workloads: tuple[Workload, ...],
    filled: Filled,
    recipe: Recipe,
    *,
    seconds: float,
) -> PostLinked:
    """BOLT on top of ``build``, from a training of its own. When BOLT fails, that is a reason to go on without it."""

    toolchain = build.toolchain

    def action(bench: Workbench) -> PostLinked:
        output = bench.folder / lab.kind.server_target
        if recipe.post_link == "none":
            return PostLinked(build=build, applied="", reason=f"recipe '{recipe.name}' does without")
        if toolchain.bolt is None:
            return PostLinked(build=build, applied="", reason=f"there is no BOLT beside {toolchain.cc}")
        try:
            files = _bolt_counts(lab, bench, source, build, workloads, filled, hot_set, seconds)
            fdata = bolt.merge_fdata(bench.shell, toolchain, files, bench.folder / "merged.fdata", bench.log)
            bolt.optimise(bench.shell, toolchain, build.server, output, fdata, bench.log, recipe.post_link_flags)
            bench.shell.run(lab.kind.version(output), log=bench.log, timeout_s=60)
        except (CommandFailed, UpshiftError) as error:
            bench.progress.note(f"going on without BOLT: {error.message}")
            return PostLinked(build=build, applied="", reason=error.message)
        made = build.model_copy(update={"server": output})
        return PostLinked(build=made, applied=f"bolt {toolchain.version}", reason="")

    inputs = {"build": build, "recipe": recipe, "workloads": workloads, "filled": filled, "seconds": seconds}
    return lab.stages.run("post-link", PostLinked, action, inputs=inputs)


def build_plugins(lab: Lab, plain: Build) -> Plugins:
    """What the plain build left out because neither measuring nor the server's tests need it."""
    targets = lab.kind.plugins(plain.tree)

    def action(bench: Workbench) -> Plugins:
        if targets:
            run_ninja(bench, plain.tree, targets, lab.jobs)
        return Plugins(files=tuple(plain.tree / target for target in targets))

    return lab.stages.run("plugins", Plugins, action, inputs={"plain": plain, "targets": targets})


def provenance_of(build: Build, workloads: tuple[Workload, ...]) -> Provenance:
    return Provenance(
        source_sha256=build.source_sha256,
        compiler=f"{build.toolchain.family} {build.toolchain.version}",
        flags=build.recipe.flags,
        workloads=tuple(workload.name for workload in workloads),
    )


def _lto(lab: Lab, recipe: Recipe) -> Flags:
    return flags.thin_lto(recipe.toolchain, jobs=lab.jobs) if recipe.lto != "none" else Flags()


def _bolt_counts(
    lab: Lab,
    bench: Workbench,
    source: Source,
    build: Build,
    workloads: tuple[Workload, ...],
    filled: Filled,
    hot_set: HotSet | None,
    seconds: float,
) -> list[Path]:
    counting = bench.folder / f"{lab.kind.server_target}.counting"
    counts = bench.folder / "counts"
    for old in bench.folder.glob("counts.*.fdata"):
        old.unlink()
    bolt.instrument(bench.shell, build.toolchain, build.server, counting, counts, hot_set, bench.log)
    program = lab.kind.program(source.path, build.tree, counting)
    train(bench, lab.kind, program, filled.path, workloads, seconds=seconds, environment=lambda _workload: {})
    counting.unlink()
    files = sorted(bench.folder.glob("counts.*.fdata"))
    if not files:
        raise UpshiftError("the BOLT-instrumented server left no counts", f"see {bench.log}")
    return files


def _profile(
    kind: str, path: Path, sha256: str, provenance: Provenance, trained: tuple[Trained, ...], corrupt: int = 0
) -> Profile:
    return Profile.model_validate(
        {
            "kind": kind,
            "path": path,
            "sha256": sha256,
            "provenance": provenance,
            "duration_s": round(sum(each.duration_s for each in trained), 3),
            "queries": None if any(each.queries is None for each in trained) else sum(each.queries or 0 for each in trained),
            "corrupt": corrupt,
        }
    )


def settings_of(workloads: tuple[Workload, ...]) -> Mapping[str, str]:
    """The server configuration that all of the given workloads ask for."""
    return {name: value for workload in workloads for name, value in workload.settings.items()}
