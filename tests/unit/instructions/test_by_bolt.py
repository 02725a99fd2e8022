"""A server that BOLT has instrumented counts itself: two starts, a short run and a long one, and their slope."""

from __future__ import annotations

import io
import itertools
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from fakes import FakeClock, FakeKind, FakeProcess, FakeProgress, FakeShell, Output, toolchain
from rich.console import Console

from upshift.errors import CountFailed
from upshift.instructions import count
from upshift.instructions.by_bolt import MORE, read
from upshift.instructions.experiment import count_all
from upshift.instructions.model import Count, Instructions
from upshift.instructions.tools import Tool, find_bolt
from upshift.measure.variant import Variant
from upshift.profile.places import Places
from upshift.report import instructions
from upshift.server import instance
from upshift.server.kind import Program
from upshift.shell import Command
from upshift.workbench import Workbench
from upshift.workload.model import Workload

TRANSACTIONS = 10
STARTING = 1_000_000
"""What a start executes beside the statements."""
A_QUERY = 300
TOOL = Tool(source="bolt", version="22.1.8", toolchain=toolchain())

STATISTICS = """BOLT-INFO: program-wide dynostats after all optimizations before SCTC and FOP:

             {calls} : all function calls
           {instructions} : executed instructions
             1040 : total branches
            {taken} : taken branches

             {calls} : all function calls (=)
           1 : executed instructions (-0.2%)
            {taken} : taken branches (=)
"""


class Counting(FakeShell):
    """BOLT, and servers that leave counts; a statement is ``A_QUERY`` instructions, two calls and three taken branches."""

    def __init__(self, outputs: Mapping[str, Output] | None = None, *, leaves_counts: bool = True) -> None:
        effects = {
            "--instrument": Output(effect=self._instrument),
            "--events": Output(effect=self._load),
        }
        self._pids = itertools.count(100)
        self.processes: list[FakeProcess] = []
        super().__init__({**(outputs or {}), **effects}, self._started())
        self.leaves_counts = leaves_counts
        self.counts = Path()
        self.sent: list[int] = []

    def run(self, command: Command, **named: object) -> object:  # type: ignore[override]
        if "-dyno-stats" in command.argv:
            file = next(Path(word.removeprefix("-data=")) for word in command.argv if word.startswith("-data="))
            queries = int(file.read_text())
            text = STATISTICS.format(calls=7 + 2 * queries, instructions=STARTING + A_QUERY * queries, taken=5 + 3 * queries)
            self.outputs["-dyno-stats"] = Output(text)
        return super().run(command, **named)  # type: ignore[arg-type]

    def _instrument(self, command: Command) -> None:
        self.counts = next(Path(word.partition("=")[2]) for word in command.argv if word.startswith("--instrumentation-file="))

    def _started(self) -> Iterator[FakeProcess]:
        while True:
            self.processes.append(FakeProcess(pid=next(self._pids)))
            self.sent.append(0)
            yield self.processes[-1]

    def _load(self, command: Command) -> None:
        self.sent[-1] += next(int(word.removeprefix("--events=")) for word in command.argv if "--events" in word)
        if self.leaves_counts:
            self.counts.with_name(f"counts.{self.processes[-1].pid}.fdata").write_text(str(self.sent[-1]))


def workload(name: str = "reads") -> Workload:
    fixed = {"command": ["load", "--events={transactions}", "--seed={seed}"], "transactions": TRANSACTIONS}
    return Workload.model_validate({"name": name, "fill": {"command": ["fill"]}, "load": {"command": ["load"]}, "fixed": fixed})


def counted(shell: FakeShell, folder: Path, monkeypatch: pytest.MonkeyPatch, *names: str) -> Instructions:
    for module in (count, instance):
        monkeypatch.setattr(module, "time", FakeClock())
    monkeypatch.setattr(Places, "for_workloads", lambda *_given, **_named: Places([()]))
    (folder / "template").mkdir()
    server = folder / "server"
    server.write_bytes(b"\x7fELF")
    arm = Variant(name="plain", program=Program(kind="fake", binary=server))
    # The server counts the question itself as well, in both runs.
    queries = itertools.cycle((0, 1 + MORE * TRANSACTIONS, 0, 1 + 3 * MORE * TRANSACTIONS))
    workloads = tuple(map(workload, names or ("reads",)))
    bench = Workbench(folder / "own", shell, folder / "log", FakeProgress())
    return count_all(bench, FakeKind(queries=queries), (arm,), workloads, {"plain": folder / "template"}, TOOL)


