"""tests/benches/precision.py: which instructions a query it calls."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from script_module import BENCHES, script_module


@pytest.fixture
def precision(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(BENCHES)
    return script_module(BENCHES / "precision.py")


@pytest.mark.parametrize(
    ("ratio", "verdict"),
    [
        (1.02, "slower"),
        (1.0021, "slower"),
        (1.0019, "inconclusive"),
        (1.0, "inconclusive"),
        (0.9981, "inconclusive"),
        (0.98, "faster"),
    ],
)
def test_instructions_are_called_beyond_what_two_counts_differ_by(precision: Any, ratio: float, verdict: str) -> None:
    row = precision.counted({"arm": "planted", "workload": "oltp_point_select", "ratio": ratio})
    assert row["metric"] == "instructions_per_query" and row["arm"] == "planted"
    assert row["verdict"] == verdict
    assert row["ci_low"] < ratio < row["ci_high"]


def test_runs_are_compared_again_in_a_file_that_is_written_anew(precision: Any, tmp_path: Path) -> None:
    """What it held may be of other runs, or of other rules."""
    file = tmp_path / "again.json"
    file.write_text("{}")
    with pytest.raises(SystemExit, match="several machines"):
        precision.again(file, [], as_measured=False)
    assert not file.exists()
