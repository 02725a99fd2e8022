"""The key of a count says all that the count depends on; what cannot be counted is named."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fakes import FakeKind
from keys_of import Recorder, lab_with, workload

from upshift.instructions.experiment import nothing_counted
from upshift.instructions.model import Instructions
from upshift.instructions.tools import NOTHING_COUNTS, Tool
from upshift.measure.variant import Variant
from upshift.options import Options
from upshift.server.kind import Program
from upshift.stages import count
from upshift.stages.data import Filled
from upshift.stages.work import Measuring
from upshift.workload.model import FixedCommand, Workload


@pytest.fixture
def driver(tmp_path: Path) -> Path:
    file = tmp_path / "driver"
    file.write_text("load 1")
    return file


def counted(
    monkeypatch: pytest.MonkeyPatch,
    stages: Recorder,
    *loads: Workload,
    version: str | None = "3.19.0",
    filled: str = "0",
    by_function: bool = False,
) -> Instructions:
    tool = Tool(source="callgrind", version=version) if version else None
    monkeypatch.setattr(count, "find_tool", lambda _shell, *, by_function: tool)
    monkeypatch.setattr(count, "program_key", lambda program: program)
    measuring = Measuring.model_construct(options=Options(), train_on=loads, hold_out=(), plan=None)
    arms = (Variant(name="a", program=Program(kind="fake", binary=Path("/a"))),)
    data = {"a": Filled(path=Path("/data"), sha256=filled)}
    return count.count_instructions(lab_with(stages), arms, data, measuring, by_function=by_function)


def counting_key(monkeypatch: pytest.MonkeyPatch, load: Workload, **given: Any) -> str:
    stages = Recorder(Instructions(source="callgrind", baseline="a"))
    counted(monkeypatch, stages, load, **given)
    return stages.keys[-1][1]


def fixed(driver: Path, transactions: int = 100) -> FixedCommand:
    return FixedCommand(command=(str(driver), "{transactions}"), transactions=transactions)


def test_a_count_is_kept_until_something_that_it_depends_on_changes(monkeypatch: pytest.MonkeyPatch, driver: Path) -> None:
    load = workload(driver, fixed=fixed(driver))
    first = counting_key(monkeypatch, load)
    assert counting_key(monkeypatch, load.model_copy(update={"description": "told better"})) == first
    others = [
        counting_key(monkeypatch, load.model_copy(update={"fixed": fixed(driver, 101)})),
        counting_key(monkeypatch, load, version="3.25.0"),
        counting_key(monkeypatch, load, filled="1"),
        counting_key(monkeypatch, load, by_function=True),
    ]
    driver.write_text("load 2")
    others.append(counting_key(monkeypatch, load))
    monkeypatch.setattr(count, "cpu_model", lambda: "another")
    others.append(counting_key(monkeypatch, load))
    assert len({first, *others}) == 7


class Runner:
    """Stands in for ``Stages``: runs each stage's action."""

    def run(self, _name: str, _result: Any, action: Callable[[Any], Any], **_named: Any) -> Any:
        return action(SimpleNamespace())


def counted_of(monkeypatch: pytest.MonkeyPatch, driver: Path, *kinds: FakeKind) -> tuple[Instructions, list[str]]:
    """What is counted of a server of each kind, and which servers that was asked of."""
    monkeypatch.setattr(count, "find_tool", lambda _shell, *, by_function: Tool(source="callgrind", version="3"))
    monkeypatch.setattr(count, "program_key", lambda program: program)
    asked: list[str] = []

    def count_all(_bench: Any, _kind: Any, arms: tuple[Variant, ...], *_given: Any, **_named: Any) -> Instructions:
        asked.extend(arm.name for arm in arms)
        return Instructions(source="callgrind", baseline=arms[0].name)

    monkeypatch.setattr(count, "count_all", count_all)
    load = workload(driver, fixed=fixed(driver))
    measuring = Measuring.model_construct(options=Options(), train_on=(load,), hold_out=(), plan=None)
    arms = tuple(
        Variant(name=name, program=Program(kind=kind.name, binary=Path("/a"))) for name, kind in zip("abc", kinds, strict=False)
    )
    lab: Any = lab_with(Runner())
    lab.kind_of = lambda program: next(kind for kind in kinds if kind.name == program.kind)
    data = {arm.name: Filled(path=Path("/data"), sha256="0") for arm in arms}
    return count.count_instructions(lab, arms, data, measuring), asked


def test_a_server_of_several_processes_is_not_counted(monkeypatch: pytest.MonkeyPatch, driver: Path) -> None:
    several = FakeKind(name="postgres", one_process=False)
    found, asked = counted_of(monkeypatch, driver, several, several)
    assert found.not_counted == ("a postgres is several processes, and instructions are counted of one",)
    assert found.source == "none" and asked == []


def test_servers_of_another_kind_than_the_first_are_named_and_not_counted(
    monkeypatch: pytest.MonkeyPatch, driver: Path
) -> None:
    one = FakeKind()
    found, asked = counted_of(monkeypatch, driver, one, FakeKind(name="several", one_process=False), one)
    assert found.not_counted == ("server 'b' is of another kind than 'a'",) and asked == ["a", "c"]


def test_a_workload_without_a_fixed_command_is_named_and_changes_no_count(
    monkeypatch: pytest.MonkeyPatch, driver: Path
) -> None:
    load = workload(driver, fixed=fixed(driver), unit="transaction")
    silent = workload(driver, name="silent", unit="transaction")
    stages = Recorder(Instructions(source="callgrind", baseline="a"))
    found = [counted(monkeypatch, stages, *loads) for loads in ((load,), (load, silent))]
    assert [each.transactions for each in found] == [("w",), ("w",)]
    assert [each.not_counted for each in found] == [(), ("workload 'silent' has no [fixed] command",)]
    assert stages.keys[0] == stages.keys[1]


def test_where_nothing_counts_that_is_all_that_is_said(monkeypatch: pytest.MonkeyPatch, driver: Path) -> None:
    stages = Recorder(nothing_counted("a", NOTHING_COUNTS))
    assert counted(monkeypatch, stages, workload(driver), version=None).not_counted == (NOTHING_COUNTS,)
