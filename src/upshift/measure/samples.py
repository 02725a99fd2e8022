"""Raw samples on disk: a line a slice while measuring, so that nothing is lost; Parquet at the end.

    samples.partial.jsonl   first line: {"experiment": HASH}; then a Slice a line
    samples.parquet         a Slice a row; the hash is in its key-value metadata
    samples.pilot.json      what the pilot measured and chose, where there was one

The hash names what was measured and how, the number of trials included: an interrupted experiment goes on with the same
plan, and none is added to after its end. To look at a result before deciding on more trials would call differences that
are not there.
"""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import duckdb
from pydantic import ValidationError

from upshift.errors import UpshiftError
from upshift.measure.model import Load, Plan, Slice
from upshift.measure.pilot import Pilot
from upshift.measure.variant import Variant
from upshift.parquet import database, quoted, read_from, writing
from upshift.run.directory import write_json, write_text
from upshift.values import content_hash, file_sha256

_KEY = "experiment"
_SQL_TYPES = {bool: "BOOLEAN", int: "BIGINT", str: "VARCHAR"}


def experiment_hash(plan: Plan, arms: Sequence[Variant], loads: Sequence[Load], driven: Any = None) -> str:
    """What samples of one experiment have in common; the servers' binaries count by their contents.

    ``driven`` says what the loads run and on which data.
    """
    binaries = [file_sha256(arm.program.binary) if arm.program.binary.is_file() else "" for arm in arms]
    return content_hash(
        {
            "plan": plan,
            "arms": arms,
            "loads": loads,
            "binaries": binaries,
            "driven": driven,
        }
    )


class Samples:
    """The samples of one experiment: in ``parquet`` or, until it is done, in the partial file beside it."""

    def __init__(self, parquet: Path, experiment: str) -> None:
        self.parquet = parquet
        self.partial = parquet.with_suffix(".partial.jsonl")
        self._pilot = parquet.with_suffix(".pilot.json")
        self._experiment = experiment

    def open(self, arms: Sequence[str], slices_of_each: int) -> tuple[Slice, ...]:
        """The slices that count of these arms in all whole trials that are there; makes the partial file ready for more.

        Slices of a trial that was cut short for one of them are dropped: its servers are gone. Those of an arm that died later,
        and rejected ones, stay in the file. Samples of another experiment are moved aside, to ``samples.old-N.jsonl`` or
        ``.parquet``, never mixed in and never deleted.
        """
        found = self._read_parquet() + self._read_partial()
        counts = Counter((each.trial, each.arm) for each in found if not each.rejected)
        whole = tuple(each for each in found if all(counts[each.trial, arm] == slices_of_each for arm in arms))
        self.parquet.parent.mkdir(parents=True, exist_ok=True)
        lines = (self._header(), *(each.model_dump_json() for each in whole))
        write_text(self.partial, "".join(line + "\n" for line in lines))
        return tuple(each for each in whole if each.arm in arms and not each.rejected)

    def add(self, sample: Slice) -> None:
        with self.partial.open("a", encoding="utf-8") as out:
            out.write(sample.model_dump_json() + "\n")

    def finish(self) -> None:
        """Turn the partial file into Parquet and remove it."""
        columns = ", ".join(f"{name}: '{_sql_type(field.annotation)}'" for name, field in Slice.model_fields.items())
        fresh = self.parquet.with_suffix(".new")
        with writing(self.parquet), database() as base:
            base.execute(
                f"COPY (SELECT * FROM read_json({read_from(self.partial)}, format = 'newline_delimited', "
                f"columns = {{{columns}}}) WHERE trial IS NOT NULL) "
                f"TO {quoted(fresh)} (FORMAT parquet, KV_METADATA {{{_KEY}: '{self._experiment}'}})"
            )
        fresh.replace(self.parquet)
        self.partial.unlink()

    def pilot(self) -> Pilot | None:
        """The pilot of an earlier attempt at the same experiment; one of another is moved aside."""
        if not self._pilot.is_file():
            return None
        kept = json.loads(self._pilot.read_text())
        if kept.pop(_KEY) == self._experiment:
            return Pilot.model_validate(kept)
        _move_aside(self._pilot, f"{self.parquet.stem}.pilot", ".json")
        return None

    def keep_pilot(self, pilot: Pilot) -> None:
        write_json(self._pilot, {_KEY: self._experiment, **pilot.model_dump(mode="json")})

    def _header(self) -> str:
        return json.dumps({_KEY: self._experiment})

    def _read_partial(self) -> tuple[Slice, ...]:
        if not self.partial.is_file():
            return ()
        # Lines of bytes: the last one may end within a character.
        header, *lines = self.partial.read_bytes().splitlines() or [b""]
        if header != self._header().encode():
            _move_aside(self.partial, self.parquet.stem, ".jsonl")
            return ()
        found = []
        for line in lines:
            try:
                found.append(Slice.model_validate_json(line))
            except ValidationError:
                break  # The last line, cut short by a kill or a full disk.
        return tuple(found)

    def _read_parquet(self) -> tuple[Slice, ...]:
        # A partial file is newer: it started as a copy of all that the Parquet file held.
        if self.partial.is_file() or not self.parquet.is_file():
            return ()
        with _reading(self.parquet), database() as base:
            metadata = base.execute(f"SELECT key, value FROM parquet_kv_metadata({read_from(self.parquet)})").fetchall()
            if (_KEY.encode(), self._experiment.encode()) in metadata:
                return _read_all(self.parquet)
        _move_aside(self.parquet, self.parquet.stem, ".parquet")
        return ()


def read_samples(parquet: Path) -> tuple[Slice, ...]:
    """The slices in a Parquet file that count, in the order in which they were measured."""
    return tuple(each for each in _read_all(parquet) if not each.rejected)


@contextlib.contextmanager
def _reading(parquet: Path) -> Iterator[None]:
    try:
        yield
    except duckdb.Error as error:
        said = str(error).partition("\n")[0]
        raise UpshiftError(f"{parquet} is damaged: {said}", "restore the file, or measure again") from error


def _read_all(parquet: Path) -> tuple[Slice, ...]:
    """An older version's file may lack a column."""
    with _reading(parquet), database() as base:
        has = {name for name, *_type in base.execute(f"DESCRIBE FROM read_parquet({read_from(parquet)})").fetchall()}
        names = [name for name in Slice.model_fields if name in has]
        rows = base.execute(f"SELECT {', '.join(names)} FROM read_parquet({read_from(parquet)}) ORDER BY started_s").fetchall()
    return tuple(Slice.model_validate(dict(zip(names, row, strict=True))) for row in rows)


def _sql_type(annotation: object) -> str:
    return _SQL_TYPES.get(annotation, "DOUBLE") if isinstance(annotation, type) else "DOUBLE"


def _move_aside(file: Path, stem: str, suffix: str) -> None:
    number = 1
    while (aside := file.with_name(f"{stem}.old-{number}{suffix}")).exists():
        number += 1
    file.replace(aside)
