"""A study as users write it: factors with their levels, loads, a design, a budget. docs/reference/study.md lists the keys."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import AfterValidator, BeforeValidator, Field, FiniteFloat, ValidationError, model_validator

from upshift.build.recipe import Recipe
from upshift.card.program import LEAST_S, MOST_S
from upshift.errors import UsageError
from upshift.limits import MOST_BUDGET_S, MOST_CONNECTIONS, MOST_ROUNDS, MOST_SECONDS, MOST_TRIALS
from upshift.measure.model import Metric
from upshift.measure.variant import find_sql
from upshift.options import Options
from upshift.paths import paths_of, shipped, shipped_file
from upshift.study.change import Change
from upshift.study.designs import Factor, Kind, Row
from upshift.toml import own_file, read_toml
from upshift.values import Value, describe_invalid

OFF = "off"
"""The level of each factor that leaves it as the base has it; it is not written."""
_UNITS_S = {"s": 1, "m": 60, "h": 3600}
_BUDGET = re.compile(r"([0-9]{1,9})([smh])")
_HINT = "docs/reference/study.md lists the keys, with an example"
T = TypeVar("T")


def _seconds(text: object) -> object:
    if not isinstance(text, str):
        return text
    found = _BUDGET.fullmatch(text)
    if not found:
        raise ValueError(f"'{text}' is not a time such as 90s, 40m or 2h")
    return int(found[1]) * _UNITS_S[found[2]]


def _card_seconds(seconds: float) -> float:
    if seconds and not LEAST_S <= seconds <= MOST_S:
        raise ValueError(f"a card takes {LEAST_S:g} to {MOST_S:g} seconds, or 0 for none")
    return seconds


def _each_once(listed: tuple[T, ...]) -> tuple[T, ...]:
    if twice := next((each for each in listed if listed.count(each) > 1), None):
        raise ValueError(f"{twice} is named twice")
    return listed


def _quoted(names: Iterable[str]) -> str:
    return ", ".join(f"'{name}'" for name in names)


def _plain_name(names: Mapping[str, Any]) -> Mapping[str, Any]:
    for name in names:
        if not re.fullmatch(r"[\w.-]+", name) or name == OFF:
            raise ValueError(f"'{name}' is not a name: letters, digits, '.', '_' and '-', and not '{OFF}'")
    return names


Budget = Annotated[FiniteFloat, BeforeValidator(_seconds), Field(gt=0, le=MOST_BUDGET_S, strict=True)]


class Study(Value):
    """What is asked."""

    name: str
    """The file's, without .toml."""
    description: str = ""
    source: str | None = None
    """For builds: a source directory or tarball; None: the distribution's."""
    base: Change
    factors: Annotated[Mapping[str, Mapping[str, Change]], AfterValidator(_plain_name)] = {}
    """Levels by name, for each factor; ``off`` is not written."""
    design: Literal["auto", Kind] = "auto"
    rows: tuple[tuple[str, ...], ...] = ()
    """For a grid: what is on in each row, as ``factor`` or ``factor=level``."""
    workloads: Annotated[tuple[str, ...], Field(min_length=1)] = ("oltp_read_write", "oltp_read_only", "oltp_point_select")
    held_out: tuple[str, ...] = ()
    connections: Annotated[
        tuple[Annotated[int, Field(ge=1, le=MOST_CONNECTIONS, strict=True)], ...],
        Field(min_length=1),
        AfterValidator(_each_once),
    ] = (8,)
    metric: Metric = "total_cpu_us_per_query"
    trials: Annotated[int, Field(ge=1, le=MOST_TRIALS, strict=True)] | None = None
    """Server starts of each row; None: as many as the budget holds."""
    rounds: Annotated[int, Field(ge=1, le=MOST_ROUNDS, strict=True)] | None = None
    """As for ``upshift measure``, with the same defaults; so are ``slice_s``, ``lead_s``, ``warmup_s``, ``speed_probe`` and
    ``duet``."""
    slice_s: Annotated[FiniteFloat, Field(ge=0.02, le=MOST_SECONDS, strict=True)] | None = None
    lead_s: Annotated[FiniteFloat, Field(ge=0, le=MOST_SECONDS, strict=True)] | None = None
    warmup_s: Annotated[FiniteFloat, Field(ge=0, le=MOST_SECONDS, strict=True)] | None = None
    speed_probe: bool = False
    duet: bool = False
    """Each row is measured at the same time as the first one."""
    train_s: Annotated[FiniteFloat, Field(ge=1, le=MOST_SECONDS, strict=True)] = 20.0
    card_s: Annotated[FiniteFloat, Field(ge=0, strict=True), AfterValidator(_card_seconds)] = 10.0
    """For the machine card; 0: none."""
    trainings: Annotated[int, Field(ge=1, le=MOST_TRIALS, strict=True)] = 1
    """Trainings of each profile: the trials are shared out among them and their layouts."""
    layouts: Annotated[int, Field(ge=1, le=MOST_TRIALS, strict=True)] = 1
    """Of each training's server: BOLT trained anew, or the linker's padding in other places where BOLT does nothing."""
    budget: Budget = 3600.0
    """Seconds for measuring; builds and the filling of data are not in it."""
    confirm: Annotated[float, Field(ge=0, lt=1, strict=True)] = 0.25
    """The share of the budget that measures the recommended set once more."""

    @model_validator(mode="after")
    def _whole(self) -> Self:
        for name, levels in self.factors.items():
            _plain_name(levels)
            if not levels:
                raise ValueError(f"factor '{name}' has no level")
        if not self.factors:
            raise ValueError("there is no factor")
        _each_once((*self.workloads, *self.held_out))
        if bool(self.rows) != (self.design == "grid"):
            raise ValueError('rows are those of design = "grid", which needs them')
        if not self.base.names_a_server:
            raise ValueError("base: name a binary, a recipe, or a server whose package is installed")
        changes = (self.base, *(level for levels in self.factors.values() for level in levels.values()))
        for each in changes:
            if each.recipe and (each.binary or each.server):
                raise ValueError("recipe: it builds the server; name a binary or a server in another level, or leave it out")
            # Another level may bring the recipe: each row is judged with all of its levels.
            origins = (each,) if each.names_a_server else changes
            if each.needs_a_recipe and not any(origin.recipe for origin in origins):
                raise ValueError("build, trained_on, hot_set_of: only for a server that a recipe builds, which nothing names")
            if unknown := set(each.build) - (set(Recipe.model_fields) - {"name", "description"}):
                raise ValueError(f"build: {', '.join(sorted(unknown))} is not a key of a recipe")
        return self

    def options(self, jobs: int = 0) -> Options:
        """How its servers are built, trained and measured."""
        given = {
            name: value for name in ("rounds", "slice_s", "lead_s", "warmup_s") if (value := getattr(self, name)) is not None
        }
        return Options.model_validate(
            {
                "source": self.source,
                "recipe": self.base.recipe,
                "workloads": self.workloads,
                "held_out": self.held_out,
                "connections": self.connections,
                "trials": self.trials or 1,
                "train_s": self.train_s,
                "card_s": self.card_s,
                "speed_probe": self.speed_probe,
                "duet": self.duet,
                "jobs": jobs,
                **given,
            }
        )

    @property
    def times_built(self) -> int:
        """How many servers each row has: the trials are shared out among them."""
        return self.trainings * self.layouts

    @property
    def replicates(self) -> int | None:
        """How many independent ones the trials of a row come from; None: each trial is one."""
        return next((number for number in (self.trainings, self.layouts) if number > 1), None)

    def listed_factors(self) -> tuple[Factor, ...]:
        return tuple(Factor(name=name, levels=(OFF, *levels)) for name, levels in self.factors.items())

    def listed_rows(self) -> tuple[Row, ...]:
        """A grid's rows. Raises UsageError for an unknown factor or level."""
        return tuple(self._row(row) for row in self.rows)

    def change(self, row: Row) -> Change:
        """The base with all levels of ``row``, in the order of the factors."""
        change = self.base
        for _name, level in self.levels(row):
            change = level.over(change)
        return change

    def levels(self, row: Row) -> Iterator[tuple[str, Change]]:
        """What is on in ``row``: each factor's name with its level, in the order of the factors."""
        for (name, levels), level in zip(self.factors.items(), row, strict=True):
            if level:
                yield name, tuple(levels.values())[level - 1]

    def _row(self, items: tuple[str, ...]) -> Row:
        chosen: dict[str, int] = {}
        for item in items:
            name, _, level = item.partition("=")
            if name not in self.factors:
                raise UsageError(f"rows name an unknown factor '{name}'", f"the factors are {_quoted(self.factors)}")
            levels = tuple(self.factors[name])
            if level and level not in levels:
                raise UsageError(f"factor '{name}' has no level '{level}'", f"its levels are {_quoted(levels)}")
            if not level and len(levels) > 1:
                raise UsageError(f"rows name factor '{name}' without a level", f"write {name}={levels[0]}")
            if name in chosen:
                raise UsageError(f"a row names factor '{name}' twice", "each factor has one level in a row")
            chosen[name] = levels.index(level) + 1 if level else 1
        return tuple(chosen.get(name, 0) for name in self.factors)


