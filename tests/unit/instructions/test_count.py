"""What a query executes is a slope; one server that can't be counted costs a sentence, never a run."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest
from fakes import FakeClock, FakeKind, FakeProcess, FakeProgress, FakeShell, Output, half_a_copy

from upshift.errors import CommandFailed, CountFailed, LoadFailed
from upshift.instructions import count, experiment
from upshift.instructions.executed import Cost, Executed, Function
from upshift.instructions.experiment import count_all
from upshift.instructions.model import Count, Instructions, Ratio
from upshift.instructions.tools import Tool
from upshift.measure.variant import Variant
from upshift.profile.places import Places
from upshift.server import instance
from upshift.server.kind import Program
from upshift.shell import Command
from upshift.workbench import Workbench
from upshift.workload.model import Workload

BESIDE = 5_000
"""What a run executes beside its statements: logging in, and the like."""
A_QUERY = 300
TOOL = Tool(source="callgrind", version="3.19.0")


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (count, instance):
        monkeypatch.setattr(module, "time", FakeClock())


def workload(name: str = "reads", **more: object) -> Workload:
    fixed = {"command": ["load", "--events={transactions}", "--seed={seed}"], "transactions": 10}
    return Workload.model_validate(
        {"name": name, "fill": {"command": ["fill"]}, "load": {"command": ["load"]}, "fixed": fixed, **more}
    )


def arm(name: str = "plain", **more: object) -> Variant:
    return Variant.model_validate({"name": name, "program": Program(kind="fake", binary=Path(f"/{name}")), **more})


class Counting(FakeShell):
    """A server of two threads: the client's executes ``a_query`` instructions a transaction, the other more at times."""

    def __init__(self, a_query: int = A_QUERY, processes: Iterator[FakeProcess] | None = None, **outputs: Output) -> None:
        effects = {" dump": Output(effect=self._dump), "--events": Output(effect=self._load)}
        super().__init__({**outputs, **effects}, processes)
        self.a_query, self.sent, self.dumps = a_query, 0, itertools.count(1)

    def _load(self, command: Command) -> None:
        self.sent += next(int(word.removeprefix("--events=")) for word in command.argv if "--events" in word)

    def _dump(self, command: Command) -> None:
        folder = Path(command.argv[1].removeprefix("--vgdb-prefix=")).parent
        number = next(self.dumps)
        executed = BESIDE + self.a_query * self.sent
        for thread, instructions in ((1, executed), (7, 400 + 100 * (number % 2))):
            text = f"events: Ir\nfn=(1) a\ncalls={2 * self.sent if thread == 1 else 1} 0\n0 1\ntotals: {instructions}\n"
            (folder / f"counts.{number}-{thread:02}").write_text(text)
        self.sent = 0


class Counted(FakeKind):
    """A server that counts each transaction as one query, and the questions themselves as well."""


def counted(shell: FakeShell, folder: Path, variant: Variant, load: Workload) -> Count:
    template = folder / "template"
    template.mkdir(exist_ok=True)
    kind = Counted(queries=iter((11, 22, 22, 53)))
    return count.count(shell, kind, variant, load, template, folder / "own", tool=TOOL, cpus=(1,), log=folder / "log")


def test_what_a_query_executes_is_the_slope_of_the_clients_thread(tmp_path: Path) -> None:
    found = counted(Counting(), tmp_path, arm(), workload())
    assert found == Count(arm="plain", workload="reads", instructions_per_query=A_QUERY, calls_per_query=2.0, queries=20), (
        "what both runs execute beside their statements is in neither"
    )
    assert not (tmp_path / "own").exists(), "a gigabyte of data is not left behind"


def test_the_statements_run_once_before_they_count(tmp_path: Path) -> None:
    shell = Counting()
    counted(shell, tmp_path, arm(client=("--text",)), workload())
    loads = [line for line in shell.lines if "load" in line]
    assert loads == [f"taskset -c 1 load --events={many} --seed=1 --text" for many in (30, 10, 30)]
    first_count = next(number for number, line in enumerate(shell.lines) if "instrumentation on" in line)
    assert shell.lines.index(loads[0]) < first_count < shell.lines.index(loads[1])


def test_the_server_is_made_repeatable_where_nobody_wants_it_otherwise(tmp_path: Path) -> None:
    shell = Counting()
    variant = arm(settings={"timer": "9"}, environment={"LD_PRELOAD": "x.so"}, under=("chrt", "-b", "0"))
    counted(shell, tmp_path, variant, workload(settings={"pool": "2G"}))
    (started,) = shell.spawned
    assert dict(started.env) == {"OWN": "1", "ARENAS": "1", "LD_PRELOAD": "x.so"}
    assert started.argv[:6] == ("chrt", "-b", "0", "setarch", "-R", "valgrind")
    assert {"--pool=2G", "--log=off", "--timer=9"} <= set(started.argv)


