"""Which rows of a study may have the same server although their flags differ."""

from __future__ import annotations

from pathlib import Path

import pytest

from upshift.resolve import measuring_plan
from upshift.server.mysql import KIND
from upshift.study.file import read_study
from upshift.study.plan import make_plan

STUDY = """
budget = "4h"
workloads = ["oltp_read_only"]
[base]
recipe = "max-clang"
[factors.one.on]
build = { flags = ["-one"] }
[factors.two.on]
build = { flags = ["-two"] }
"""


def like(folder: Path, text: str) -> dict[str, tuple[str, ...]]:
    """The earlier rows that each is compared with."""
    (folder / "mine.toml").write_text(text)
    study = read_study(folder / "mine.toml")
    plan = make_plan(study, KIND, measuring_plan(study.options()), {})
    return {arm.name: tuple(each.name for each in plan.like(arm)) for arm in plan.built}


def test_rows_that_differ_in_one_factor_are_compared_with_those_before(tmp_path: Path) -> None:
    assert like(tmp_path, STUDY) == {"off": (), "one": ("off",), "two": ("off",), "one+two": ("two", "one")}


@pytest.mark.parametrize(
    "two",
    [
        'build = { post_link = "none" }',
        'build = { flags = ["-two"] }\ntrained_on = ["oltp_write_only"]',
        'build = { flags = ["-two"] }\nhot_set_of = ["oltp_write_only"]',
    ],
)
def test_rows_that_differ_in_more_than_flags_are_not_compared(tmp_path: Path, two: str) -> None:
    found = like(tmp_path, STUDY.replace('build = { flags = ["-two"] }', two))
    assert found == {"off": (), "one": ("off",), "two": (), "one+two": ("two",)}


@pytest.mark.parametrize("base", ['"gcc-pgo-lto"', '"plain"', '"max-clang"\nbuild = { scope = "all" }'])
def test_rows_that_have_no_hot_set_trained_by_clang_are_compared_when_they_are_built(tmp_path: Path, base: str) -> None:
    assert set(like(tmp_path, STUDY.replace('"max-clang"', base)).values()) == {()}


def test_rows_that_differ_in_settings_share_the_builds_that_are_compared(tmp_path: Path) -> None:
    settings = '[factors.spin.on]\nsettings = { innodb_spin_wait_delay = "0" }\n'
    assert like(tmp_path, STUDY + settings) == like(tmp_path, STUDY)