def find_study(name_or_path: str) -> Study:
    """A shipped study by its name, or any by the path of its file. Raises UsageError."""
    path = Path(name_or_path)
    if path.suffix == ".toml":
        return read_study(path)
    file = shipped_file("studies", name_or_path)
    if file is None:
        names = ", ".join(each.stem for each in sorted(shipped("studies").glob("*.toml")))
        raise UsageError(
            f"there is no study '{name_or_path}'",
            f"those that are shipped are {names}; name a file of your own with its ending .toml",
        )
    return read_study(file)


def read_study(file: Path) -> Study:
    """Raises UsageError for what is no study; relative paths in it are the file's own."""
    told = read_toml(file, "study", "the shipped studies are in studies/")
    try:
        found = Study.model_validate({"name": file.stem, **told})
    except ValidationError as error:
        raise UsageError(f"{file}: {describe_invalid(error)}", _HINT) from error
    with paths_of(str(file)):
        return _at_home(found, file.resolve().parent)


def _at_home(study: Study, folder: Path) -> Study:
    """With absolute paths, so that a study that is resumed from another folder finds the same files."""

    def placed(change: Change) -> Change:
        update: dict[str, Any] = {}
        if change.binary:
            update["binary"] = (folder / change.binary.expanduser()).resolve()
        if change.recipe:
            update["recipe"] = _file(change.recipe, folder)
        if change.sql:
            update["sql"] = find_sql(study.name, change.sql, folder)
        if change.tier:
            update["tier"] = change.tier.beside(folder)
        for key in ("trained_on", "hot_set_of"):
            update[key] = tuple(_file(name, folder) for name in getattr(change, key))
        return change.model_copy(update=update)

    factors = {name: {level: placed(each) for level, each in levels.items()} for name, levels in study.factors.items()}
    source = study.source
    return study.model_copy(
        update={
            "base": placed(study.base),
            "factors": factors,
            "workloads": tuple(_file(name, folder) for name in study.workloads),
            "held_out": tuple(_file(name, folder) for name in study.held_out),
            "source": str((folder / Path(source).expanduser()).resolve()) if source and source != "apt" else source,
        }
    )


def _file(name: str, folder: Path) -> str:
    return str(own_file(name, folder) or name)
