"""result.json: what was saved is what is loaded, and whatever else lies there is refused with a reason."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from example import example

from upshift.errors import UpshiftError, UsageError
from upshift.report.store import load_result, save_result


@pytest.mark.parametrize("trials", [1, 6])
def test_a_result_survives(tmp_path: Path, trials: int) -> None:
    result = example(loss=True, trials=trials)
    assert save_result(result, tmp_path) == tmp_path / "result.json"
    assert load_result(tmp_path) == result
    assert [file.name for file in tmp_path.iterdir()] == ["result.json"]


def test_a_run_without_a_result(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="has no result") as caught:
        load_result(tmp_path)
    assert "upshift runs" in caught.value.hint


def test_another_schema_version_names_both_and_who_wrote_it(tmp_path: Path) -> None:
    path = save_result(example(), tmp_path)
    path.write_text(json.dumps({**json.loads(path.read_text()), "schema_version": 99, "upshift_version": "7.0"}))
    with pytest.raises(UpshiftError, match=r"version 99.*version 3") as caught:
        load_result(tmp_path)
    assert "7.0" in caught.value.hint


@pytest.mark.parametrize("content", ["", '{"schema_version": 3', "[]", '{"schema_version": 3, "run": "x"}'])
def test_a_damaged_file(tmp_path: Path, content: str) -> None:
    (tmp_path / "result.json").write_text(content)
    with pytest.raises(UpshiftError, match="damaged"):
        load_result(tmp_path)
