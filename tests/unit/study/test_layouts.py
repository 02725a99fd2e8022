"""Layouts of a study's servers: refused where the tools that there are give one only."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fakes import toolchain

from upshift import needs, plan
from upshift.cli.study import _prepared
from upshift.errors import MissingTool
from upshift.options import Options
from upshift.resolve import measuring_plan
from upshift.server.mysql import KIND
from upshift.stages.work import Work
from upshift.study.file import read_study
from upshift.study.plan import make_plan
from upshift.toolchain.model import Toolchain

STUDY = """
budget = "2h"
workloads = ["oltp_read_only"]
layouts = 4
[base]
recipe = "plain"
[factors.optimised.on]
recipe = "max-clang"
"""
NO_BOLT = toolchain().model_copy(update={"bolt": None})
OLD = toolchain().model_copy(update={"version": "19.1.7", "major": 19})


@pytest.mark.parametrize(
    ("found", "layouts", "message"),
    [
        (toolchain(), 4, ""),
        (NO_BOLT, 4, "BOLT lays out row 'optimised', and there is none beside"),
        (OLD, 4, r"row 'off' is linked by lld 19\.1\.7"),
        (NO_BOLT, 1, ""),
        (OLD, 1, ""),
    ],
)
def test_tools_that_give_one_layout_are_refused_before_the_first_build(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, found: Toolchain, layouts: int, message: str
) -> None:
    def prepare(_options: Options, **_given: Any) -> Work:
        return Work.model_construct(train_on=(), hold_out=(), toolchain=found)

    monkeypatch.setattr(needs, "require_disk", lambda *_given: None)
    monkeypatch.setattr(plan, "prepare", prepare)
    monkeypatch.setattr(plan, "prepare_measuring", lambda *_given, **_named: None)
    (tmp_path / "mine.toml").write_text(STUDY.replace("layouts = 4", f"layouts = {layouts}"))
    study = read_study(tmp_path / "mine.toml")
    made = make_plan(study, KIND, measuring_plan(study.options()), {})
    if not message:
        _prepared(study, made, 1, (), allow_install=False)
        return
    with pytest.raises(MissingTool, match=message) as error:
        _prepared(study, made, 1, (), allow_install=False)
    assert error.value.hint


def test_workloads_that_train_bolt_alone_can_be_named(tmp_path: Path) -> None:
    only_bolt = '[base]\nrecipe = "plain"\nbuild = { post_link = "bolt" }\ntrained_on = ["commit"]\n'
    flags = '[factors.v3.on]\nbuild = { flags = ["-march=x86-64-v3"] }\n'
    (tmp_path / "mine.toml").write_text('workloads = ["oltp_read_only"]\n' + only_bolt + flags)
    study = read_study(tmp_path / "mine.toml")
    arms = make_plan(study, KIND, measuring_plan(study.options()), {}).arms
    assert all(arm.trained and arm.bolt_alone for arm in arms)
