"""`upshift card`, and the card in a report: the real program on this machine."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from conftest import Cli

from upshift.card.model import Card, MachineCard

pytestmark = pytest.mark.pipeline

# The tests' own home has no Rust.
RUST = {
    "CARGO_HOME": os.environ.get("CARGO_HOME", str(Path.home() / ".cargo")),
    "RUSTUP_HOME": os.environ.get("RUSTUP_HOME", str(Path.home() / ".rustup")),
}
SHORT = ("--connections", "2", "--trials", "1", "--card-seconds", "5")


def test_a_card_has_figures_for_all_that_this_machine_has(cli: Cli, tmp_path: Path) -> None:
    done = cli("card", "--json", "--seconds", "5", "--folder", str(tmp_path), "--no-install", env=RUST)
    assert done.code == 0, done.stderr
    found = MachineCard.model_validate_json(done.stdout)
    assert list(tmp_path.iterdir()) == []
    assert len(found.card.system_call_ns) == len(found.card.fsync_us_p50) == 5
    assert len(found.card.two_cpus_round_trip_us) == (5 if len(found.card.cpus) > 1 else 0)
    assert all(len(each.load_ns) == 5 and min(each.load_ns) > 0 for each in found.card.loads)
    # On a busy machine no time may be left for some.
    assert len(found.card.footprints_bytes) == 8 or any("no time was left" in note for note in found.card.notes)
    assert set(Card.model_fields) == set(found.card.model_dump())


def test_bad_input_has_the_program_s_own_words(cli: Cli, tmp_path: Path) -> None:
    for arguments, said in (
        (("--folder", str(tmp_path / "gone")), "is not a folder"),
        (("--seconds", "1"), "from 5 to 600 seconds, not 1"),
    ):
        done = cli("card", *arguments, "--no-install", env=RUST)
        assert done.code == 2, done.stderr
        assert said in done.stderr and "hint:" in done.stderr and "Traceback" not in done.stderr


def test_a_report_has_the_card_of_its_machine(cli: Cli, plain: Path) -> None:
    done = cli.measure(f"a={plain}", f"b={plain}", *SHORT, env=RUST)
    assert done.code == 0, done.stderr
    result = done.result()
    assert result.card is not None and result.warnings == ()
    run = cli.runs()[-1]
    assert result.card.folder.startswith(str(run))
    assert 'id="machine-card"' in (run / "report.html").read_text()


def test_a_machine_that_cannot_be_measured_is_a_warning(fresh_cli: Cli, plain: Path, tmp_path: Path) -> None:
    broken = tmp_path / "bin" / "cargo"
    broken.parent.mkdir()
    broken.write_text("#!/bin/sh\nexit 1\n")
    broken.chmod(0o755)
    path = {"PATH": f"{broken.parent}:{os.environ['PATH']}"}
    done = fresh_cli.measure(f"a={plain}", f"b={plain}", *SHORT, env=path)
    assert done.code == 0, done.stderr
    result = done.result()
    assert result.card is None
    assert result.warnings == (
        "the machine card was not measured: there is no working cargo, which builds the programs in crates/",
    )
