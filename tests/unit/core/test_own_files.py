"""The ending of a name as it was written tells a user's file from what is shipped, and not that of what a link points to."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from upshift.build.recipe import find_recipe
from upshift.errors import UsageError
from upshift.measure.variant import find_variant
from upshift.options import Options
from upshift.paths import CHECKOUT
from upshift.study.file import find_study
from upshift.workload.library import find_workload


@pytest.fixture
def linked(tmp_path: Path) -> Path:
    """A folder whose files end in .toml, and are links to files elsewhere that do not."""
    (tmp_path / "store").mkdir()
    (tmp_path / "here").mkdir()
    shutil.copy(CHECKOUT / "recipes" / "plain.toml", tmp_path / "store" / "r")
    shutil.copy(CHECKOUT / "workloads" / "commit.toml", tmp_path / "store" / "w")
    (tmp_path / "store" / "v").write_text('binary = "server"\n')
    (tmp_path / "store" / "server").symlink_to("/bin/true")
    study = 'workloads = ["w.toml"]\n[base]\nbinary = "/bin/true"\n[factors.cache.big]\nsettings = { table_open_cache = "9" }\n'
    (tmp_path / "store" / "s").write_text(study)
    for name in "rwvs":
        (tmp_path / "here" / f"{name}.toml").symlink_to(tmp_path / "store" / name)
    (tmp_path / "store" / "w.toml").symlink_to("w")
    return tmp_path / "here"


def test_a_link_is_read_by_its_own_name(linked: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The name that a run keeps was that of the file behind the link, which was then no recipe and no workload."""
    monkeypatch.chdir(linked)
    options = Options(recipe="r.toml", workloads=("w.toml",))
    assert options.recipe == str(linked / "r.toml")
    assert find_recipe(options.recipe).name == "r"
    assert find_workload(options.workloads[0]).fill
    assert find_workload(find_study("s.toml").workloads[0]).load


def test_a_variant_behind_a_link_has_its_files_beside_it(linked: Path) -> None:
    variant = find_variant(str(linked / "v.toml"))
    assert (variant.name, variant.program.binary) == ("v", Path("/bin/true").resolve())


@pytest.mark.parametrize("find", [find_recipe, find_workload, find_study, find_variant])
def test_a_link_without_the_ending_is_refused_with_it(linked: Path, find: object) -> None:
    link = linked / "current"
    link.symlink_to("r.toml")
    assert callable(find)
    with pytest.raises(UsageError) as caught:
        find(str(link))
    assert "file with its ending .toml" in caught.value.hint or "your own with its ending .toml" in caught.value.hint
