"""Where Upshift keeps things: one cache folder outside the checkout, and the TOML files that it ships."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from upshift.errors import UsageError

CHECKOUT = Path(__file__).resolve().parents[2]


def cache_dir() -> Path:
    """The cache: ``$UPSHIFT_CACHE``, else ``$XDG_CACHE_HOME/upshift``, else ``~/.cache/upshift``.

    Absolute, as commands run in other folders: a relative ``$UPSHIFT_CACHE`` lies below the current folder, and a relative
    ``$XDG_CACHE_HOME`` is ignored, as the XDG Base Directory Specification says.

    It holds ``stages/`` (results by content hash), ``runs/``, ``sources/``, ``apt/`` (a private apt root), ``target/`` (the
    programs of ``crates/``), ``drivers/`` and ``scratch/``. All of it can be deleted when no command runs.
    Raises UsageError where there is no home, and where the cache is no folder.
    """
    if explicit := os.environ.get("UPSHIFT_CACHE"):
        try:
            return _folder(Path(explicit).resolve())
        except RuntimeError as error:  # Python before 3.13 says so of links that lead to themselves.
            raise UsageError(f"UPSHIFT_CACHE: {explicit} is a link that leads to itself", "name a folder") from error
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if base.is_absolute():
        return _folder(base / "upshift")
    try:
        home = Path.home()
    except RuntimeError as error:
        raise UsageError(
            "there is no home for the cache: HOME is not set, and the system does not know this user",
            "set UPSHIFT_CACHE to a folder on a disk with room",
        ) from error
    return _folder(home / ".cache" / "upshift")


def _folder(cache: Path) -> Path:
    if not cache.is_dir() and os.path.lexists(cache):
        what = "a link to what is not there, such as a disk that is not mounted" if cache.is_symlink() else "no folder"
        raise UsageError(f"the cache {cache} is {what}", "set UPSHIFT_CACHE to a folder on a disk with room")
    return cache


@contextlib.contextmanager
def paths_of(where: str) -> Iterator[None]:
    """Raises UsageError where a path within cannot be one: the home of an unknown user, or a letter that no name has."""
    try:
        yield
    except (OSError, RuntimeError, ValueError) as error:
        raise UsageError(f"{where} names a path that is none: {error}", "write paths out in full") from error


def shipped(folder: str) -> Path:
    """A folder of the checkout with files that users read and copy: ``recipes`` or ``workloads``."""
    return CHECKOUT / folder


def shipped_file(folder: str, name: str) -> Path | None:
    """The TOML file of one that is shipped, such as a recipe, by its name; None where there is none, or ``name`` is a path."""
    file = shipped(folder) / f"{name}.toml"
    return file if file.parent == shipped(folder) and file.is_file() else None
