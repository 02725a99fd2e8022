"""A server whose variant asks for a tier is measured with one, or not at all."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from fake_bench import plan
from fakes import FakeKind, FakeShell, Output

from upshift.errors import ServerFailed
from upshift.measure.server_bench import ServerBench
from upshift.measure.variant import Tier, Variant
from upshift.server.kind import Program

TIERED = Variant(name="tiered", program=Program(kind="fake", binary=Path("/opt/server")), tier=Tier(size="1G"))
ASKED = "upshift-cache stat --json --pid 4711"


def said(*, alive: bool = True, off: str = "") -> Output:
    return Output(json.dumps({"alive": alive, "off": off}))


def bench_with(shell: FakeShell, folder: Path) -> ServerBench:
    return ServerBench(shell, lambda _program: FakeKind(), plan(), {}, {TIERED.name: folder}, folder, folder / "log")


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (Output("ERROR: no server runs with a tier\n", 1), "asks for$"),
        (said(alive=False, off="tier file /fast/tier is used by another server"), "asks for: tier file /fast/tier is used"),
        (said(off="16 failures of medium"), "asks for: 16 failures"),
    ],
)
def test_a_server_without_its_tier_is_not_measured(tmp_path: Path, answer: Output, why: str) -> None:
    bench = bench_with(FakeShell({ASKED: answer}), tmp_path)
    with (
        pytest.raises(ServerFailed, match=f"^arm 'tiered': the server runs without the tier that its variant {why}") as error,
        bench.arm(TIERED, trial=0),
    ):
        raise AssertionError("it is not loaded")
    assert str(tmp_path / "log") in error.value.hint


def test_a_tier_that_turned_itself_off_under_the_load_ends_the_trial(tmp_path: Path) -> None:
    shell = FakeShell({ASKED: said()})
    bench = bench_with(shell, tmp_path)
    with bench.arm(TIERED, trial=0):
        pass
    with pytest.raises(ServerFailed, match="16 failures"), bench.arm(TIERED, trial=1):
        shell.outputs[ASKED] = said(off="16 failures of medium")


def test_a_server_without_a_tier_is_not_asked(tmp_path: Path) -> None:
    shell = FakeShell()
    with bench_with(shell, tmp_path).arm(TIERED.model_copy(update={"tier": None}), trial=0):
        pass
    assert not any("upshift-cache" in line for line in shell.lines)
