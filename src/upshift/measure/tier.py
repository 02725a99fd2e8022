"""The page cache that a variant's server may have: its keys, and what it takes of the machine."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import AfterValidator

from upshift.control_groups import memory_available_bytes
from upshift.errors import NotEnoughRoom, UsageError
from upshift.native.programs import programs_dir
from upshift.values import Value

_FOLDER = "{folder}"
_SIZES = {"K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}

TIER_OPTIONS = frozenset({"--page-size", "--promotion", "--cutoff", "--audit", "--rule", "--status", "--library"})
TIER_SWITCHES = frozenset({"--read-ahead", "--no-read-ahead", "--format"})
"""Options of ``upshift cache run`` that a variant may have: the others have keys of their own, or start no server."""


def _medium(text: str) -> str:
    kind, _, path = text.partition(":")
    if text not in {"memory", "memory-lz4"} and not (kind in {"file", "direct"} and path):
        raise ValueError(f"'{text}' is not memory, memory-lz4, file:PATH or direct:PATH")
    return text


def _tier_options(words: tuple[str, ...]) -> tuple[str, ...]:
    rest = iter(words)
    for word in rest:
        name, is_valued, _ = word.partition("=")
        if name not in TIER_OPTIONS and word not in TIER_SWITCHES:
            known = ", ".join(sorted(TIER_OPTIONS | TIER_SWITCHES))
            raise ValueError(f"'{word}' is none of {known}; size, medium and mode have keys of their own")
        if name in TIER_OPTIONS and not is_valued and next(rest, "-").startswith("-"):
            raise ValueError(f"{name} has no value")
    return words


class Tier(Value):
    """A page cache under the server, by ``upshift cache run``."""

    size: str
    medium: Annotated[str, AfterValidator(_medium)] = "memory"
    """As for ``--medium``; ``{folder}`` in it is a folder of the trial's own, beside its data."""
    mode: Literal["write-through", "write-around", "write-invalidate", "pass-through"] = "write-through"
    options: Annotated[tuple[str, ...], AfterValidator(_tier_options)] = ()
    """Further options of ``upshift cache run``."""

    def beside(self, folder: Path) -> Self:
        """The same; a relative path of the medium begins at ``folder``, and not where the command happens to be started."""
        kind, _, path = self.medium.partition(":")
        if not path or path.startswith(_FOLDER):
            return self
        return self.model_copy(update={"medium": f"{kind}:{folder / path}"})

    @property
    def places(self) -> frozenset[str]:
        """The files and devices that no other server's tier may have meanwhile; not those of the trial's own folder."""
        medium = self.medium.partition(":")[2]
        statuses = [value for name, value in self._valued() if name == "--status"]
        return frozenset(os.path.realpath(path) for path in (medium, *statuses) if path and not path.startswith(_FOLDER))

    def _valued(self) -> Iterator[tuple[str, str]]:
        """The options that have a value, in either spelling."""
        rest = iter(self.options)
        for word in rest:
            name, is_valued, value = word.partition("=")
            if name in TIER_OPTIONS:
                yield name, value if is_valued else next(rest)

    @property
    def memory_bytes(self) -> int:
        """What it takes of the machine's memory."""
        return size_bytes(self.size) if self.medium.startswith("memory") else 0

    def words(self, folder: Path) -> tuple[str, ...]:
        """What stands before the server's command."""
        medium = self.medium.replace(_FOLDER, str(folder))
        named = ("--size", self.size, "--medium", medium, "--mode", self.mode)
        # The page goes with the folder. In the place that `run` chooses, the page of a server that is killed stays.
        is_placed = any(name == "--status" for name, _value in self._valued())
        page = () if is_placed else ("--status", str(folder / "tier.status"))
        return (str(programs_dir() / "upshift-cache"), "run", *named, *page, *self.options, "--")


def refuse_no_room(where: str, tier: Tier) -> None:
    """Raises UsageError for a tier without a size, NotEnoughRoom for one in memory that this machine does not have free;
    ``where`` says who asks.
    """
    if size_bytes(tier.size) == 0:
        raise UsageError(f"{where}: a tier of {tier.size}", "name a size such as 512M")
    if tier.memory_bytes > (available := memory_available_bytes()):
        raise NotEnoughRoom(
            f"{where}: a tier of {tier.size} in memory, and {available / 2**30:.1f}G are free",
            "choose a smaller tier, or a medium on a disk",
        )


def refuse_shared_tiers(named: Iterable[tuple[str, Tier | None]]) -> None:
    """Raises UsageError when two of these, by what to call them, have a tier in the same place: they run side by side."""
    owners: dict[str, str] = {}
    for where, each in named:
        for place in sorted(each.places) if each else ():
            if place in owners:
                raise UsageError(
                    f"{owners[place]} and {where} have a tier in {place}, and servers of a trial run side by side",
                    f'give each a place of its own, such as medium = "file:{_FOLDER}/medium"',
                )
            owners[place] = where


def size_bytes(text: str) -> int:
    """``512M``, ``4G``, ``1048576``; 0 for what is no size."""
    unit = _SIZES.get(text[-1:].upper(), 1)
    digits = text[:-1] if unit > 1 else text
    return int(digits) * unit if re.fullmatch(r"[0-9]{1,30}", digits) else 0
