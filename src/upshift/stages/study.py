"""The stages of a study: servers that start, arms measured in groups, and those that die in the middle."""

from __future__ import annotations

import contextlib
import functools
import itertools
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from upshift.door import lasting_settings
from upshift.errors import LoadFailed, ServerFailed, UsageError
from upshift.measure.bench import RunningArm
from upshift.measure.model import Experiment, Flag, Load, Metric, Slice
from upshift.measure.quality import of_parts
from upshift.measure.samples import read_samples
from upshift.measure.server_bench import ServerBench
from upshift.measure.variant import Variant
from upshift.run.directory import write_json
from upshift.server.instance import RunningServer
from upshift.server.kind import Program
from upshift.stages.data import Filled, fill_data
from upshift.stages.keys import program_key
from upshift.stages.lab import Lab
from upshift.stages.measure import measure, templates, with_settings
from upshift.stages.names import Stage
from upshift.stages.work import Measuring
from upshift.study.analysis import Part
from upshift.values import Value, content_hash, file_sha256
from upshift.workbench import Workbench
from upshift.workload.driver import RunningLoad

S = TypeVar("S")
G = TypeVar("G")

_DIED = "died.json"
_PLUGIN_DIR = "--plugin-dir="
_PARTS = "parts"
_CONFIRMING_SEED = 1000


class Made(Value):
    """A study's servers, as one training and one layout left them."""

    training: int
    layout: int
    arms: tuple[Variant, ...]

    def only(self, names: Iterable[str]) -> Made:
        """Without the arms of other names."""
        wanted = set(names)
        return self.model_copy(update={"arms": tuple(arm for arm in self.arms if arm.name in wanted)})


class Measured(Value):
    """What was measured of a study's arms."""

    parts: tuple[Part, ...]
    died: Mapping[str, str]
    """Arms that have no figures, and why."""
    flags: tuple[Flag, ...]

    def without(self, names: Iterable[str], why: str) -> Measured:
        """With these arms left out, too."""
        return self.model_copy(update={"died": {**self.died, **dict.fromkeys(names, why)}})


class Death(Value):
    """Of an arm: its server died, or its load failed."""

    part: int
    """The part that it is left out from, counted from 1: those before it have its figures."""
    message: str


class _Tried(Value):
    """All servers started."""

    started: tuple[str, ...]


class WatchedBench(ServerBench):
    """The real bench, which tells whose fault a failure is: an experiment that fails says only that it did."""

    def __init__(self, *given: Any, fallen: set[str]) -> None:
        """``fallen`` takes the names of arms that failed."""
        super().__init__(*given)
        self._fallen = fallen
        self._loads: dict[int, RunningLoad] = {}
        """The last one of each server, by the server's process."""

    @contextlib.contextmanager
    def arm(self, arm: Variant, trial: int) -> Iterator[RunningServer]:
        began = False
        try:
            with super().arm(arm, trial) as server:
                began = True
                try:
                    yield server
                except (ServerFailed, LoadFailed):
                    if self._failed(server):
                        self._fallen.add(arm.name)
                    raise
        except ServerFailed:
            if not began:
                self._fallen.add(arm.name)
            raise

    def check(self, running: RunningArm) -> None:
        try:
            super().check(running)
        except ServerFailed:
            self._fallen.add(self.variant_of(running).name)
            raise

    def begin(self, running: RunningArm, load: Load, seconds: float, seed: int) -> RunningLoad:
        begun = super().begin(running, load, seconds, seed)
        self._loads[running.pid] = begun
        return begun

    def _failed(self, server: RunningServer) -> bool:
        """Whether it is dead or hangs, or its load ended with an error."""
        if server.process.poll() is not None or not server.kind.ready(server.socket):
            return True
        load = self._loads.get(server.pid)
        return load is not None and load.process.poll() not in (None, 0)


def study_data(lab: Lab, variants: tuple[Variant, ...], measuring: Measuring) -> Filled:
    """What the first variant's server fills, for all of its format."""
    first = variants[0]
    workloads = measuring.train_on + measuring.hold_out
    return fill_data(lab, first.program, workloads, settings=lasting_settings(lab.kind_of(first.program), first))


def try_out(lab: Lab, variants: tuple[Variant, ...], data: Filled, measuring: Measuring) -> None:
    """Start each server once. Raises UsageError for one that does not, such as for a setting that it refuses."""
    workloads = {workload.name: workload for workload in (*measuring.train_on, *measuring.hold_out)}
    variants = with_settings(lab, variants, measuring)
    filled = templates(lab, variants, data, tuple(workloads.values()))

    def action(bench: Workbench) -> _Tried:
        folders = {name: template.path for name, template in filled.items()}
        servers = ServerBench(bench.shell, lab.kind_of, measuring.plan, workloads, folders, bench.folder / "data", bench.log)
        for number, variant in enumerate(variants):
            bench.progress.update(number, len(variants), variant.name)
            try:
                with servers.arm(variant, 0):
                    pass
            except ServerFailed as error:
                raise UsageError(f"row '{variant.name}' is impossible: {error.message}", error.hint) from error
        return _Tried(started=tuple(variant.name for variant in variants))

    inputs = {
        "arms": variants,
        "programs": [program_key(arm.program) for arm in variants],
        "data": {name: template.sha256 for name, template in filled.items()},
    }
    lab.stages.run(Stage.TRY, _Tried, action, inputs=inputs, keep=False)


