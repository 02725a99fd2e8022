"""What a level of a factor changes: the base of a study is a change of nothing."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from upshift.measure.variant import Surroundings
from upshift.values import is_empty


def grown(before: Mapping[str, Any], by: Mapping[str, Any]) -> dict[str, Any]:
    """Keys of a recipe changed: lists and tables grow, other values are replaced."""
    found = dict(before)
    for name, value in by.items():
        had = found.get(name)
        if isinstance(had, list) and isinstance(value, list):
            found[name] = [*had, *value]
        elif isinstance(had, dict) and isinstance(value, Mapping):
            found[name] = {**had, **value}
        else:
            found[name] = value
    return found


class Change(Surroundings):
    """What a level changes of the base, or what the base is: keys of a variant, and how the server is built."""

    binary: Path | None = None
    """The server's executable; or else a recipe builds it, or a package has it."""
    server: Annotated[str | None, Field(exclude_if=is_empty)] = None
    """The kind of server; without a binary that of its installed package."""
    recipe: str | None = None
    """A recipe's name or its file."""
    build: Mapping[str, Any] = {}
    """Keys of the recipe: flags are added, other keys replace its own."""
    trained_on: tuple[str, ...] = ()
    """Workloads that find the hot set and train the profile; empty: those that the study measures."""
    hot_set_of: Annotated[tuple[str, ...], Field(exclude_if=is_empty)] = ()
    """Workloads that find the hot set in their place, so that servers of several trainings have one."""

    @property
    def names_a_server(self) -> bool:
        return bool(self.binary or self.server or self.recipe)

    @property
    def needs_a_recipe(self) -> bool:
        """Whether it says how a server is built: an executable that exists already has nothing of it."""
        return bool(self.build or self.trained_on or self.hot_set_of)

    def over(self, base: Change) -> Change:
        """``base`` with this change made: tables and lists grow, other keys are replaced."""
        origin = self if self.names_a_server else base
        return Change(
            settings={**base.settings, **self.settings},
            environment={**base.environment, **self.environment},
            text_huge_pages=self.text_huge_pages or base.text_huge_pages,
            under=(*base.under, *self.under),
            tier=self.tier or base.tier,
            client=(*base.client, *self.client),
            sql=(*base.sql, *self.sql),
            server_cpus=self.server_cpus or base.server_cpus,
            client_cpus=self.client_cpus or base.client_cpus,
            # A level names one way to come by a server, in place of the base's.
            binary=origin.binary,
            server=origin.server,
            recipe=origin.recipe,
            build=grown(base.build, self.build),
            trained_on=self.trained_on or base.trained_on,
            hot_set_of=self.hot_set_of or base.hot_set_of,
        )
