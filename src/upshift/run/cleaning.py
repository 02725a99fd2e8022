"""What the cache holds, which runs use it, and the removal of what no run that is kept uses."""

from __future__ import annotations

import contextlib
import datetime
import json
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Literal

from upshift.run.directory import RunDirectory, all_runs, unreadable_runs
from upshift.values import Value, folder_bytes

Kind = Literal["run", "stage", "source", "other"]

_REMOVED = ".removed-"
_NAMED: Mapping[Kind, re.Pattern[str]] = {
    "stage": re.compile(r".+-[0-9a-f]{20}"),
    "source": re.compile(r".+-[0-9a-f]{12}(\.partial)?"),
}
"""The names that Upshift gives in the cache's folders; what has another one is the user's own."""


class Entry(Value):
    """A folder of the cache."""

    kind: Kind
    name: str
    path: Path
    size_bytes: int
    """On disk; a file with several links counts once."""
    used_by: tuple[str, ...]
    """Runs that use a stage or a source, and processes that execute something in it or work there."""
    removed: bool
    """Whether cleaning removes it: a run that is not kept, or what no kept run uses, without a process in it. Never what
    Upshift did not make."""


def survey(
    cache: Path, *, older_than: datetime.timedelta | None, keep: int | None, now: datetime.datetime
) -> tuple[Entry, ...]:
    """All that the cache holds. A run is kept when one of the two limits keeps it; without limits all are. One whose manifest
    cannot be read is kept: another version's may use its builds.
    """
    runs = all_runs()
    leaving = {
        run.name
        for number, run in enumerate(runs)
        if _leaves(run, number, older_than, keep, now) and not processes_in(run.path)
    }
    runs += unreadable_runs()
    found = [_entry("run", run.path, processes_in(run.path), removed=run.name in leaving) for run in runs]
    stages = {run.name: run.uses() for run in runs}
    sources = {run.name: frozenset(_sources(run, cache / "sources")) for run in runs}
    found += _used("stage", cache / "stages", stages, leaving)
    found += _used("source", cache / "sources", sources, leaving)
    for folder in sorted(cache.iterdir()) if cache.is_dir() else ():
        if folder.is_dir() and folder.name not in ("runs", "stages", "sources"):
            found.append(_entry("other", folder, (), removed=False))
    return tuple(_with_processes(each) for each in found)


def remove(paths: Iterable[Path]) -> None:
    """Remove folders. One is never met half removed under its own name."""
    for path in paths:
        aside = path.with_name(f"{_REMOVED}{path.name}")
        discard(aside)
        path.rename(aside)
        discard(aside)


def remove_leftovers(cache: Path) -> None:
    """What an interrupted cleaning left."""
    for folder in cache.glob(f"*/{_REMOVED}*"):
        discard(folder)


def discard(folder: Path) -> None:
    """Remove a folder, if it is there. Of one that lies elsewhere, behind a link, the link alone."""
    if folder.is_symlink():
        folder.unlink()
    elif folder.exists():
        shutil.rmtree(folder)


def processes_in(folder: Path) -> tuple[str, ...]:
    """Processes that execute a file of a folder or work in it, as far as this user may see them: a server that somebody started
    from a package or a build."""
    folder = folder.resolve()  # The kernel names files without the links on the way to them.
    found = []
    for process in Path("/proc").iterdir():
        for name in ("exe", "cwd") if process.name.isdigit() else ():
            with contextlib.suppress(OSError):
                if (process / name).readlink().is_relative_to(folder):
                    found.append(f"process {process.name}")
    return tuple(dict.fromkeys(found))


def _with_processes(entry: Entry) -> Entry:
    within = processes_in(entry.path) if entry.removed else ()
    return entry.model_copy(update={"used_by": (*entry.used_by, *within), "removed": False}) if within else entry


def _entry(kind: Kind, path: Path, used_by: tuple[str, ...], removed: bool) -> Entry:
    return Entry(kind=kind, name=path.name, path=path, size_bytes=folder_bytes(path), used_by=used_by, removed=removed)


def _leaves(
    run: RunDirectory, number: int, older_than: datetime.timedelta | None, keep: int | None, now: datetime.datetime
) -> bool:
    """Whether a run goes that is the ``number``-th newest, from 0."""
    if older_than is None and keep is None:
        return False
    old = older_than is None or now - datetime.datetime.fromisoformat(run.manifest.started_at) > older_than
    return old and (keep is None or number >= keep)


def _used(kind: Kind, folder: Path, uses: Mapping[str, frozenset[str]], leaving: set[str]) -> Iterator[Entry]:
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        if path.is_dir() and not path.name.startswith(_REMOVED):
            by = tuple(run for run, used in uses.items() if path.name in used)
            ours = _NAMED[kind].fullmatch(path.name) is not None
            yield _entry(kind if ours else "other", path, by, ours and set(by) <= leaving)


def _sources(run: RunDirectory, sources: Path) -> Iterator[str]:
    """The folders of ``sources`` that a run's source lies in: all of them where a damaged file does not tell."""
    for file in run.path.glob("stages/source-*/stage.json"):
        path = _path_in(file)
        if path is None:
            yield from (folder.name for folder in sources.glob("*"))
        elif path.is_relative_to(sources.resolve()):
            yield path.relative_to(sources.resolve()).parts[0]


def _path_in(file: Path) -> Path | None:
    """Of the source that a stage unpacked; None where the file cannot be read, or another version wrote it."""
    try:
        return Path(json.loads(file.read_text())["output"]["path"]).resolve()
    except (OSError, ValueError, KeyError, TypeError):
        return None
