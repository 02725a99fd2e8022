"""Stages: named, timed steps whose results are addressed by the hash of their inputs, and skipped when they are there.

A stage's inputs say everything that its result depends on: the commands, flags and settings that it will use, and the
contents of what it reads. A path says nothing of its contents, and the day nothing of anything.
"""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol, TypeVar

import psutil
from pydantic import BaseModel, ValidationError

from upshift.files import object_in
from upshift.run.cleaning import discard
from upshift.run.directory import RunDirectory, write_json
from upshift.run.fingerprint import fingerprint
from upshift.run.record import StageRecord
from upshift.shell import Shell
from upshift.values import Value, content_hash
from upshift.workbench import Progress, Workbench

_LOOK_S = 1.0
_SPENT = "spent.json"
_DONE = "stage.json"

T = TypeVar("T", bound=Value)


class StageProgress(Progress, Protocol):
    """Where stages say how far they are; ``upshift.console`` shows it with the time that remains."""

    def stage_started(self, name: str) -> None: ...
    def stage_ended(self, record: StageRecord) -> None: ...


class Stages:
    """Runs stages for one run: looks results up by the hash of their inputs, and records what each took."""

    def __init__(self, run: RunDirectory, store: Path, shell: Shell, progress: StageProgress) -> None:
        self._run = run
        self._store = store
        self._shell = shell
        self._progress = progress
        self._taken: dict[str, str] = {}
        """The folders of the results that this attempt took or made, each with its stage's name, in their order."""

    def records(self) -> tuple[StageRecord, ...]:
        """What the stages took that this attempt's result is made of. An earlier attempt of the run may have had others, whose
        inputs have changed since."""
        by_folder = {each.folder or each.name: each for each in self._run.records()}
        found = (by_folder.get(folder) or by_folder.get(name) for folder, name in self._taken.items())
        return tuple(dict.fromkeys(each for each in found if each))

    def run(
        self,
        name: str,
        output: type[T],
        action: Callable[[Workbench], T],
        *,
        inputs: Mapping[str, Any],
        version: int = 1,
        keep: bool = True,
        goes_on: bool = False,
        lasts: Callable[[T], bool] = lambda _result: True,
        works: Callable[[T], bool] = lambda _result: True,
    ) -> T:
        """The result of ``action``, from the store when one with the same inputs is there and its files are as they were.

        ``version`` is raised when the same inputs lead to another result than before. With ``keep`` the result is shared by
        all runs; without, it belongs to this run (measurements are never another's). What an interrupted attempt left is
        removed, unless the action ``goes_on`` from it. A result that does not last, because what led to it may pass, is
        not kept at all. A kept result that no longer ``works`` is made again.
        """
        key = content_hash({"stage": name, "version": version, "inputs": inputs})[:20]
        folder = (self._store if keep else self._run.path / "stages") / f"{name.replace(' ', '-')}-{key}"
        done = folder / _DONE
        self._progress.stage_started(name)
        if kept := _read_kept(done, output, works):
            record, result = kept
            record = record.model_copy(update={"folder": folder.name})
            self._use(folder)
            if not any(_same(earlier, record) for earlier in self._run.records()):
                self._run.add_record(record)
            self._taken[folder.name] = name
            self._progress.stage_ended(record)
            return result
        _prepare(folder, goes_on=goes_on)
        self._use(folder)
        with _Meter(folder / _SPENT) as meter:
            result = action(Workbench(folder, self._shell, self._run.log(name), self._progress))
        record = StageRecord(name=name, folder=folder.name, cached=False, **meter.spent())
        if lasts(result):
            # Files elsewhere are not its own: the compiler's change with each update of the system.
            own = (self._store.parent, self._run.path)
            saved = _Saved(record=record, output=result.model_dump(mode="json"), files=_files(result, own))
            write_json(done, saved.model_dump(mode="json"))
        else:
            (folder / _SPENT).unlink()
        self._run.add_record(record)
        self._taken[folder.name] = name
        self._progress.stage_ended(record)
        return result

    def _use(self, folder: Path) -> None:
        if folder.parent == self._store:
            self._run.add_use(folder.name)


