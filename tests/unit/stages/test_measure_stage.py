"""The stage that measures: what it tells the experiment of the arms."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fakes import FakeKind, FakeProgress, FakeShell

from upshift.measure.variant import Variant
from upshift.server.kind import Program
from upshift.stages import measure as stage
from upshift.stages.data import Filled
from upshift.workbench import Workbench


class Pooled(FakeKind):
    """A kind whose data folder's name is its size."""

    def pool_bytes(self, settings: Mapping[str, str]) -> int | None:
        return int(settings["pool"]) if settings["pool"].isdigit() else None

    def data_bytes(self, data: Path) -> int:
        return int(data.name)


@pytest.mark.parametrize(
    ("pools", "data", "told"),
    [
        ({"plain": "200", "baseline": "24"}, {"plain": "100", "baseline": "100"}, (24, 100)),
        ({"plain": "24", "large": "200"}, {"plain": "100", "large": "100"}, (24, 100)),
        # One that has data of its own: an index more.
        ({"plain": "200", "indexed": "200"}, {"plain": "100", "indexed": "300"}, (200, 300)),
        ({"plain": "unlimited", "small": "24"}, {"plain": "100", "small": "100"}, (24, 100)),
        ({"plain": "unlimited"}, {"plain": "100"}, (None, None)),
    ],
)
def test_the_flags_are_told_of_the_arm_whose_pool_holds_the_least_of_its_data(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, pools: dict[str, str], data: dict[str, str], told: tuple[int, int]
) -> None:
    given: dict[str, Any] = {}

    def run_experiment(_plan: Any, _arms: Any, baselines: Any, *_given: Any, **named: Any) -> Any:
        given.update(named, baselines=baselines)
        return SimpleNamespace(model_copy=lambda update: None)

    def run(_name: str, _output: type, action: Callable[[Workbench], Any], **_named: Any) -> Any:
        return action(Workbench(tmp_path, FakeShell(), tmp_path / "log", FakeProgress()))

    monkeypatch.setattr(stage, "run_experiment", run_experiment)
    monkeypatch.setattr(stage, "sampling", lambda _plan, _arms: contextlib.nullcontext())
    arms = tuple(
        Variant(name=name, program=Program(kind="fake", binary=tmp_path / "server"), settings={"pool": pool})
        for name, pool in pools.items()
    )
    (tmp_path / "server").touch()
    filled = {name: Filled(path=Path("/data") / size, sha256=size) for name, size in data.items()}
    lab: Any = SimpleNamespace(
        kind_of=lambda _program: Pooled(), stages=SimpleNamespace(run=run), run=SimpleNamespace(path=tmp_path)
    )
    options = SimpleNamespace(connections=(8,))
    measuring: Any = SimpleNamespace(options=options, train_on=(), hold_out=(), plan=None)
    stage.measure(lab, arms, filled, measuring, judged="run_delay_us_per_query")
    assert (given["pool_bytes"], given["data_bytes"]) == told
    assert given["judged"] == "run_delay_us_per_query"
    assert given["baselines"] == ("plain",), "whatever the others are called"
