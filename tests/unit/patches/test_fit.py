"""Patches fit with every line as they have it, at any line; what does not fit is told with the nearest place."""

from __future__ import annotations

import random
import shutil
import subprocess
from pathlib import Path

import pytest
from series_of import SOURCE, changed, git_diff, series_in, tree_in

from upshift.patches.fit import Fitted, fit_series
from upshift.patches.model import read_series
from upshift.patches.words import why_not


def fitted(tmp_path: Path, files: dict[str, str] = SOURCE, version: str | None = None, **patches: str) -> Fitted:
    series = read_series(series_in(tmp_path / "series", **patches))
    return fit_series(series.patches, files.get, version)


def test_a_patch_fits_where_it_was_made(tmp_path: Path) -> None:
    found = fitted(tmp_path, one=changed(5, "int one;"))
    (fit,) = found.fits
    assert fit.fits and fit.files[0].hunks[0].found == fit.files[0].hunks[0].line
    assert found.changed == {"server.cc": SOURCE["server.cc"].replace("int line_5;", "int one;")}


def test_a_patch_fits_lines_that_have_moved(tmp_path: Path) -> None:
    moved = {**SOURCE, "server.cc": "// more\n" * 7 + SOURCE["server.cc"]}
    found = fitted(tmp_path, moved, one=changed(5, "int one;"))
    assert found.fits[0].files[0].hunks[0].found == 9
    assert found.changed["server.cc"] == moved["server.cc"].replace("int line_5;", "int one;")


def test_one_line_that_is_otherwise_keeps_a_hunk_from_fitting(tmp_path: Path) -> None:
    """No fuzz: a context line counts as much as one that is removed."""
    other = {**SOURCE, "server.cc": SOURCE["server.cc"].replace("line_3;", "line_3 = 1;")}
    found = fitted(tmp_path, other, one=changed(5, "int one;"))
    (hunk,) = found.fits[0].files[0].hunks
    assert not found.fits[0].fits and found.changed == {}
    assert (hunk.found, hunk.nearest, hunk.agreeing, hunk.lines) == (None, 2, 6, 7)
    assert (hunk.expected, hunk.there) == ("int line_3;", "int line_3 = 1;")
    assert why_not(found.fits[0]) == (
        "patch one does not fit: server.cc: hunk 1 at line 2 does not fit; the nearest is line 2, 6 of 7 lines alike, "
        "which has 'int line_3 = 1;' for 'int line_3;'"
    )


def test_a_file_with_lines_of_its_own_is_not_removed(tmp_path: Path) -> None:
    gone = git_diff("server.h", SOURCE["server.h"], None)
    found = fitted(tmp_path, gone=gone)
    assert found.fits[0].fits and found.changed == {"server.h": None}
    for text in (SOURCE["server.h"] + "int own;\n", "int own;\n" + SOURCE["server.h"]):
        shutil.rmtree(tmp_path / "series")
        found = fitted(tmp_path, {**SOURCE, "server.h": text}, gone=gone)
        assert not found.fits[0].fits and found.changed == {}
        assert why_not(found.fits[0]) == "patch gone does not fit: server.h: it has lines that the patch does not remove"


def test_of_two_that_collide_the_second_names_the_first(tmp_path: Path) -> None:
    found = fitted(tmp_path, far=changed(30, "int far;"), one=changed(5, "int one;"), two=changed(6, "int two;"))
    assert [fit.fits for fit in found.fits] == [True, True, False]
    assert found.fits[2].collides_with == "one"
    assert why_not(found.fits[2]).startswith("patches one and two collide")


def test_a_patch_upon_one_that_it_needs_fits_after_it(tmp_path: Path) -> None:
    first = SOURCE["server.cc"].replace("line_5;", "five;")
    second = git_diff("server.cc", first, first.replace("five;", "cinq;"))
    found = fitted(tmp_path, one=changed(5, "int five;"), two='needs = ["one"]\n|' + second)
    assert all(fit.fits for fit in found.fits)
    assert "cinq" in (found.changed["server.cc"] or "")


