"""Which patches a recipe asks for, and whether a server has the switches that its settings name."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import Path

from upshift.build.recipe import Recipe
from upshift.errors import UsageError
from upshift.patches.model import Patch, Series, read_series
from upshift.server.contents import names
from upshift.server.kind import ServerKind


def patches_of(kind: ServerKind, recipe: Recipe) -> tuple[Patch, ...]:
    """The patches that the recipe names, with what they need. Raises RecipeError for a name that there is not."""
    return read_series(kind.series).named(recipe.patches) if recipe.patches else ()


def resolved(kind: ServerKind, recipe: Recipe) -> Recipe:
    """The recipe with all its patches by name, so that two that ask for the same ones are equal."""
    return recipe.model_copy(update={"patches": tuple(each.name for each in patches_of(kind, recipe))})


def refuse_switches(kind: ServerKind, name: str, settings: Iterable[str], server: Path | Collection[str]) -> None:
    """Raises UsageError when ``settings`` name the switch of a patch that the server does not have.

    ``server`` is an executable, or the names of the patches that it will be built with.
    """
    if kind.series is None or not (kind.series / "series.toml").is_file():
        return
    series: Series = read_series(kind.series)
    switches = {each.variable: each for each in series.patches if each.variable}
    for setting in settings:
        patch = switches.get(setting)
        if patch is None:
            continue
        has = names(server, setting) if isinstance(server, Path) else patch.name in server
        if not has:
            raise UsageError(
                f"{name}: {setting} is the switch of patch {patch.name}, which this server does not have",
                f"build it with `--patches {patch.name}`, or leave the setting out",
            )
