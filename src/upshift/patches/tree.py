"""Source trees with patches: which files change, local changes in the way, and a copy that shares all other files."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import tempfile
from collections.abc import Collection, Sequence
from pathlib import Path

from upshift.errors import PatchRefused
from upshift.patches.fit import Fitted, PatchFit, fit_series
from upshift.patches.model import Patch, refuse_version
from upshift.patches.words import why_not
from upshift.shell import Command, Shell
from upshift.source.model import VERSION_CONTROL


def fit_tree(patches: Sequence[Patch], tree: Path, version: str | None = None) -> Fitted:
    """Which of the patches fit the tree. Changes nothing."""

    def read(path: str) -> str | None:
        file = tree / path
        if not file.is_file():
            return None if _blocking(tree, path) is None else ""
        return file.read_bytes().decode("utf-8", "surrogateescape")

    return fit_series(patches, read, version)


def refuse_unfit(shell: Shell, patches: Sequence[Patch], tree: Path, version: str) -> Fitted:
    """The patched files of a tree that all patches fit.

    Raises PatchRefused for a version that a patch is not for, local changes in files that the patches change (as far as git
    tells of them), files that are links to somewhere else, and a patch that does not fit.
    """
    refuse_version(patches, version)
    paths = {diff.path for patch in patches for diff in patch.changes}
    if links := sorted(path for path in paths if _through_link(tree, path)):
        raise PatchRefused(
            f"{tree / links[0]} is a symbolic link, or below one, and the patches change it",
            "patch the tree that it points to, or a copy with files in place of links",
        )
    if blocking := next(filter(None, (_blocking(tree, path) for path in sorted(paths))), None):
        raise PatchRefused(
            f"{blocking} is {'a folder' if blocking.is_dir() else 'no folder'}, and stands in the way of a file of the patches",
            "rename it, or name a source without it",
        )
    if local := local_changes(shell, tree, paths):
        raise PatchRefused(
            f"{tree} has changes of its own in files that the patches change: {', '.join(local)}",
            "commit or stash them: the patches were tested on the release's own files",
        )
    fitted = fit_tree(patches, tree)
    if unfit := next((each for each in fitted.fits if not each.fits), None):
        raise PatchRefused(why_not(unfit), _hint(unfit))
    return fitted


def local_changes(shell: Shell, tree: Path, paths: Collection[str]) -> tuple[str, ...]:
    """Those of ``paths`` that git says differ from the last commit; none outside of a work tree of git, where nothing tells.

    Raises PatchRefused for a work tree of which git does not say, such as another user's.
    """
    if not (tree / ".git").exists() or shutil.which("git") is None:
        return ()
    command = ("git", "-C", str(tree), "status", "--porcelain", "--untracked-files=all", "-z", "--", *sorted(paths))
    done = shell.run(Command(command), check=False, timeout_s=300)
    if done.returncode != 0:
        if "not a git repository" in done.stdout:
            return ()
        fatal = re.search(r"^fatal:.*", done.stdout, re.MULTILINE)
        trust = re.search(r"git config --global --add safe\.directory .+", done.stdout)
        raise PatchRefused(
            f"git does not say whether {tree} has changes of its own: {fatal[0] if fatal else done.stdout}",
            f"if you trust it, run `{trust[0]}`" if trust else f"run `git -C {tree} status` to see why",
        )
    return tuple(entry[3:] for entry in done.stdout.split("\0") if entry)


def copy_patched(tree: Path, target: Path, fitted: Fitted, *, share: bool) -> None:
    """``tree`` at ``target`` with the changed files of ``fitted``. With ``share``, files that stay the same are hard links:
    nothing may write to either. ``target`` is there once it is whole.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".patched-", ignore_cleanup_errors=True) as made:
        _fill(tree, Path(made) / target.name, fitted, share=share)
        (Path(made) / target.name).rename(target)


def _fill(tree: Path, target: Path, fitted: Fitted, *, share: bool) -> None:
    for folder, folders, names in os.walk(tree):
        folders[:] = [name for name in folders if name not in VERSION_CONTROL]
        here = Path(folder)
        there = target / here.relative_to(tree)
        there.mkdir(parents=True, exist_ok=True)
        for name in [*names, *(name for name in folders if (here / name).is_symlink())]:
            # In a worktree and in a submodule .git is a file, which names the repository: a commit in the copy would go there.
            if name not in VERSION_CONTROL and str((here / name).relative_to(tree)) not in fitted.changed:
                _same(here / name, there / name, share=share)
    write_changes(tree, target, fitted)


def write_changes(tree: Path, target: Path, fitted: Fitted) -> None:
    """The changed files into ``target``: new files, so that whatever shares the old ones keeps them. All are written beside
    their places before the first takes its place: a disk that is full leaves ``target`` as it was.
    """
    with contextlib.ExitStack() as undone:
        written: list[tuple[Path, Path]] = []
        for path, text in fitted.changed.items():
            if text is None:
                continue
            file = target / path
            for folder in reversed([each for each in file.parents if not each.exists()]):
                folder.mkdir()
                undone.callback(_remove_empty, folder)
            before = tree / path
            mode = before.stat().st_mode & 0o777 if before.is_file() else 0o755 if path in fitted.executable else 0o644
            handle, fresh = tempfile.mkstemp(dir=file.parent, prefix=".patched-")
            undone.callback(Path(fresh).unlink, missing_ok=True)
            with os.fdopen(handle, "wb") as out:
                out.write(text.encode("utf-8", "surrogateescape"))
            Path(fresh).chmod(mode)
            written.append((Path(fresh), file))
        for made, file in written:
            made.replace(file)
        for path, text in fitted.changed.items():
            if text is None:
                (target / path).unlink(missing_ok=True)


def _remove_empty(folder: Path) -> None:
    with contextlib.suppress(OSError):
        folder.rmdir()


def _blocking(tree: Path, path: str) -> Path | None:
    """What stands where the patches have a file, or a folder of one, and is none."""
    above = (tree / each for each in Path(path).parents if (tree / each).exists() and not (tree / each).is_dir())
    return next(above, tree / path if (tree / path).is_dir() else None)


def _same(file: Path, target: Path, *, share: bool) -> None:
    if file.is_symlink():
        target.symlink_to(file.readlink())
        return
    if share:
        try:
            os.link(file, target)
            return
        except OSError:
            pass  # Another file system, or one without hard links.
    if file.is_file():
        shutil.copy2(file, target)


def _through_link(tree: Path, path: str) -> bool:
    file = tree / path
    return any(each.is_symlink() for each in (file, *file.parents) if each != tree and each.is_relative_to(tree))


def _hint(unfit: PatchFit) -> str:
    if unfit.collides_with:
        return "leave one of the two out"
    if unfit.applied_already:
        return "name a source without it"
    return f"leave it out, or write it anew for this source; `upshift patch check TREE` shows every hunk of {unfit.patch}"
