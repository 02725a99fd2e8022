"""What surrounds a row's server is made ready before the first build, also where another row has the same build."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from upshift import needs, plan
from upshift.cli.study import _prepared
from upshift.resolve import measuring_plan
from upshift.server.mysql import KIND
from upshift.stages.work import Work
from upshift.study.file import read_study
from upshift.study.plan import make_plan

STUDY = """
budget = "2h"
workloads = ["oltp_read_only"]
[base]
recipe = "plain"
[factors.tier.memory]
tier = { size = "1M" }
"""


def test_the_page_cache_of_a_row_that_is_built_as_the_base_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was missing, or that of older sources, when the first server was to start with it."""
    asked: list[Any] = []
    monkeypatch.setattr(needs, "require_disk", lambda *_given: None)
    monkeypatch.setattr(plan, "prepare", lambda *_given, **_named: Work.model_construct(train_on=(), hold_out=()))
    monkeypatch.setattr(plan, "prepare_measuring", lambda *_given, **named: asked.extend(named["others"]))
    (tmp_path / "mine.toml").write_text(STUDY)
    study = read_study(tmp_path / "mine.toml")
    made = make_plan(study, KIND, measuring_plan(study.options()), {})
    assert len(made.built) == 1 and len(made.arms) == 2
    _prepared(study, made, 1, (), allow_install=False)
    assert [each.tier and each.tier.size for each in asked] == [None, "1M"]
