"""The disk that a study needs is asked for once, for all of its rows, before the first build."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from upshift import needs, plan
from upshift.cli.study import _prepared
from upshift.options import Options
from upshift.resolve import measuring_plan
from upshift.server.mysql import KIND
from upshift.stages.work import Work
from upshift.study.builds import disk_bytes
from upshift.study.file import read_study
from upshift.study.plan import make_plan

HEAD = 'budget = "2h"\nworkloads = ["oltp_read_only"]\n[base]\nrecipe = "plain"\n'
PLAIN_BUILD_BYTES = 4_000_000_000


def asked_for(folder: Path, monkeypatch: pytest.MonkeyPatch, factors: int) -> int:
    """What is asked for before a study of so many flags, each combination a whole build."""
    asked: list[tuple[str, int]] = []

    def prepare(_options: Options, *, disk_bytes: int, **_given: Any) -> Work:
        asked.append(("prepare", disk_bytes))
        return Work.model_construct(train_on=(), hold_out=())

    def require_disk(disk_bytes: int, kept: Iterable[Path] = ()) -> None:
        assert kept == (folder,)
        asked.append(("once", disk_bytes))

    monkeypatch.setattr(plan, "prepare", prepare)
    monkeypatch.setattr(plan, "prepare_measuring", lambda *_given, **_named: None)
    monkeypatch.setattr(needs, "require_disk", require_disk)
    flags = "".join(f'[factors.f{number}.on]\nbuild = {{ flags = ["-f{number}"] }}\n' for number in range(factors))
    (folder / "mine.toml").write_text(HEAD + flags)
    study = read_study(folder / "mine.toml")
    made = make_plan(study, KIND, measuring_plan(study.options()), {})
    assert len(made.built) == 2**factors
    _prepared(study, made, 1, (folder,), allow_install=False)
    assert asked == [("once", disk_bytes(made, study)), *([("prepare", 0)] * len(made.built))]
    return asked[0][1]


def test_each_row_that_is_built_needs_its_own_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    few, many = (asked_for(tmp_path, monkeypatch, factors) for factors in (1, 4))
    assert many - few >= 14 * PLAIN_BUILD_BYTES
