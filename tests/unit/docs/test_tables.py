"""The documents' tables are those that their results give."""

from __future__ import annotations

import json
import subprocess
import sys

from upshift.paths import CHECKOUT

SCRIPT = CHECKOUT / "docs" / "tables.py"


def test_no_figure_of_a_table_was_typed() -> None:
    done = subprocess.run([sys.executable, str(SCRIPT), "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_every_result_that_is_kept_is_drawn_somewhere() -> None:
    text = "".join(file.read_text() for file in CHECKOUT.rglob("*.md") if ".venv" not in file.parts)
    for result in (CHECKOUT / "docs" / "measurements").rglob("result.json"):
        assert json.loads(result.read_text())["schema_version"] >= 1
        assert str(result.relative_to(CHECKOUT)) in text
