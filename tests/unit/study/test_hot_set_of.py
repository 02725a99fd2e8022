"""Rows of several trainings share one hot set where the study names what it is of."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from upshift import needs, plan
from upshift.cli.study import _prepared
from upshift.errors import UsageError
from upshift.options import Options
from upshift.resolve import measuring_plan
from upshift.server.mysql import KIND
from upshift.stages.work import Work
from upshift.study.file import Study, read_study
from upshift.study.plan import StudyPlan, make_plan
from upshift.workload.library import find_workload

FEEDBACK = """
budget = "2h"
workloads = ["oltp_read_only"]
held_out = ["tpcc"]
[base]
recipe = "plain"
build = { scope = "hot", flags = ["-O2"] }
hot_set_of = ["oltp_read_only", "commit"]
[factors.feedback.read-only]
build = { profile = "ir" }
[factors.feedback.commit]
build = { profile = "ir" }
trained_on = ["commit"]
"""


def planned(folder: Path, text: str) -> tuple[Study, StudyPlan]:
    (folder / "mine.toml").write_text(text)
    study = read_study(folder / "mine.toml")
    return study, make_plan(study, KIND, measuring_plan(study.options()), {})


def test_a_study_by_the_typical_time_has_the_turns_that_its_median_needs(tmp_path: Path) -> None:
    typical = FEEDBACK.replace("budget", 'metric = "typical_cpu_us_per_query"\nbudget', 1)
    with pytest.raises(UsageError, match="trials here have 2"):
        planned(tmp_path, typical)
    study, _plan = planned(tmp_path, typical.replace("budget", "rounds = 4\nbudget", 1))
    assert study.metric == "typical_cpu_us_per_query"


def test_each_row_fills_and_samples_the_same_workloads_and_trains_on_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def prepare(options: Options, **_given: Any) -> Work:
        train_on, hold_out = (tuple(map(find_workload, names)) for names in (options.workloads, options.held_out))
        return Work.model_construct(train_on=train_on, hold_out=hold_out)

    monkeypatch.setattr(needs, "require_disk", lambda *_given: None)
    monkeypatch.setattr(plan, "prepare", prepare)
    monkeypatch.setattr(plan, "prepare_measuring", lambda *_given, **_named: None)
    study, made = planned(tmp_path, FEEDBACK)
    _measuring, work_of = _prepared(study, made, 1, (), allow_install=False)
    works = {arm.name: work_of(arm) for arm in made.arms}
    assert {tuple(each.name for each in work.hot_set_of) for work in works.values()} == {("oltp_read_only", "commit")}
    assert [each.name for each in works["feedback=commit"].train_on] == ["commit"]
    assert [each.name for each in works["feedback=read-only"].train_on] == ["oltp_read_only"]
    filled = [{each.name for each in (*work.train_on, *work.hold_out)} for work in works.values()]
    assert filled == [{"oltp_read_only", "tpcc", "commit"}] * 3, "on other data the hot set would be another"


def test_another_hot_set_is_another_build(tmp_path: Path) -> None:
    builds = [
        planned(tmp_path, FEEDBACK.replace('"commit"]\n[f', f'"{name}"]\n[f'))[1].arms[0].build for name in ("commit", "tpcc")
    ]
    assert builds[0] != builds[1]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('scope = "hot", ', "", "its recipe compiles the whole server"),
        (
            'recipe = "plain"\nbuild = { scope = "hot", flags = ["-O2"] }',
            'server = "mysql"',
            "only for a server that a recipe builds",
        ),
    ],
)
def test_what_has_no_hot_set_is_refused(tmp_path: Path, old: str, new: str, message: str) -> None:
    with pytest.raises(UsageError, match=message) as error:
        planned(tmp_path, FEEDBACK.replace(old, new))
    assert error.value.hint