def measure_arms(
    lab: Lab,
    made: tuple[Made, ...],
    data: Filled,
    measuring: Measuring,
    *,
    trials: int,
    groups: tuple[tuple[str, ...], ...],
) -> Measured:
    """Each training's and layout's arms in ``groups`` that run side by side, the first arm in each; ``trials`` over all.

    An arm that dies, or whose load fails, is left out from then on: its group begins the trial again without it. Raises
    ServerFailed or LoadFailed when it is the first one, or when it is not known which.
    """
    (lab.run.path / _PARTS).mkdir(exist_ok=True)
    died = read_died(lab.run.path)
    parts: list[Part] = []
    flags: list[Flag] = []
    # The seed of all groups of the same servers is one: their trials are of one order of loads.
    for at, (seed, each), members in numbered(enumerate(made, 1), groups):
        plan = measuring.plan.model_copy(update={"trials": trials // len(made), "seed": seed})
        part = measuring.model_copy(update={"plan": plan})
        experiment = _measure_living(lab, each.only(members).arms, data, part, died, at=at)
        if experiment is None:
            continue
        slices = slices_of(lab.run.path / samples_of(at), died, at)
        parts.append(Part(training=each.training, layout=each.layout, slices=slices))
        flags += experiment.flags
    why = {name: death.message for name, death in died.items()}
    return Measured(parts=tuple(parts), died=why, flags=of_parts(flags))


def confirm(lab: Lab, arms: tuple[Variant, ...], data: Filled, measuring: Measuring, trials: int, metric: Metric) -> Experiment:
    """The recommended set against all off, in trials that chose nothing, compared in ``metric`` as well."""
    plan = measuring.plan.model_copy(update={"trials": trials, "seed": _CONFIRMING_SEED})
    file = f"{_PARTS}/{Stage.CONFIRM}.parquet"
    filled = templates(lab, arms, data, measuring.train_on + measuring.hold_out)
    return measure(
        lab, arms, filled, measuring.model_copy(update={"plan": plan}), name=Stage.CONFIRM, samples=file, judged=metric
    )


def _measure_living(
    lab: Lab,
    group: tuple[Variant, ...],
    data: Filled,
    part: Measuring,
    died: dict[str, Death],
    *,
    at: int,
) -> Experiment | None:
    """None when all but the first are dead."""
    # The dead stay in the experiment by name: without them it would be another, and its finished trials would not count.
    while len(dead := [arm.name for arm in group if arm.name in _gone(died, at)]) < len(group) - 1:
        fallen: set[str] = set()
        try:
            bench_of = functools.partial(WatchedBench, fallen=fallen)
            filled = templates(lab, group, data, part.train_on + part.hold_out)
            name = f"{Stage.MEASURE} {at}"
            return measure(lab, group, filled, part, name=name, samples=samples_of(at), bench_of=bench_of, without=dead)
        except (ServerFailed, LoadFailed) as error:
            if not fallen or group[0].name in fallen:
                raise
            for each in sorted(fallen):
                died[each] = Death(part=at, message=error.message)
                lab.progress.note(f"row '{each}' is left out: {error.message.splitlines()[0]}")
            write_json(lab.run.path / _DIED, {name: death.model_dump() for name, death in died.items()})
    return None


def _gone(died: Mapping[str, Death], at: int) -> set[str]:
    """The arms that are left out of a part."""
    return {name for name, death in died.items() if death.part <= at}


def numbered(made: Iterable[S], groups: Iterable[G]) -> Iterator[tuple[int, S, G]]:
    """The parts of a study in the order in which they are measured, counted from 1: the servers and the group of each."""
    for at, (servers, group) in enumerate(itertools.product(made, groups), 1):
        yield at, servers, group


def samples_of(at: int) -> str:
    """The file of a part's raw samples, in the run's folder."""
    return f"{_PARTS}/{Stage.MEASURE}-{at}.parquet"


def slices_of(file: Path, died: Mapping[str, Death], at: int) -> tuple[Slice, ...]:
    """The samples of a part, without those of arms that had died by its end."""
    gone = _gone(died, at)
    return tuple(one for one in read_samples(file) if one.arm not in gone)


def read_died(run: Path) -> dict[str, Death]:
    """Those that a run has lost: in another attempt they would die again."""
    file = run / _DIED
    kept = json.loads(file.read_text()) if file.is_file() else {}
    return {name: Death.model_validate(death) for name, death in kept.items()}


def files_of(program: Program) -> list[str]:
    """What tells a server's files from another's: the SHA-256 of its executable, and of each plugin that was linked for it. A
    patched server's other plugins are links to those of stock.
    """
    folders = [Path(option.removeprefix(_PLUGIN_DIR)) for option in program.options if option.startswith(_PLUGIN_DIR)]
    plugins = sorted(file for folder in folders for file in folder.glob("*.so") if not file.is_symlink())
    return [file_sha256(program.binary), *(f"{file.name} {file_sha256(file)}" for file in plugins)]


def same_servers(variants: tuple[Variant, ...], sha256: Mapping[str, str]) -> dict[str, str]:
    """Each variant's name with the first one whose executable and surroundings are the same, itself where it is the first;
    ``sha256`` has what the executables consist of.
    """
    firsts: dict[str, str] = {}
    found = {}
    for variant in variants:
        surroundings = variant.model_dump(mode="json", exclude={"name", "program"})
        key = content_hash({"sha256": sha256[variant.name], "options": len(variant.program.options), **surroundings})
        found[variant.name] = firsts.setdefault(key, variant.name)
    return found


def parts_of(run: Path) -> list[Path]:
    """The files of raw samples of a study's parts, without those that another plan has put aside."""
    return sorted(file for file in (run / _PARTS).glob("*.parquet") if ".old-" not in file.name)
