"""A server whose variant asks for a tier is measured with one, or not at all."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from fake_bench import plan
from fakes import FakeKind, FakeShell, Output
from pydantic import ValidationError

from upshift.errors import ServerFailed, UsageError
from upshift.measure.server_bench import ServerBench
from upshift.measure.tier import TIER_OPTIONS, TIER_SWITCHES, Tier, refuse_shared_tiers
from upshift.measure.variant import Variant
from upshift.paths import CHECKOUT
from upshift.server.kind import Program

TIERED = Variant(name="tiered", program=Program(kind="fake", binary=Path("/opt/server")), tier=Tier(size="1G"))
ASKED = "upshift-cache stat --json --pid 4711"


def said(*, alive: bool = True, off: str = "") -> Output:
    return Output(json.dumps({"alive": alive, "off": off}))


def bench_with(shell: FakeShell, folder: Path) -> ServerBench:
    return ServerBench(shell, lambda _program: FakeKind(), plan(), {}, {TIERED.name: folder}, folder, folder / "log")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"medium": "mem"}, "'mem' is not memory, memory-lz4, file:PATH or direct:PATH"),
        ({"medium": "file:"}, "'file:' is not memory"),
        ({"medium": "memory:{folder}"}, "is not memory"),
        ({"mode": "writethrough"}, "'write-through', 'write-around'"),
        ({"sise": "1G"}, "sise"),
        ({"options": ("--cutof", "0")}, "'--cutof' is none of --audit, --cutoff"),
        ({"options": ("--size", "2G")}, "size, medium and mode have keys of their own"),
        ({"options": ("--dry-run",)}, "'--dry-run' is none of"),
        ({"options": ("--", "mysqld")}, "'--' is none of"),
        ({"options": ("--read-ahead", "yes")}, "'yes' is none of"),
        ({"options": ("--read-ahead=yes",)}, "'--read-ahead=yes' is none of"),
        ({"options": ("--cutoff",)}, "--cutoff has no value"),
        ({"options": ("--cutoff", "--read-ahead")}, "--cutoff has no value"),
    ],
)
def test_what_no_tier_takes_is_refused_before_any_server_starts(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=re.escape(said)):
        Tier.model_validate({"size": "1M", **given})


def test_the_options_of_a_tier_are_those_of_the_program() -> None:
    text = (CHECKOUT / "crates" / "tierctl" / "src" / "run.rs").read_text()
    fields = re.findall(r'#\[arg\(long(?: = "(\w+)")?[^\]]*\)\]\s+(?:pub )?(\w+): (\w+)', text)
    kinds = {f"--{(name or field).replace('_', '-')}": kind for name, field, kind in fields}
    own = {"--size", "--medium", "--mode", "--dry-run", "--print-systemd"}
    assert {name for name, kind in kinds.items() if kind == "bool"} - own == TIER_SWITCHES
    assert {name for name, kind in kinds.items() if kind != "bool"} - own == TIER_OPTIONS


def with_tiers(*tiers: dict[str, Any]) -> list[tuple[str, Tier]]:
    return [(f"server {number}", Tier.model_validate({"size": "1M", **each})) for number, each in enumerate(tiers)]


def test_two_servers_have_no_tier_in_one_place(tmp_path: Path) -> None:
    """The second server's tier did not open, minutes into the first trial."""
    (tmp_path / "disk").symlink_to("device")
    same = ({"medium": f"file:{tmp_path}/device"}, {"medium": f"direct:{tmp_path}/disk", "options": ("--audit", "0")})
    with pytest.raises(UsageError, match=f"server 0 and server 1 have a tier in {tmp_path}/device") as error:
        refuse_shared_tiers(with_tiers(*same))
    assert "{folder}/medium" in error.value.hint
    with pytest.raises(UsageError, match="have a tier in /run/page"):
        refuse_shared_tiers(with_tiers({"options": ("--status", "/run/page")}, {"options": ("--status=/run/page",)}))
    refuse_shared_tiers(with_tiers({}, {}, {"medium": "file:{folder}/tier"}, {"medium": "file:{folder}/tier"}, same[0]))


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
    with pytest.raises(ServerFailed, match="16 failures"), bench.arm(TIERED, trial=1) as server:
        bench.check(server)
        shell.outputs[ASKED] = said(off="16 failures of medium")
        bench.check(server)


def test_a_server_without_a_tier_is_not_asked(tmp_path: Path) -> None:
    shell = FakeShell()
    with bench_with(shell, tmp_path).arm(TIERED.model_copy(update={"tier": None}), trial=0):
        pass
    assert not any("upshift-cache" in line for line in shell.lines)
