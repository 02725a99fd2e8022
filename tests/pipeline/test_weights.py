"""A workload's weight is its share of the server's work: how long it was trained changes nothing in the merged profile."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from conftest import SMALL, SOURCE, workload

from upshift.build.recipe import find_recipe
from upshift.build.whole import build_whole
from upshift.console import ConsoleProgress
from upshift.profile import llvm
from upshift.profile.training import Trained, train
from upshift.server.data import template
from upshift.server.kinds import default_kind
from upshift.shell import Command, SystemShell
from upshift.source.model import Source
from upshift.toolchain import flags
from upshift.toolchain.find import find
from upshift.workbench import Workbench
from upshift.workload.library import find_workload
from upshift.workload.model import Workload

pytestmark = pytest.mark.pipeline


def small(name: str) -> Workload:
    """A workload on so few rows that to load them at the start, which each server does once, counts for nothing."""
    given = find_workload(workload(name))
    fill, load = given.fill, given.load
    return given.model_copy(
        update={
            "fill": fill.model_copy(update={"command": (*fill.command, *_FEW)}),
            "load": load.model_copy(update={"command": (*load.command, *_FEW)}),
        }
    )


_FEW = ("--rows", "300", "--tables", "1")


@dataclass(frozen=True)
class Training:
    """A workload's raw profile, and what the server did for it."""

    raw: Path
    trained: Trained


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workbench]:
    folder = tmp_path_factory.mktemp("weights")
    shell = SystemShell()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("UPSHIFT_SERVER_KIND", str(SMALL / "kind.py"))
        yield Workbench(folder, shell, folder / "log", ConsoleProgress(1))
    shell.close()


@pytest.fixture(scope="module")
def trainings(bench: Workbench) -> tuple[Training, Training, Training]:
    """Point for four seconds and for sixteen, and scan for four."""
    kind, clang = default_kind(), find("clang", shell=bench.shell)
    source = Source(kind=kind.name, version="1", origin="tests", sha256="0", verified="none", path=SOURCE)
    instrumented = flags.instrument("clang", bench.folder / "counters")
    built = build_whole(bench, kind, source, find_recipe("plain"), clang, extra=instrumented)
    program = kind.program(source.path, built.tree, built.server)
    filled = template(bench.shell, kind, program, (small("point"),), bench.folder / "filled", bench.log)

    def training(name: str, seconds: float) -> Training:
        raw = bench.folder / f"{name}-{seconds}.profraw"
        (trained,) = train(
            bench,
            kind,
            program,
            filled,
            (small(name),),
            seconds=seconds,
            environment=lambda _each: {"LLVM_PROFILE_FILE": str(raw)},
        )
        return Training(raw, trained)

    return training("point", 4), training("point", 16), training("scan", 4)


def overlap(bench: Workbench, one: Path, other: Path) -> float:
    """The part of two profiles that is the same, as llvm-profdata sees it: 0 to 1."""
    profdata = find("clang", shell=bench.shell).profdata
    shown = bench.shell.run(Command((str(profdata), "overlap", str(one), str(other)))).stdout
    found = re.search(r"Edge profile overlap: ([\d.]+)%", shown)
    assert found is not None, shown
    return float(found[1]) / 100


def test_four_times_the_training_time_of_one_workload_changes_nothing(
    bench: Workbench, trainings: tuple[Training, Training, Training]
) -> None:
    short, long, scan = trainings
    clang = find("clang", shell=bench.shell)

    def merged(*shares: tuple[Path, float]) -> Path:
        return llvm.merge(bench.shell, clang, shares, bench.folder, bench.log)[0]

    def by_share(*each: Training) -> Path:
        return merged(*((one.raw, one.trained.share) for one in each))

    def by_weight(*each: Training) -> Path:
        return merged(*((one.raw, one.trained.weight) for one in each))

    assert long.trained.cpu_s and short.trained.cpu_s and long.trained.cpu_s > 2 * short.trained.cpu_s
    # Without shares the longer training has four fifths of the counts in place of half of them.
    before, now = (overlap(bench, how(short, scan), how(long, scan)) for how in (by_weight, by_share))
    # A share is a part of CPU time, and other work on the machine makes the same query cost some per cent more or less.
    assert 1 - now < (1 - before) / 2, (before, now)
