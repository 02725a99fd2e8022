"""A variant: all that two servers under test may differ in, as one value that a user can write in a file."""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Self

from pydantic import AfterValidator, Field, ValidationError, model_validator

from upshift.control_groups import memory_total_bytes
from upshift.errors import NotEnoughRoom, UsageError
from upshift.measure.placement import Seat
from upshift.measure.tier import Tier, refuse_no_room
from upshift.paths import paths_of
from upshift.server.huge_text import refuse_without_huge_pages, with_huge_text
from upshift.server.kind import Program, ServerKind, one_spelling, refuse_reserved
from upshift.server.kinds import find_program, kind_of
from upshift.toml import own_file, read_toml
from upshift.values import Value, content_hash, describe_invalid, is_empty

_CONNECTIONS = re.compile(r"--(connections|threads)(=.*)?|-c=?\d*")
"""As options of load commands: what waits during pauses is known by the load's own number."""
_LONGEST_NAME, _OF_HASH = 100, 20
"""In bytes: file systems take 255, and the load's name and more stand beside it."""


_Cpu = Annotated[int, Field(strict=True)]


class Surroundings(Value):
    """What a server runs with and in, and who loads it."""

    settings: Annotated[Mapping[str, str], AfterValidator(one_spelling)] = {}
    """Server configuration, over what the workloads ask for."""
    environment: Mapping[str, str] = {}
    """Where a preloaded library or an allocator comes in."""
    text_huge_pages: bool = False
    """Whether the server's text is moved onto transparent huge pages, by a preloaded library (crates/hugetext)."""
    under: tuple[str, ...] = ()
    """A command that becomes the server, such as ``numactl`` or ``chrt`` with its options."""
    tier: Tier | None = None
    client: tuple[str, ...] = ()
    """Options behind those of each workload's load command."""
    sql: Annotated[tuple[Path, ...], Field(exclude_if=is_empty)] = ()
    """Files of statements that the server executes on its filled data, in this order, before it is measured."""
    server_cpus: tuple[_Cpu, ...] = ()
    """In place of the plan's; empty: the plan's."""
    client_cpus: tuple[_Cpu, ...] = ()

    @model_validator(mode="after")
    def _can_be_said(self) -> Self:
        for what, named in (("settings", self.settings), ("environment", self.environment)):
            if "" in named:
                raise ValueError(f"{what} have a value without a name")
        if wrong := next((name for name in self.environment if "=" in name), None):
            raise ValueError(f"environment: '{wrong}' has '=' in a name")
        tier = (self.tier.size, self.tier.medium, self.tier.mode, *self.tier.options) if self.tier else ()
        pairs = (*self.settings.items(), *self.environment.items())
        texts = (*itertools.chain(*pairs), *self.under, *self.client, *tier)
        if wrong := next((text for text in texts if "\0" in text), None):
            raise ValueError(f"{wrong!r} has a NUL, which ends a text before its end")
        return self

    def before_server(self, folder: Path) -> tuple[str, ...]:
        """The words before the server's own command; ``folder`` is the trial's own."""
        return (*self.under, *(self.tier.words(folder) if self.tier else ()))


class Variant(Surroundings):
    """One server in an experiment."""

    name: str
    program: Program

    @property
    def file_name(self) -> str:
        """The name as a part of a file's name, so that no two names become one: a slash is percent-encoded, a long name cut and
        ended by its hash. A row of a study with many factors on has the names of all.
        """
        encoded = os.fsencode(self.name.replace("%", "%25").replace("/", "%2F"))
        if len(encoded) <= _LONGEST_NAME:
            return os.fsdecode(encoded)
        kept = encoded[: _LONGEST_NAME - _OF_HASH - 1].decode(errors="ignore")
        return f"{kept}-{content_hash(self.name)[:_OF_HASH]}"

    def on(self, seat: Seat) -> Self:
        """The same on these CPUs."""
        return self.model_copy(update={"server_cpus": seat.server_cpus, "client_cpus": seat.client_cpus})

    def server_environment(self) -> Mapping[str, str]:
        """What the server is started with."""
        return with_huge_text(self.environment, self.program.binary) if self.text_huge_pages else self.environment


class _File(Surroundings):
    """A variant as a user writes it: docs/reference/variants.md lists the keys."""

    server: str | None = None
    """A kind of server; without a binary that of its installed package."""
    binary: Path | None = None

    @model_validator(mode="after")
    def _names_a_server(self) -> Self:
        if self.server is None and self.binary is None:
            raise ValueError("name a binary, or a server whose package is installed")
        return self


