"""The series: names, needs and versions; every bad one is an error with a hint."""

from __future__ import annotations

from pathlib import Path

import pytest
from fakes import FakeKind
from series_of import changed, git_diff, series_in

from upshift.build.recipe import Recipe, read_recipe
from upshift.errors import PatchRefused, RecipeError, UsageError
from upshift.patches.choose import patches_of, refuse_switches, resolved
from upshift.patches.model import Patch, patches_key, read_series, refuse_version
from upshift.paths import CHECKOUT
from upshift.server.mysql import KIND
from upshift.values import content_hash

ONE = changed(5, "int one;")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return series_in(
        tmp_path / "series",
        base=ONE,
        first='needs = ["base"]\nvariable = "first_switch"\n|' + changed(20, "int two;"),
        second='needs = ["first"]\n|' + changed(35, "int three;"),
        apart=changed(12, "int four;"),
    )


def names(patches: tuple[Patch, ...]) -> list[str]:
    return [each.name for each in patches]


def test_what_a_patch_needs_comes_with_it_in_the_order_of_the_series(folder: Path) -> None:
    series = read_series(folder)
    assert names(series.named(["second"])) == ["base", "first", "second"]
    assert names(series.named(["apart", "base", "apart"])) == ["base", "apart"]
    assert names(series.named(["all"])) == ["base", "first", "second", "apart"]


def test_an_unknown_name_is_refused_with_those_that_there_are(folder: Path) -> None:
    with pytest.raises(RecipeError, match="no patch 'frist'") as error:
        read_series(folder).named(["frist"])
    assert "base, first, second, apart" in error.value.hint


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ('needs = ["later"]\n', "does not come before it"),
        ('versions = "9.7"\n', "not a range of versions"),
        ("color = 1\n", "color"),
        ('tests = ["mysql-test/t/one.test"]\n', "tests.0"),
    ],
)
def test_a_malformed_series_is_refused(tmp_path: Path, more: str, said: str) -> None:
    with pytest.raises(RecipeError, match=said):
        read_series(series_in(tmp_path / "series", one=f"{more}|{ONE}"))


@pytest.mark.parametrize(
    ("diff", "said"),
    [
        ("no patch at all\n", "no `diff --git` line"),
        ("diff --git a/x b/y\nsimilarity index 90%\nrename from x\nrename to y\n", "rename from x"),
        ("diff --git a/x b/x\nnew file mode 120000\n", "new file mode 120000"),
        ("diff --git a/../x b/../x\n", "lies outside"),
        (ONE[: ONE.index("+int one")], "ends within hunk 1"),
    ],
)
def test_what_is_no_patch_of_lines_is_refused(tmp_path: Path, diff: str, said: str) -> None:
    with pytest.raises(RecipeError, match=said):
        read_series(series_in(tmp_path / "series", one=diff))


def test_a_file_that_is_not_there_is_refused(folder: Path) -> None:
    (folder / "apart.patch").unlink()
    with pytest.raises(RecipeError, match=r"apart\.patch"):
        read_series(folder)
    with pytest.raises(RecipeError, match="no patch series"):
        read_series(None)


@pytest.mark.parametrize(
    ("versions", "version", "fits"),
    [
        (">=9.7.4, <9.8", "9.7.4", True),
        (">=9.7.4, <9.8", "9.7.4-4", True),
        (">=9.7.4, <9.8", "9.7.10", True),
        (">=9.7.4, <9.8", "9.7.3", False),
        (">=9.7.4, <9.8", "9.8.0", False),
        ("==9.8", "9.8.0", True),
        (">9.7", "10.0", True),
        ("<=9.7", "unknown", False),
    ],
)
def test_versions_are_compared_by_their_numbers(versions: str, version: str, fits: bool) -> None:
    patch = Patch(name="one", file="", what="", versions=versions)
    assert patch.fits_version(version) == fits
    if not fits:
        with pytest.raises(PatchRefused, match="is for versions") as refused:
            refuse_version([patch], version)
        assert f"name a source of versions {versions};" in refused.value.hint