def test_the_server_is_killed_as_nobody_needs_its_data(tmp_path: Path) -> None:
    process = FakeProcess()
    counted(Counting(processes=iter((process,))), tmp_path, arm(), workload())
    assert process.signals == [9]


def test_a_copy_that_fails_leaves_no_half_of_the_data(tmp_path: Path) -> None:
    with pytest.raises(CommandFailed):
        counted(FakeShell({"cp -a": Output("cp: No space left on device", 1, half_a_copy)}), tmp_path, arm(), workload())
    assert not (tmp_path / "own").exists()


@pytest.mark.parametrize(
    ("short", "long"),
    [
        ((Executed(900, 1), 10), (Executed(2000, 1), 10)),
        ((Executed(900, 1), 10), (Executed(2000, 1), 9)),
        ((Executed(900, 1), 10), (Executed(900, 1), 30)),
    ],
    ids=["no more queries", "fewer queries", "no more instructions"],
)
def test_a_run_that_was_not_longer_has_no_slope(short: tuple[Executed, int], long: tuple[Executed, int]) -> None:
    with pytest.raises(CountFailed, match="did not make the server execute more"):
        count.slope("plain", "reads", short, long)


def test_a_load_that_fails_is_named(tmp_path: Path) -> None:
    shell = FakeShell({"--events": Output("no such table", returncode=1)})
    with pytest.raises(LoadFailed, match="the fixed command of workload 'reads' failed"):
        counted(shell, tmp_path, arm(), workload())


def everything(shell: FakeShell, folder: Path, workloads: tuple[Workload, ...]) -> Instructions:
    (folder / "template").mkdir()
    arms = (arm(), arm("new"))
    bench = Workbench(folder, shell, folder / "log", FakeProgress())
    kind = Counted(queries=itertools.chain(*itertools.repeat((11, 22, 22, 53), 4)))
    return count_all(bench, kind, arms, workloads, {each.name: folder / "template" for each in arms}, TOOL)


def test_all_servers_are_compared_with_the_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Places, "for_workloads", lambda *_given, **_named: Places([()]))
    counts = {"plain": 200.0, "new": 150.0}

    def one(*given: object, **_named: object) -> Count:
        variant, load = given[2], given[3]
        assert isinstance(variant, Variant) and isinstance(load, Workload)
        per_query = counts[variant.name]
        return Count(arm=variant.name, workload=load.name, instructions_per_query=per_query, calls_per_query=1, queries=9)

    monkeypatch.setattr(experiment, "count", one)
    found = everything(FakeShell(), tmp_path, (workload("reads"), workload("writes")))
    assert found.ratios == (Ratio(arm="new", workload="reads", ratio=0.75), Ratio(arm="new", workload="writes", ratio=0.75))
    assert (found.baseline, found.source, found.version, found.not_counted) == ("plain", "callgrind", "3.19.0", ())


def test_a_server_that_cannot_be_counted_costs_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Places, "for_workloads", lambda *_given, **_named: Places([()]))
    dies = iter((FakeProcess(), FakeProcess(code=4)))
    found = everything(Counting(processes=dies), tmp_path, (workload(),))
    assert [each.arm for each in found.counts] == ["plain"] and found.ratios == ()
    (why,) = found.not_counted
    assert why.startswith("server 'new' under workload 'reads': the server did not start (exit code 4)")


def test_a_tool_that_does_not_count_calls_leaves_them_out() -> None:
    found = count.slope("plain", "reads", (Executed(1000), 10), (Executed(3000), 30))
    assert (found.instructions_per_query, found.calls_per_query) == (100, None)


def test_functions_are_slopes_of_their_own_and_only_when_asked_for() -> None:
    run, once = Function("server", "run"), Function("server", "start")
    short = Executed(1100, 12, {run: Cost(1000, 10), once: Cost(100, 2)}), 10
    long = Executed(3100, 32, {run: Cost(3000, 30), once: Cost(100, 2)}), 30
    assert count.slope("plain", "reads", short, long).functions == ()
    found = count.slope("plain", "reads", short, long, by_function=True)
    assert [(each.symbol, each.instructions, each.calls) for each in found.functions] == [("run", 100, 1)]
    assert found.instructions_per_query == 100