def split_name(named: str) -> tuple[str, str]:
    """The name and the path of ``NAME=PATH``; no name of a path alone. Names and folders may have a ``=``, too: the longest
    path that is there counts, or else what stands behind the last ``=`` before a slash.
    """
    ends = [-1, *(at for at, letter in enumerate(named) if letter == "=")]
    there = next((end for end in ends if _is_there(named[end + 1 :])), None)
    end = named.partition("/")[0].rfind("=") if there is None else there
    return named[: max(end, 0)], named[end + 1 :]


def _is_there(path: str) -> bool:
    with contextlib.suppress(OSError, RuntimeError, ValueError):
        return Path(path).expanduser().exists()
    return False


def find_variant(named: str) -> Variant:
    """A variant of ``PATH`` or ``NAME=PATH``: an executable, or a TOML file that describes a variant.

    Raises UsageError when it is neither.
    """
    name, given = split_name(named)
    if file := own_file(given):
        return _read(name or file.stem, file)
    with paths_of(named):
        path = Path(given).expanduser().resolve()
    binary = _executable(path, given, ", or a variant's file with its ending .toml")
    return Variant(name=name or f"{path.parent.name}/{path.name}", program=find_program(binary, None))


def _read(name: str, file: Path) -> Variant:
    hint = "docs/reference/variants.md lists the keys, with an example"
    told = read_toml(file, "variant file", hint)
    try:
        found = _File.model_validate(told)
    except ValidationError as error:
        raise UsageError(f"{file}: {describe_invalid(error)}", hint) from error
    # A relative path is the file's own: it means the same from every folder.
    with paths_of(str(file)):
        home = file.resolve().parent
        binary = found.binary and _executable((home / found.binary.expanduser()).resolve(), str(found.binary))
        sql = find_sql(str(file), found.sql, home)
    program = find_program(binary, found.server)
    refuse_impossible(str(file), found, kind_of(program))
    tier = found.tier and found.tier.beside(home)
    return Variant(
        name=name, program=program, sql=sql, tier=tier, **found.model_dump(exclude={"server", "binary", "sql", "tier"})
    )


def refuse_impossible(where: str, asked: Surroundings, kind: ServerKind) -> None:
    """Raises UsageError or NotEnoughRoom for what this machine cannot give a server, or a server of ``kind`` not take;
    ``where`` says who asks.
    """
    if missing := set(asked.server_cpus + asked.client_cpus) - os.sched_getaffinity(0):
        cpus = ", ".join(map(str, sorted(missing)))
        raise UsageError(f"{where}: CPUs that this machine does not have: {cpus}", "`lscpu --extended` lists its CPUs")
    refuse_reserved(kind, where, asked.settings)
    if own := next(filter(_CONNECTIONS.fullmatch, asked.client), None):
        raise UsageError(
            f"{where}: {own} in `client`, and the load says how many connections there are",
            "use --connections of the command, or `connections` of the study",
        )
    if asked.under and shutil.which(asked.under[0]) is None:
        raise UsageError(f"{where}: there is no program {asked.under[0]}", "install it, or leave `under` out")
    if asked.text_huge_pages:
        refuse_without_huge_pages(where)
    refuse_large_pool(kind, where, asked.settings)
    if asked.tier is None:
        return
    if not kind.can_have_a_tier:
        raise UsageError(
            f"{where}: there is no tier for a {kind.name}", "the page cache supports only InnoDB's files: leave the tier out"
        )
    refuse_no_room(where, asked.tier)


def refuse_large_pool(kind: ServerKind, where: str, settings: Mapping[str, str]) -> None:
    """Raises NotEnoughRoom for a buffer pool that is larger than this machine's memory; ``where`` says who asks."""
    if (pool_bytes := kind.pool_bytes(settings) or 0) > (memory_bytes := memory_total_bytes()):
        raise NotEnoughRoom(
            f"{where}: a buffer pool of {pool_bytes / 2**30:.1f}G, and this machine has {memory_bytes / 2**30:.1f}G of memory",
            "choose a smaller one",
        )


def find_sql(where: str, files: Sequence[Path], folder: Path = Path()) -> tuple[Path, ...]:
    """The absolute paths of files of statements; relative ones lie below ``folder``. Raises UsageError for an absent one."""
    found = tuple((folder / file.expanduser()).resolve() for file in files)
    for file in found:
        if not file.is_file():
            raise UsageError(f"{where}: there is no file of SQL {file}", "name a file with the statements that change the data")
    return found


def read_sql(file: Path) -> str:
    """The statements of a file. Raises UsageError for one that cannot be read."""
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{file} cannot be read: {error}", "name a file of SQL in UTF-8") from error


def _executable(path: Path, given: str, instead: str = "") -> Path:
    if not os.access(path, os.X_OK) or path.is_dir():
        raise UsageError(f"{given} is not an executable", f"name the server's binary, mysqld{instead}")
    return path
