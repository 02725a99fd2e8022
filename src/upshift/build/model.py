"""Builds: servers that were made, and what they were made from."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Self

from pydantic import Field

from upshift.build.recipe import Recipe
from upshift.toolchain.model import Toolchain
from upshift.values import Value, is_empty


class Patched(Value):
    """How a build differs from its tree: what the patches of its source touch was compiled again."""

    configured: Path
    """The source that the tree's commands name."""
    source: Path
    """The patched source that is compiled in its place."""
    objects: Path
    """The folder of the objects that are linked in place of the tree's, by the paths of those."""
    tree: Annotated[Path | None, Field(exclude_if=is_empty)] = None
    """The configured build folder, where patches touch plugins: that of the build then has links to all but the new plugins.
    None: they are one.
    """


class Build(Value):
    """A server that was built: source x recipe x profile."""

    recipe: Recipe
    toolchain: Toolchain
    source_sha256: str
    tree: Path
    """The CMake build folder whose commands made it (for a hot-set build: the plain build's)."""
    server: Path
    """The executable."""
    sha256: str
    """Of the executable: what is made from it again is another server, in a folder of the same name."""
    objects: int
    """How many objects were compiled for it."""
    fallbacks: tuple[str, ...] = ()
    """Sources that did not compile with a precompiled header and were compiled without."""
    patched: Annotated[Patched | None, Field(exclude_if=is_empty)] = None
    """None: its source is the one that the tree was configured for."""

    def anonymous(self) -> Self:
        """With a recipe that has no name: rows of a study that build the same share what is made of it."""
        return self.model_copy(update={"recipe": self.recipe.anonymous()})
