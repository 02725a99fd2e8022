"""Trees with patches: what is shared is never written to, and what is in the way is refused before anything is."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from fakes import FakeShell, Output
from series_of import SOURCE, changed, git_diff, series_in, tree_in

from upshift.errors import PatchRefused
from upshift.patches.model import Series, read_series
from upshift.patches.tree import copy_patched, fit_tree, refuse_unfit, write_changes
from upshift.shell import SystemShell

NEW = git_diff("new/file.h", None, "int fresh;\n")
GONE = git_diff("server.h", "int shared;\n", None)


@pytest.fixture
def series(tmp_path: Path) -> Series:
    return read_series(series_in(tmp_path / "series", one=changed(5, "int one;") + NEW + GONE))


def state(tree: Path) -> dict[str, bytes]:
    return {str(file.relative_to(tree)): file.read_bytes() for file in tree.rglob("*") if file.is_file()}


def test_a_copy_shares_what_stays_the_same_and_nothing_else(tmp_path: Path, series: Series) -> None:
    tree = tree_in(tmp_path / "tree")
    (tree / "server.cc").chmod(0o755)
    (tree / "link").symlink_to("server.cc")
    (tree / ".git").mkdir()
    before = state(tree)
    copy = tmp_path / "copy"
    copy_patched(tree, copy, fit_tree(series.patches, tree), share=True)
    assert state(tree) == before
    assert (copy / "CMakeLists.txt").samefile(tree / "CMakeLists.txt")
    assert not (copy / "server.cc").samefile(tree / "server.cc")
    assert "int one;" in (copy / "server.cc").read_text()
    assert (copy / "server.cc").stat().st_mode & 0o777 == 0o755
    assert (copy / "new" / "file.h").read_text() == "int fresh;\n"
    assert not (copy / "server.h").exists() and not (copy / ".git").exists()
    assert (copy / "link").readlink() == Path("server.cc")
    apart = tmp_path / "apart"
    copy_patched(tree, apart, fit_tree(series.patches, tree), share=False)
    assert not (apart / "CMakeLists.txt").samefile(tree / "CMakeLists.txt")
    assert state(apart) == state(copy)


def test_a_copy_of_a_worktree_is_no_worktree(tmp_path: Path, series: Series) -> None:
    """There .git is a file. A commit in the copy changed the branch of the tree that was copied."""
    tree = tree_in(tmp_path / "tree")
    (tree / ".git").write_text("gitdir: /elsewhere/.git/worktrees/tree\n")
    copy_patched(tree, tmp_path / "copy", fit_tree(series.patches, tree), share=True)
    assert not (tmp_path / "copy" / ".git").exists()


def test_changes_in_place_leave_hard_links_alone(tmp_path: Path, series: Series) -> None:
    tree = tree_in(tmp_path / "tree")
    (tmp_path / "other.cc").hardlink_to(tree / "server.cc")
    write_changes(tree, tree, fit_tree(series.patches, tree))
    assert "int one;" in (tree / "server.cc").read_text()
    assert (tmp_path / "other.cc").read_text() == SOURCE["server.cc"]


def test_a_disk_that_is_full_leaves_the_tree_as_it_was(tmp_path: Path, series: Series, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before, some files were patched and some were not, and the next try was refused."""
    tree = tree_in(tmp_path / "tree")
    fitted, before = fit_tree(series.patches, tree), state(tree)
    chmod, done = Path.chmod, []

    def full(file: Path, mode: int) -> None:
        done.append(file)
        if len(done) == 2:
            raise OSError(28, "No space left on device")
        chmod(file, mode)

    monkeypatch.setattr(Path, "chmod", full)
    with pytest.raises(OSError, match="No space left"):
        write_changes(tree, tree, fitted)
    assert state(tree) == before and not (tree / "new").exists()
    done.clear()
    with pytest.raises(OSError, match="No space left"):
        copy_patched(tree, tmp_path / "copy", fitted, share=False)
    assert [each.name for each in tmp_path.iterdir() if each.name not in ("tree", "series")] == []