def test_what_a_query_executes_is_the_slope_of_two_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shell = Counting()
    found = counted(shell, tmp_path, monkeypatch)
    assert found.not_counted == () and (found.source, found.version) == ("bolt", "22.1.8")
    (one,) = found.counts
    assert (one.instructions_per_query, one.calls_per_query, one.taken_branches_per_query) == (A_QUERY, 2, 3)
    assert one.queries == 2 * MORE * TRANSACTIONS
    assert [each.signals for each in shell.processes] == [[15], [15]], "a server that is killed writes no counts"


def test_both_starts_run_the_same_statements_before_those_that_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shell = Counting()
    counted(shell, tmp_path, monkeypatch)
    loads = [int(line.split("--events=")[1].split()[0]) for line in shell.lines if "--events" in line]
    assert loads == [MORE * TRANSACTIONS * times for times in (3, 1, 3, 3)]
    assert all(command.argv[:2] == ("setarch", "-R") for command in shell.spawned)
    assert all("--log=off" in command.argv for command in shell.spawned), "settings that keep it still"


def test_a_server_is_instrumented_once_for_all_workloads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shell = Counting()
    assert len(counted(shell, tmp_path, monkeypatch, "reads", "writes").counts) == 2
    assert sum("--instrument " in line for line in shell.lines) == 1
    assert not any(tmp_path.rglob("*.fdata")) and not any(tmp_path.rglob("counting-*")), "nor left behind"


def test_a_server_that_bolt_does_not_take_is_named_with_its_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = "BOLT-INFO: first\nllvm-bolt: 'server': BOLT-ERROR: input file was processed by BOLT. Cannot re-optimize.\n"
    shell = Counting({"-o ": Output(said, returncode=1)})
    found = counted(shell, tmp_path, monkeypatch)
    assert found.counts == ()
    (why,) = found.not_counted
    assert why.endswith("BOLT does not instrument it: input file was processed by BOLT. Cannot re-optimize")


def test_a_server_that_leaves_no_counts_is_not_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = counted(Counting(leaves_counts=False), tmp_path, monkeypatch)
    assert "left no counts when it ended" in found.not_counted[0]


def test_the_figures_are_those_of_the_server_as_it_was() -> None:
    found = read("BOLT-INFO: more\n" + STATISTICS.format(calls=12, instructions=900, taken=77))
    assert (found.instructions, found.calls, found.taken_branches) == (900, 12, 77)


@pytest.mark.parametrize("said", ["", "BOLT-INFO: 0 functions\n", "program-wide dynostats\n  12 : executed instructions\n"])
def test_without_statistics_nothing_is_made_up(said: str) -> None:
    with pytest.raises(CountFailed, match="no statistics"):
        read(said)


def test_bolt_is_found_where_a_toolchain_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    without = toolchain().model_copy(update={"bolt": None, "version": "23.0.0"})
    monkeypatch.setattr("upshift.instructions.tools.find_all", lambda *_given, **_named: (without, toolchain()))
    assert find_bolt(FakeShell()) == TOOL
    monkeypatch.setattr("upshift.instructions.tools.find_all", lambda *_given, **_named: (without,))
    assert find_bolt(FakeShell()) is None


def test_taken_branches_are_shown_where_they_were_counted() -> None:
    def shown(taken: float | None) -> str:
        one = Count(
            arm="plain",
            workload="reads",
            instructions_per_query=300,
            calls_per_query=2,
            taken_branches_per_query=taken,
            queries=9,
        )
        out = Console(file=io.StringIO(), width=120)
        instructions.show(Instructions(source="bolt", version="22.1.8", baseline="plain", counts=(one,)), out)
        assert isinstance(out.file, io.StringIO)
        return out.file.getvalue()

    assert "taken branches" in shown(3) and "3.0" in shown(3)
    assert "taken branches" not in shown(None)
