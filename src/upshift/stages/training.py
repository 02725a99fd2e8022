"""The stages that make a profile and judge it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from upshift.build.recipe import Recipe
from upshift.errors import ProfileRefused
from upshift.explain.names import demangled, plain_name
from upshift.explain.tools import find_tools
from upshift.profile import gate, gcc, llvm
from upshift.profile.model import Gated, HotSet, Profile, Provenance
from upshift.profile.training import Trained as TrainedOn
from upshift.profile.training import train
from upshift.shell import Shell
from upshift.source.model import Source
from upshift.stages.builds import Instrumented
from upshift.stages.data import Filled
from upshift.stages.keys import servers_key, workloads_key
from upshift.stages.lab import Lab
from upshift.stages.names import Stage
from upshift.toolchain.model import Toolchain
from upshift.values import file_sha256
from upshift.workbench import Workbench
from upshift.workload.model import Workload

VERSION = 3
"""Raised when the commands that train change, or what is refused as a profile: no key holds them."""


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
    number: int = 1,
) -> Profile:
    """The workloads on the instrumented server; their counters merged by share, and with those of the ``first`` training.

    Another ``number`` trains anew.
    """
    build = instrumented.build
    program = lab.kind.program(source.path, build.tree, build.server)
    provenance = Provenance(
        source_sha256=build.source_sha256,
        compiler=f"{build.toolchain.family} {build.toolchain.version}",
        flags=build.recipe.flags,
        workloads=recipe.trained_by(workload.name for workload in workloads),
    )

    def exercise(bench: Workbench, environment: Callable[[str], Mapping[str, str]]) -> tuple[TrainedOn, ...]:
        """Load the server, or run its own tests, as the recipe asks."""
        if recipe.training == "mtr":
            started = time.monotonic()
            lab.kind.verify(source.path, build.tree, build.server, recipe.training_tests, bench, lab.jobs, environment("mtr"))
            return (TrainedOn("mtr", 1.0, time.monotonic() - started, None),)
        return train(
            bench, lab.kind, program, filled.path, workloads, seconds=seconds, environment=lambda each: environment(each.name)
        )

    def llvm_action(bench: Workbench) -> Profile:
        raw = bench.folder / "raw"
        trained = exercise(bench, lambda name: {"LLVM_PROFILE_FILE": str(raw / name / "%p.profraw")})
        left = {each: tuple((raw / each.name).glob("*.profraw")) for each in trained}

        def refuse_silent(damaged: frozenset[Path]) -> None:
            if silent := [each.name for each, files in left.items() if damaged.issuperset(files)]:
                raise ProfileRefused(
                    f"the training left no whole profile: {', '.join(silent)}",
                    f"the server must end cleanly, be the instrumented one, and have room on the disk: see {bench.log}",
                )

        refuse_silent(frozenset(file for files in left.values() for file in files if not file.stat().st_size))
        shares = [(file, each.share) for each, files in left.items() for file in files]
        if first is not None:
            # Counts of the two trainings never meet: a function's context-sensitive ones are a record of their own.
            shares.append((first.path, min(share for _file, share in shares)))
        merged, damaged = llvm.merge(bench.shell, build.toolchain, shares, bench.folder, bench.log)
        refuse_silent(damaged)
        if damaged:
            bench.progress.note(f"{len(damaged)} raw profiles were damaged and left out: see {bench.log}")
        return _profile("ir", merged, file_sha256(merged), provenance, trained, len(damaged))

    def gcc_action(bench: Workbench) -> Profile:
        raw = bench.folder / "raw"
        trained = exercise(bench, lambda _name: gcc.redirected(raw))
        found = gcc.collect(raw, instrumented.counters, instrumented.objects, bench.folder)
        if found.cut:
            bench.progress.note(f"{found.cut} counter files were cut short and left out: see {bench.log}")
        return _profile("gcc", found.path, found.sha256, provenance, trained, found.cut)

    action = gcc_action if build.toolchain.family == "gcc" else llvm_action
    trains = (recipe.training, recipe.training_tests, lab.kind.suites.get(recipe.training_tests))
    inputs = {
        "build": build,
        "first": first,
        "trains": trains,
        "servers": servers_key(lab.kind, program, workloads),
        "workloads": workloads_key(workloads),
        "data": filled.sha256,
        "seconds": seconds,
        # Before, files that were cut short were kept among the others.
        **({"counters": "whole"} if build.toolchain.family == "gcc" else {}),
        # Before, tests of encryption found no keyring.
        **({"keyring": "found"} if recipe.training == "mtr" else {}),
        **({"number": number} if number > 1 else {}),
    }
    name = Stage.TRAIN if first is None else Stage.SECOND_TRAIN
    return lab.stages.run(name, Profile, action, inputs=inputs, version=VERSION)


def gate_profile(lab: Lab, profile: Profile, toolchain: Toolchain, hot_set: HotSet, *, again: bool = False) -> Gated:
    """Refuse a profile that would not help. Raises ProfileRefused."""

    def action(bench: Workbench) -> Gated:
        if profile.kind == "gcc":
            # GCC's counter files name no functions, so only their presence and size can be judged.
            notes = gate.examine(gcc.counts(profile.path), hot_set.model_copy(update={"functions": ()}), profile)
        else:
            counts = llvm.read(bench.shell, toolchain, profile.path)
            notes = gate.examine(counts, hot_set, profile, named=lambda symbols: _named(bench.shell, symbols))
        for note in notes:
            bench.progress.note(note)
        return Gated(profile=profile, notes=notes)

    name = Stage.SECOND_PROFILE_GATE if again else Stage.PROFILE_GATE
    limits = (gate.LEAST_EXECUTED, gate.LEAST_QUERIES, gate.LEAST_HOT_SHARE)
    inputs = {"profile": profile, "hot_set": hot_set, "toolchain": toolchain, "limits": limits}
    return lab.stages.run(name, Gated, action, inputs=inputs)


def _named(shell: Shell, symbols: list[str]) -> Iterable[str]:
    names = demangled(shell, find_tools(shell).demangler, symbols)
    return [plain_name(names[symbol]) for symbol in symbols]


def _profile(
    kind: str, path: Path, sha256: str, provenance: Provenance, trained: tuple[TrainedOn, ...], corrupt: int = 0
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