def _same(earlier: StageRecord, record: StageRecord) -> bool:
    """Whether the run has the record already; one of an earlier Upshift has no folder."""
    return earlier.folder == record.folder if earlier.folder else earlier.name == record.name


class _Saved(Value):
    record: StageRecord
    output: Any
    files: dict[str, str]
    """The files and folders of Upshift's own that the result names, with their fingerprints."""


def _read_kept(done: Path, output: type[T], works: Callable[[T], bool]) -> tuple[StageRecord, T] | None:
    """A finished stage's record and result; None when there is none, when a file or folder of it is gone or has changed, when
    it no longer ``works``, or when an older version of Upshift wrote it. What is left of it then counts for nothing, not even
    the time that it took."""
    if not done.is_file():
        return None
    try:
        saved = _Saved.model_validate_json(done.read_text())
        if all(fingerprint(Path(path)) == kept for path, kept in saved.files.items()):
            result = output.model_validate(saved.output)
            if works(result):
                return saved.record.model_copy(update={"cached": True}), result
    except ValidationError:
        pass
    discard(done.parent)
    return None


def _files(value: Any, below: tuple[Path, ...]) -> dict[str, str]:
    """Every file and folder ``below`` these folders that a result names, as far as they are there, with its fingerprint."""
    if isinstance(value, BaseModel):
        return _files([getattr(value, name) for name in type(value).model_fields], below)
    if isinstance(value, Mapping):
        return _files(list(value.values()), below)
    if isinstance(value, list | tuple):
        return {path: found for item in value for path, found in _files(item, below).items()}
    own = isinstance(value, Path) and any(value.is_relative_to(folder) for folder in below)
    found = fingerprint(value) if own else None
    return {str(value): found} if found else {}


def _prepare(folder: Path, *, goes_on: bool) -> None:
    """The stage's folder, empty but for the account of earlier attempts unless the action goes on from what they left."""
    folder.mkdir(parents=True, exist_ok=True)
    if not goes_on:
        empty(folder)


def empty(folder: Path) -> None:
    """Remove what attempts left in a stage's folder, but for their account, which the meter of a stage that runs rewrites."""
    for entry in folder.iterdir():
        if entry.name.startswith(_SPENT):
            continue
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink()


class _Meter:
    """Wall time, CPU time of all children, and the peak memory of the process tree, over all attempts at a stage.

    Written to ``file`` as time goes on, so that what a killed attempt took is not lost.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._before = object_in(file)
        self._stop = threading.Event()
        self._peak_bytes = 0

    def __enter__(self) -> _Meter:
        self._started = time.monotonic()
        self._cpu_before_s = _cpu_s()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self._stop.set()
        self._thread.join()
        self._spent = self._sum(0.0)
        write_json(self._file, self._spent)

    def spent(self) -> dict[str, Any]:
        """What this attempt took plus what interrupted attempts at the same stage took before it."""
        return self._spent

    def _sum(self, live_cpu_s: float) -> dict[str, Any]:
        return {
            "wall_s": round(time.monotonic() - self._started + self._before.get("wall_s", 0.0), 3),
            "cpu_s": round(_cpu_s() - self._cpu_before_s + live_cpu_s + self._before.get("cpu_s", 0.0), 3),
            "peak_memory_bytes": int(max(self._peak_bytes, self._before.get("peak_memory_bytes", 0))),
        }

    def _watch(self) -> None:
        while True:
            memory_bytes, live_cpu_s = _tree()
            self._peak_bytes = max(self._peak_bytes, memory_bytes)
            with contextlib.suppress(OSError):  # a full disk: the stage meets it, too, and says so
                write_json(self._file, self._sum(live_cpu_s))
            if self._stop.wait(_LOOK_S):
                return


def _cpu_s() -> float:
    own, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime


def _tree() -> tuple[int, float]:
    """Resident memory of this process and all below it, and the CPU time of those below that have not ended yet."""
    own = psutil.Process(os.getpid())
    memory_bytes, cpu_s = own.memory_info().rss, 0.0
    for process in own.children(recursive=True):
        try:
            memory_bytes += process.memory_info().rss
            cpu_s += sum(process.cpu_times()[:4])
        except psutil.Error:
            continue
    return memory_bytes, cpu_s