@pytest.mark.parametrize("way", ["new/file.h/x", "new"])
def test_what_stands_in_the_way_of_a_new_file_is_told_before_anything_is_written(
    tmp_path: Path, series: Series, way: str
) -> None:
    tree = tree_in(tmp_path / "tree")
    (tree / way).parent.mkdir(parents=True, exist_ok=True)
    (tree / way).touch()
    with pytest.raises(PatchRefused, match="stands in the way of a file of the patches") as error:
        refuse_unfit(FakeShell(), series.patches, tree, "1.5")
    assert error.value.hint
    assert not fit_tree(series.patches, tree).fits[0].fits  # as `upshift patch check` says


@pytest.mark.skipif(shutil.which("git") is None, reason="there is no git")
def test_local_changes_in_what_patches_change_are_refused(tmp_path: Path, series: Series) -> None:
    tree, shell = tree_in(tmp_path / "tree"), SystemShell()
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-C", str(tree)]
    for command in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "stock"]):
        subprocess.run([*git, *command], check=True)
    try:
        (tree / "CMakeLists.txt").write_text("project(mine)\n")
        assert refuse_unfit(shell, series.patches, tree, "1.5").changed
        (tree / "server.cc").write_text(SOURCE["server.cc"] + "int mine;\n")
        with pytest.raises(PatchRefused, match=r"changes of its own in files that the patches change: server\.cc") as error:
            refuse_unfit(shell, series.patches, tree, "1.5")
        assert "commit or stash" in error.value.hint
    finally:
        shell.close()


DUBIOUS = """\
fatal: detected dubious ownership in repository at '/src/mysql'
To add an exception for this directory, call:

\tgit config --global --add safe.directory /src/mysql
"""


@pytest.mark.parametrize(
    ("said", "message", "hint"),
    [
        (DUBIOUS, "dubious ownership", "run `git config --global --add safe.directory /src/mysql`"),
        ("fatal: .git/index: index file smaller than expected\n", "index file smaller", "git -C .* status"),
    ],
)
def test_a_work_tree_of_which_git_does_not_say_is_refused(
    said: str, message: str, hint: str, tmp_path: Path, series: Series, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To root, git says nothing of another user's work tree."""
    monkeypatch.setattr(shutil, "which", lambda name: name)
    tree = tree_in(tmp_path / "tree")
    (tree / ".git").mkdir()
    with pytest.raises(PatchRefused, match=message) as error:
        refuse_unfit(FakeShell({"git": Output(said, returncode=128)}), series.patches, tree, "1.5")
    assert re.search(hint, error.value.hint)
    no_tree = FakeShell({"git": Output("fatal: not a git repository: /gone/.git/modules/mysql\n", returncode=128)})
    assert refuse_unfit(no_tree, series.patches, tree, "1.5").changed


def test_a_tree_of_another_version_and_one_of_links_are_refused(tmp_path: Path, series: Series) -> None:
    tree = tree_in(tmp_path / "tree")
    with pytest.raises(PatchRefused, match=r"for versions >=1\.0, <2, and the source is 2\.0"):
        refuse_unfit(FakeShell(), series.patches, tree, "2.0")
    (tree / "server.cc").rename(tmp_path / "elsewhere.cc")
    (tree / "server.cc").symlink_to(tmp_path / "elsewhere.cc")
    with pytest.raises(PatchRefused, match="is a symbolic link"):
        refuse_unfit(FakeShell(), series.patches, tree, "1.5")


def test_what_does_not_fit_is_refused_with_what_to_do(tmp_path: Path) -> None:
    tree = tree_in(tmp_path / "tree")
    folder = series_in(tmp_path / "series", one=changed(5, "int one;"), two=changed(6, "int two;"))
    patches = read_series(folder).patches
    with pytest.raises(PatchRefused, match="patches one and two collide") as error:
        refuse_unfit(FakeShell(), patches, tree, "1.5")
    assert error.value.hint == "leave one of the two out"
    (tree / "server.cc").write_text("int other;\n")
    with pytest.raises(PatchRefused, match=r"patch one does not fit: server\.cc: hunk 1") as error:
        refuse_unfit(FakeShell(), patches[:1], tree, "1.5")
    assert "upshift patch check" in error.value.hint