def test_what_needs_a_patch_that_does_not_fit_is_told_so(tmp_path: Path) -> None:
    missing = git_diff("none.cc", "int a;\n", "int b;\n")
    found = fitted(tmp_path, one=missing, two='needs = ["one"]\n|' + changed(5, "int two;"), three=changed(9, "int three;"))
    assert [fit.fits for fit in found.fits] == [False, False, True]
    assert found.fits[0].files[0].problem == "there is no such file"
    assert why_not(found.fits[1]) == "patch two needs one, which does not fit"


def test_a_source_that_has_the_patch_already_is_told(tmp_path: Path) -> None:
    patch = changed(5, "int one;")
    patched = {**SOURCE, "server.cc": SOURCE["server.cc"].replace("int line_5;", "int one;")}
    (fit,) = fitted(tmp_path, patched, one=patch).fits
    assert not fit.fits and fit.applied_already
    assert why_not(fit) == "the source has the lines of patch one already"


def test_versions_are_told_and_keep_nothing_from_fitting(tmp_path: Path) -> None:
    (fit,) = fitted(tmp_path, version="2.1", one=changed(5, "int one;")).fits
    assert fit.fits and not fit.version_fits


@pytest.mark.parametrize("end", ["int last;\n", "int last;"])
def test_a_last_line_without_an_end_stays_so(tmp_path: Path, end: str) -> None:
    files = {"a.cc": "int a;\n" + end}
    found = fitted(tmp_path, files, one=git_diff("a.cc", files["a.cc"], "int b;\n" + end))
    assert found.changed == {"a.cc": "int b;\n" + end}


def test_form_feeds_and_foreign_bytes_survive(tmp_path: Path) -> None:
    text = "a\x0cb\n" + b"caf\xe9\n".decode("utf-8", "surrogateescape") + "\x85end\n"
    found = fit_series([], {"a.cc": text}.get)
    assert found.changed == {}
    diff = "diff --git a/a.cc b/a.cc\n--- a/a.cc\n+++ b/a.cc\n@@ -1,2 +1,2 @@\n-a\x0cb\n+new\n " + text.split("\n")[1] + "\n"
    folder = series_in(tmp_path / "series", one="")
    (folder / "one.patch").write_bytes(diff.encode("utf-8", "surrogateescape"))
    found = fit_series(read_series(folder).patches, {"a.cc": text}.get)
    assert found.changed["a.cc"] == text.replace("a\x0cb", "new")


@pytest.mark.skipif(shutil.which("git") is None, reason="there is no git")
def test_git_makes_the_same_of_random_patches(tmp_path: Path) -> None:
    rng, compared = random.Random(7), 0
    for number in range(25):
        before = [f"line {rng.randrange(9)}\n" for _ in range(60)]
        after = list(before)
        for _ in range(rng.randrange(1, 5)):
            at = rng.randrange(len(after))
            after[at : at + rng.randrange(3)] = [f"new {number}\n" for _ in range(rng.randrange(3))]
        if after == before:
            continue
        diff = git_diff("a.cc", "".join(before), "".join(after))
        shifted = [f"more {n}\n" for n in range(rng.randrange(6))] + before
        work = tree_in(tmp_path / f"tree{number}", {"a.cc": "".join(shifted)})
        (work / "it.patch").write_text(diff)
        subprocess.run(["git", "init", "-q"], cwd=work, check=True)
        theirs = subprocess.run(["git", "apply", "it.patch"], cwd=work, capture_output=True, check=False)
        series = read_series(series_in(tmp_path / f"series{number}", one=diff))
        ours = fit_series(series.patches, {"a.cc": "".join(shifted)}.get)
        if theirs.returncode == 0:
            assert ours.changed["a.cc"] == (work / "a.cc").read_text()
            compared += 1
    assert compared > 15