def test_what_to_leave_out_on_another_version_is_named() -> None:
    """The hint was to leave out what does not fit, and apply refused what fits of the wrong version, too."""
    patches = [
        Patch(name=name, file="", what="", versions=versions) for name, versions in (("a", ">=1"), ("b", ">=2"), ("c", ">=3"))
    ]
    with pytest.raises(PatchRefused, match=r"patch b is for versions >=2, and the source is 1\.5; 2 of 3 patches") as refused:
        refuse_version(patches, "1.5")
    assert "name a source of versions >=2, or leave out b, c;" in refused.value.hint


def test_a_key_tells_contents_not_files(folder: Path, tmp_path: Path) -> None:
    before = patches_key(read_series(folder).named(["base"]))
    assert patches_key(read_series(series_in(tmp_path / "again", base=ONE)).patches) == before
    (folder / "base.patch").write_text(changed(6, "int one;"))
    assert patches_key(read_series(folder).named(["base"])) != before


def test_a_recipe_names_patches(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('patches = "all"\n')
    assert read_recipe(file).patches == ("all",)
    file.write_text('patches = ["first", "second"]\n')
    assert read_recipe(file).patches == ("first", "second")


def test_recipes_that_ask_for_the_same_patches_are_equal(folder: Path) -> None:
    kind = FakeKind(series=folder)
    ways = [resolved(kind, Recipe(patches=names)) for names in (("second",), ("base", "first", "second"), ("first", "second"))]
    assert len({each.patches for each in ways}) == 1
    assert patches_of(FakeKind(), Recipe()) == ()


def test_a_recipe_without_patches_has_the_hash_that_it_had_before_there_were_any() -> None:
    assert "patches" not in Recipe().model_dump(mode="json")
    assert content_hash(Recipe()) != content_hash(Recipe(patches=("base",)))
    assert Recipe(patches=("base",)).before_patches() == Recipe()


def test_a_switch_needs_a_server_that_has_it(folder: Path, tmp_path: Path) -> None:
    kind = FakeKind(series=folder)
    without, having, script = (tmp_path / name for name in ("without", "having", "script"))
    without.write_bytes(b"\x7fELF with first_switches and first_switch_used")
    having.write_bytes(b"\x7fELF with _ZN6server12first_switchE")
    script.write_text("#!/bin/sh\n")
    for server in (having, script, ("base", "first")):
        refuse_switches(kind, "arm", {"first_switch": "OFF"}, server)
    for lacking in (without, ("base",)):
        refuse_switches(kind, "arm", {"other": "1"}, lacking)
        with pytest.raises(UsageError, match="switch of patch first, which this server does not have") as error:
            refuse_switches(kind, "arm", {"first_switch": "OFF"}, lacking)
        assert "--patches first" in error.value.hint


def test_the_shipped_series_is_whole() -> None:
    series = read_series(KIND.series)
    assert series.patches[0].name == "patch_counter"
    for patch in series.patches:
        assert patch.fits_version("9.7.4"), patch.name
        assert patch.what.endswith("."), patch.name
        assert not patch.variable or patch.counters, f"{patch.name} has a switch and counts nothing"
        for test in patch.tests:
            name = test.partition(".")[2]
            assert any(diff.path.endswith(f"/{name}.test") for diff in patch.changes), f"{patch.name} does not bring {test}"
    listed = {each.file for each in series.patches}
    assert listed == {file.name for file in (CHECKOUT / "server" / "mysql-9.7").glob("*.patch")}
    assert (CHECKOUT / "server" / "mysql-9.7" / "COPYING").is_file()


def test_a_removed_file_and_a_new_one_are_told(tmp_path: Path) -> None:
    text = git_diff("gone.h", "int gone;\n", None) + git_diff("new.h", None, "int fresh;\n")
    (patch,) = read_series(series_in(tmp_path / "series", both=text)).patches
    assert [(diff.path, diff.does) for diff in patch.changes] == [("gone.h", "remove"), ("new.h", "add")]
