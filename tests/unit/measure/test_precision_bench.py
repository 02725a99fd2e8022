"""tests/benches/precision.py: which instructions a query it calls."""

from __future__ import annotations

import importlib.util
from types import ModuleType

import pytest

from upshift.paths import CHECKOUT

BENCHES = CHECKOUT / "tests" / "benches"


@pytest.fixture
def precision(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(BENCHES)
    spec = importlib.util.spec_from_file_location("precision", BENCHES / "precision.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


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
def test_instructions_are_called_beyond_what_two_counts_differ_by(precision: ModuleType, ratio: float, verdict: str) -> None:
    row = precision.counted({"arm": "planted", "workload": "oltp_point_select", "ratio": ratio})
    assert row["metric"] == "instructions_per_query" and row["arm"] == "planted"
    assert row["verdict"] == verdict
    assert row["ci_low"] < ratio < row["ci_high"]
