"""The benchmarks start and take the options that they show."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from upshift.paths import CHECKOUT

BENCHES = sorted([*CHECKOUT.glob("crates/*/benches/*.py"), *CHECKOUT.glob("tests/benches/[!_]*.py")])


@pytest.mark.parametrize("file", BENCHES, ids=lambda file: file.name)
def test_a_benchmark_starts_and_says_what_it_takes(file: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(CHECKOUT / "src")}
    done = subprocess.run([sys.executable, str(file), "--help"], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("usage: ")
