"""`upshift card`, and the card in a report: the real program on this machine."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import Cli

from upshift.card.model import Card, MachineCard
from upshift.native.programs import CARD, PROGRAMS, target_dir

pytestmark = pytest.mark.pipeline


@pytest.fixture(scope="module")
def programs() -> dict[str, str]:
    """The environment of an ``upshift`` that takes what cargo test has just built, and need not build it."""
    folder = target_dir() / "debug"
    if not (folder / CARD).is_file():
        pytest.skip(f"{CARD} is not built: cargo test builds it")
    return {PROGRAMS: str(folder)}


def test_a_card_has_figures_for_all_that_this_machine_has(cli: Cli, programs: dict[str, str], tmp_path: Path) -> None:
    done = cli("card", "--json", "--seconds", "5", "--folder", str(tmp_path), "--no-install", env=programs)
    assert done.code == 0, done.stderr
    found = MachineCard.model_validate_json(done.stdout)
    assert list(tmp_path.iterdir()) == []
    assert len(found.card.system_call_ns) == len(found.card.fsync_us_p50) == 5
    assert len(found.card.two_cpus_round_trip_us) == (5 if len(found.card.cpus) > 1 else 0)
    assert all(len(each.load_ns) == 5 and min(each.load_ns) > 0 for each in found.card.loads)
    # On a busy machine no time may be left for some.
    assert len(found.card.footprints_bytes) == 8 or any("no time was left" in note for note in found.card.notes)
    assert set(Card.model_fields) == set(found.card.model_dump())


def test_bad_input_has_the_program_s_own_words(cli: Cli, programs: dict[str, str], tmp_path: Path) -> None:
    for arguments, said in (
        (("--folder", str(tmp_path / "gone")), "is not a folder"),
        (("--seconds", "1"), "from 5 to 600 seconds, not 1"),
    ):
        done = cli("card", *arguments, "--no-install", env=programs)
        assert done.code == 2, done.stderr
        assert said in done.stderr and "hint:" in done.stderr and "Traceback" not in done.stderr


def test_a_report_has_the_card_of_its_machine(cli: Cli, programs: dict[str, str], plain: Path) -> None:
    short = ("--connections", "2", "--trials", "1", "--card-seconds", "5")
    done = cli.measure(f"a={plain}", f"b={plain}", *short, env=programs)
    assert done.code == 0, done.stderr
    result = done.result()
    assert result.card is not None and result.warnings == ()
    run = cli.runs()[-1]
    assert result.card.folder.startswith(str(run))
    assert 'id="machine-card"' in (run / "report.html").read_text()
