"""A series of patches on a server's source, as its ``series.toml`` describes it. docs/reference/patches.md lists the keys."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Self

from pydantic import AfterValidator, Field, StringConstraints, ValidationError, model_validator

from upshift.errors import PatchRefused, RecipeError
from upshift.patches.diff import FileDiff, parse
from upshift.values import Value, content_hash, describe_invalid

ALL = "all"
"""In place of names: every patch of the series."""
_CONDITION = re.compile(r"(>=|<=|==|<|>)\s*(\d+(?:\.\d+)*)")
_HOLDS = {
    ">=": lambda one, other: one >= other,
    "<=": lambda one, other: one <= other,
    "==": lambda one, other: one == other,
    "<": lambda one, other: one < other,
    ">": lambda one, other: one > other,
}


def _range(text: str) -> str:
    for part in text.split(","):
        if not _CONDITION.fullmatch(part.strip()):
            raise ValueError(f"'{part.strip()}' is not a range of versions such as '>=9.7.4, <9.8'")
    return text


class Patch(Value):
    """One patch of a series."""

    name: str
    file: str
    """In the folder of ``series.toml``, in git's format."""
    what: str
    versions: Annotated[str, AfterValidator(_range)]
    """Of the server: ``>=9.7.4, <9.8``."""
    needs: tuple[str, ...] = ()
    """Patches before it in the series that it builds upon."""
    variable: str = ""
    """The system variable that turns it off; empty: it changes nothing by itself, or what it changes is an error of stock."""
    counters: tuple[str, ...] = ()
    tests: tuple[Annotated[str, StringConstraints(pattern=r"^[\w-]+\.[\w-]+$")], ...] = ()
    """As ``main.ps``: MTR names a test that failed in this way."""
    applies_when: str = ""
    falls_back_when: str = ""
    expected: str = ""
    """What was expected before anything was measured."""
    proven: str = ""
    measured: Mapping[str, Mapping[str, float]] = {}
    """By workload, the ratio of instructions a query: ``alone`` beside none, ``last`` beside all other patches."""
    timed: Mapping[str, Mapping[str, tuple[float, float, float]]] = {}
    """By workload, for what instructions do not show: the ratio of ``qps`` and of ``cpu`` time a query, with the patch to
    without it, and the ends of its interval.
    """
    result: str = ""
    """Where the measurement lies."""
    text: Annotated[str, Field(repr=False)] = ""
    """What its file holds."""

    @property
    def changes(self) -> tuple[FileDiff, ...]:
        return parse(self.text)

    def fits_version(self, version: str) -> bool:
        """Whether ``version`` lies in the patch's range; what follows a dash is a packager's."""
        have = _numbers(version)
        found = (_CONDITION.fullmatch(part.strip()) for part in self.versions.split(","))
        return bool(have) and all(_HOLDS[each[1]](have, _numbers(each[2])) for each in found if each)


class Dropped(Value):
    """An idea that the series has no patch of."""

    name: str
    what: str
    why: str
    """Why not."""
    result: str = ""
    """Where it was measured; empty: nowhere."""


class Series(Value):
    """Patches in the order in which they are applied."""

    patches: Annotated[tuple[Patch, ...], Field(alias="patch", min_length=1)]
    dropped: tuple[Dropped, ...] = ()

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        seen: set[str] = set()
        for each in self.patches:
            if each.name in seen or each.name == ALL:
                raise ValueError(f"patch.{each.name}: the name is taken")
            if missing := [name for name in each.needs if name not in seen]:
                raise ValueError(f"patch.{each.name}: it needs {', '.join(missing)}, which does not come before it")
            seen.add(each.name)
        return self

    def named(self, names: Sequence[str]) -> tuple[Patch, ...]:
        """The patches of these names, ``all`` for every one, and what they need, in the order of the series.

        Raises RecipeError for a name that there is not.
        """
        known = {each.name: each for each in self.patches}
        if unknown := [name for name in names if name != ALL and name not in known]:
            raise RecipeError(f"there is no patch '{unknown[0]}'", f"the series has {', '.join(known)}; or `{ALL}` of them")
        wanted = set(known) if ALL in names else set(names)
        for each in reversed(self.patches):  # What a patch needs stands before it.
            if each.name in wanted:
                wanted |= set(each.needs)
        return tuple(each for each in self.patches if each.name in wanted)


def read_series(folder: Path | None) -> Series:
    """The series in ``folder``; None: the server kind has none. Raises RecipeError when it is malformed."""
    if folder is None:
        raise RecipeError("this kind of server has no patch series", "leave the patches out")
    file = folder / "series.toml"
    try:
        found = Series.model_validate(tomllib.loads(file.read_text()))
        patches = tuple(each.model_copy(update={"text": _text(folder / each.file)}) for each in found.patches)
        for each in patches:
            parse(each.text)
    except FileNotFoundError as error:
        raise RecipeError(f"there is no {error.filename}", "series.toml names each patch's file") from error
    except tomllib.TOMLDecodeError as error:
        raise RecipeError(f"{file} is not TOML: {error}", "docs/reference/patches.md lists the keys") from error
    except ValidationError as error:
        raise RecipeError(f"{file}: {describe_invalid(error)}", "docs/reference/patches.md lists the keys") from error
    return found.model_copy(update={"patches": patches})


def patches_key(patches: Sequence[Patch]) -> list[tuple[str, str]]:
    """Patches by their contents, for the key of a stage."""
    return [(each.name, content_hash(each.text)) for each in patches]


def refuse_version(patches: Sequence[Patch], version: str) -> None:
    """Raises PatchRefused when the source's version is not one that a patch is for."""
    wrong = [each for each in patches if not each.fits_version(version)]
    if not wrong:
        return
    first = wrong[0]
    more = f"; {len(wrong)} of {len(patches)} patches are not for it" if len(wrong) > 1 else ""
    others = f", or leave out {', '.join(each.name for each in wrong)}" if len(wrong) < len(patches) else ""
    raise PatchRefused(
        f"patch {first.name} is for versions {first.versions}, and the source is {version}{more}",
        f"name a source of versions {first.versions}{others}; `upshift patch check TREE` shows what fits another source",
    )


def _text(file: Path) -> str:
    # Not every source file is UTF-8.
    return file.read_bytes().decode("utf-8", "surrogateescape")


def _numbers(version: str) -> tuple[int, ...]:
    found = re.match(r"\d+(?:\.\d+)*", version)
    numbers = [int(part) for part in found[0].split(".")] if found else []
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers) if numbers or not found else (0,)
