"""The run directory: everything that one command did.

<cache>/runs/20261121-051500-optimize/
  manifest.json    command line, options, version, machine
  commands.log     every command that ran, pasteable
  stages.jsonl     a StageRecord a line, in order
  source.json      the source that the run began with
  finished         there when the command came to its end
  uses             the store's folders that the run has used, a name a line
  logs/            one file a stage
  samples.parquet  raw slices
  result.json      the result, for machines
  report.html      the result, for people
  package/         the install tree and its tarball
"""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import shlex
from pathlib import Path
from typing import Any

from pydantic import ValidationError, field_validator

from upshift.errors import UsageError
from upshift.paths import cache_dir
from upshift.run.record import StageRecord
from upshift.values import Value, describe_invalid


class Manifest(Value):
    """What a run was asked to do; enough to resume it."""

    command: tuple[str, ...]
    options: dict[str, Any]
    started_at: str
    """ISO 8601, with a time zone."""
    upshift_version: str

    @field_validator("started_at")
    @classmethod
    def _a_time(cls, text: str) -> str:
        if datetime.datetime.fromisoformat(text).tzinfo is None:
            raise ValueError("it has no time zone")
        return text

    @property
    def verb(self) -> str:
        """``optimize``, ``build``, ...; empty when only ``upshift`` was typed. ``--quiet`` and the like may stand before it."""
        return next((word for word in self.command[1:] if not word.startswith("-")), "")


class RunDirectory:
    """One run's folder."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def create(cls, verb: str, manifest: Manifest) -> RunDirectory:
        """A new folder named by the time in UTC and the command."""
        stamp = datetime.datetime.fromisoformat(manifest.started_at).strftime("%Y%m%d-%H%M%S")
        base = runs_dir() / f"{stamp}-{verb}"
        path, n = base, 1
        while path.exists():
            n += 1
            path = base.with_name(f"{base.name}-{n}")
        (path / "logs").mkdir(parents=True)
        write_json(path / "manifest.json", manifest.model_dump(mode="json"))
        return cls(path)

    @classmethod
    def open(cls, name: str, verbs: tuple[str, ...]) -> RunDirectory:
        """An existing run, by its name, a unique beginning or ending of it, its path, or ``last``.

        ``last`` is the newest of these commands. Raises UsageError.
        """
        if (Path(name) / "manifest.json").is_file():
            return cls(Path(name).resolve())
        runs = all_runs()
        names = [run.name for run in (*runs, *unreadable_runs())]
        if name == "last":
            matches = [run.name for run in runs if run.manifest.verb in verbs][:1]
        elif name in names:
            matches = [name]
        else:
            # Every name begins with the empty one, which a shell's variable has that is not set.
            matches = [each for each in names if name and (each.startswith(name) or each.endswith(name))]
        if len(matches) != 1:
            what = "several runs match" if matches else "there is no run"
            raise UsageError(f"{what} '{name}'", "`upshift runs` lists them")
        return cls(runs_dir() / matches[0])

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def manifest(self) -> Manifest:
        """Raises UsageError where it is damaged, as by a loss of power, or another version's."""
        file = self.path / "manifest.json"
        try:
            return Manifest.model_validate_json(file.read_bytes())
        except ValidationError as error:
            raise UsageError(
                f"{file} is not a run's manifest: {describe_invalid(error)}", f"remove {self.path} if you do not need it"
            ) from error

    @property
    def commands_log(self) -> Path:
        return self.path / "commands.log"

    @property
    def finished(self) -> bool:
        """Whether its command came to its end."""
        return self._end.is_file()

    def begin(self) -> None:
        """Its command begins, or goes on."""
        self._end.unlink(missing_ok=True)

    def finish(self) -> None:
        self._end.touch()

    @property
    def _end(self) -> Path:
        return self.path / "finished"

    def log(self, name: str) -> Path:
        (self.path / "logs").mkdir(exist_ok=True)
        return self.path / "logs" / f"{name.replace(' ', '-')}.log"

    def add_record(self, record: StageRecord) -> None:
        _add_line(self.path / "stages.jsonl", record.model_dump_json())

    def add_use(self, folder: str) -> None:
        """Remember that this run uses a stage's folder, by its name in the store."""
        if folder not in self.uses():
            _add_line(self.path / "uses", folder)

    @property
    def argument(self) -> str:
        """What names this run on a command line: its name in this cache, elsewhere its path."""
        return self.name if self.path.parent.resolve() == runs_dir().resolve() else shlex.quote(str(self.path))

    def uses(self) -> frozenset[str]:
        file = self.path / "uses"
        return frozenset(file.read_text(errors="replace").splitlines()) if file.is_file() else frozenset()

    def records(self) -> tuple[StageRecord, ...]:
        """The last record of each stage, in the order in which the stages first ran."""
        file = self.path / "stages.jsonl"
        if not file.is_file():
            return ()
        by_folder: dict[str, StageRecord] = {}
        for line in file.read_text().splitlines():
            # A line that a full disk cut short is not worth losing the run for.
            with contextlib.suppress(ValidationError):
                record = StageRecord.model_validate_json(line)
                by_folder[record.folder or record.name] = record
        return tuple(by_folder.values())


def _add_line(file: Path, line: str) -> None:
    """On a line of its own, also behind one that a full disk cut short."""
    with file.open("a+b") as out:
        if out.tell():
            out.seek(-1, os.SEEK_END)
            line = line if out.read(1) == b"\n" else f"\n{line}"
        out.write(f"{line}\n".encode())


def runs_dir() -> Path:
    """The folder of all runs, which may not be there yet. Raises UsageError where there is no home."""
    return cache_dir() / "runs"


def all_runs() -> tuple[RunDirectory, ...]:
    """All runs whose manifest can be read, newest first."""
    found = []
    for run in _run_folders():
        with contextlib.suppress(UsageError, OSError):
            found.append((run.manifest.started_at, run.name, run))
    return tuple(run for *_when, run in sorted(found, key=lambda each: each[:2], reverse=True))


def unreadable_runs() -> tuple[RunDirectory, ...]:
    """The other runs, by name: their manifest is damaged, as by a loss of power, or another version's."""
    readable = {run.name for run in all_runs()}
    return tuple(run for run in _run_folders() if run.name not in readable)


def _run_folders() -> list[RunDirectory]:
    """By name. One that begins with a dot is what an interrupted cleaning left."""
    return [RunDirectory(file.parent) for file in sorted(runs_dir().glob("[!.]*/manifest.json"))]


def write_json(path: Path, value: Any) -> None:
    """Write JSON so that a reader, or a kill, never meets half of it."""
    write_text(path, json.dumps(value, indent=2) + "\n")


def write_text(path: Path, text: str) -> None:
    """Write a text file as ``write_json`` does."""
    partial = path.with_suffix(path.suffix + ".partial")
    partial.write_text(text, encoding="utf-8")
    partial.replace(path)
