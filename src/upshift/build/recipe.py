"""A recipe: how to build a server. A TOML file that users read, copy and change."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, ValidationError, model_validator

from upshift.errors import RecipeError
from upshift.paths import shipped, shipped_file
from upshift.toml import read_toml
from upshift.toolchain.model import Family
from upshift.values import Value, describe_invalid, is_empty

ProfileKind = Literal["none", "ir", "csir", "gcc"]

_GIVEN = {
    "CMAKE_BUILD_TYPE": "build_type",
    "CMAKE_C_COMPILER": "toolchain and version",
    "CMAKE_CXX_COMPILER": "toolchain and version",
    "CMAKE_CXX_COMPILER_LAUNCHER": "precompiled_headers",
    "CMAKE_C_FLAGS": "flags",
    "CMAKE_CXX_FLAGS": "flags",
    "CMAKE_EXE_LINKER_FLAGS": "link_flags",
}
"""CMake's options that Upshift gives, and the keys that they come from."""


def _names(given: object) -> object:
    """``"all"`` as well as a list of names."""
    return (given,) if isinstance(given, str) else given


class Recipe(Value):
    """How a server is built."""

    name: str = ""
    """The file's, without .toml; empty in a part of a recipe that several share."""
    description: str = ""
    toolchain: Family = "clang"
    version: Annotated[int, Field(strict=True)] | None = None
    """Major version of the compiler; None: the newest that is there."""
    build_type: Literal["Release", "RelWithDebInfo"] = "Release"
    scope: Literal["hot", "all"] = "all"
    """What is compiled for this recipe: only the hot set, relinked into the plain build, or the whole tree."""
    flags: tuple[str, ...] = ()
    """Added to each compile command."""
    link_flags: tuple[str, ...] = ()
    lto: Literal["none", "thin", "full"] = "none"
    profile: ProfileKind = "none"
    training: Literal["workload", "mtr"] = "workload"
    """What trains the profile: the run's workloads, or MySQL's own tests, which ``training_tests`` names."""
    training_tests: str = "profile"
    """What MTR runs when it trains: ``profile`` (its suites main and innodb), ``short``, or tests separated by commas."""
    post_link: Literal["none", "bolt"] = "none"
    post_link_flags: tuple[str, ...] = ()
    """Added to BOLT's command."""
    precompiled_headers: bool = True
    patches: Annotated[tuple[str, ...], BeforeValidator(_names), Field(exclude_if=is_empty)] = ()
    """Of the server kind's series: names, or ``all``."""
    options: Mapping[str, str] = {}
    """Further CMake options."""

    @model_validator(mode="after")
    def _possible(self) -> Self:
        llvm = self.toolchain in ("clang", "icx")
        if llvm and self.profile == "gcc":
            raise ValueError('profile = "gcc" needs toolchain = "gcc"')
        if not llvm and self.profile in ("ir", "csir"):
            raise ValueError(f'profile = "{self.profile}" needs toolchain = "clang" or "icx"')
        if not llvm and self.lto == "thin":
            raise ValueError('lto = "thin" is LLVM\'s; GCC has lto = "full"')
        if llvm and self.lto == "full":
            raise ValueError('lto = "full" is GCC\'s; clang and icx have lto = "thin"')
        if self.training == "mtr" and self.profile == "none":
            raise ValueError('training = "mtr" trains a profile, and profile = "none" has none')
        if self.training != "mtr" and self.training_tests != type(self).model_fields["training_tests"].default:
            raise ValueError('training_tests needs training = "mtr"')
        if self.post_link_flags and self.post_link == "none":
            raise ValueError('post_link_flags needs post_link = "bolt"')
        if self.scope == "hot" and self.profile == "none" and self.lto == "none" and not self.flags:
            raise ValueError('scope = "hot" without a profile, LTO or flags would rebuild the same objects')
        if self.post_link == "bolt" and self.toolchain == "gcc" and "-fno-reorder-blocks-and-partition" not in self.flags:
            raise ValueError(
                'BOLT after GCC needs flags = ["-fno-reorder-blocks-and-partition"]: it cannot read split functions'
            )
        # CMake takes an option's type, too: NAME:TYPE.
        if given := next((name for name in self.options if name.partition(":")[0] in _GIVEN), None):
            raise ValueError(f"options.{given} is what Upshift gives: use {_GIVEN[given.partition(':')[0]]} in its place")
        for key in ("flags", "link_flags", "post_link_flags"):
            if spaced := next((word for word in getattr(self, key) if re.search(r"\s", word)), None):
                raise ValueError(f"{key} has '{spaced}', with white space: write each word as a text of its own")
        return self

    def trained_by(self, workloads: Iterable[str]) -> tuple[str, ...]:
        """What trains the profile and BOLT, for people: the run's workloads, or the server's own tests."""
        return (f"the server's own tests: {self.training_tests}",) if self.training == "mtr" else tuple(workloads)

    def anonymous(self) -> Self:
        """Without its name: two that build the same are equal."""
        return self._without("name", "description")

    def untrained(self) -> Self:
        """What of it is not about what trains: two that are equal differ in their training alone."""
        return self._without("name", "description", "training", "training_tests")

    def before_post_link(self) -> Self:
        """What of it decides the server that the post-link step is given: recipes that differ elsewhere share that build."""
        return self._without("name", "description", "post_link", "post_link_flags")

    def without_flags(self) -> Self:
        """What of it is not about flags: two that are equal differ in their flags alone."""
        return self._without("name", "description", "flags", "link_flags")

    def before_patches(self) -> Self:
        """What of it decides the build of the source as it is."""
        return self._without("patches")

    def before_profile(self) -> Self:
        """What of it decides the instrumented server: recipes that differ elsewhere, or in what trains it, share that build."""
        shared = self.before_post_link()._without("lto", "training", "training_tests")
        return shared.model_copy(update={"profile": "ir"}) if self.profile == "csir" else shared

    def _without(self, *names: str) -> Self:
        defaults = {name: type(self).model_fields[name].default for name in names}
        return self.model_copy(update=defaults)


def shipped_recipes() -> tuple[Recipe, ...]:
    return tuple(read_recipe(file) for file in sorted(shipped("recipes").glob("*.toml")))


def find_recipe(name_or_path: str) -> Recipe:
    """A shipped recipe by its name, or any by the path of its file. Raises RecipeError."""
    return read_recipe(recipe_file(name_or_path))


def recipe_file(name_or_path: str) -> Path:
    """The file of a recipe. Raises RecipeError when there is none."""
    path = Path(name_or_path)
    file = path if path.suffix == ".toml" else shipped_file("recipes", name_or_path)
    if file is None or not file.is_file():
        raise RecipeError(
            f"there is no recipe '{name_or_path}'",
            "`upshift recipes` lists those that are shipped; name a file of your own with its ending .toml",
        )
    return file


def read_recipe(file: Path) -> Recipe:
    """The recipe in a file. Raises RecipeError when it cannot be read, or is none."""
    told = read_toml(file, "recipe", "compare it with a file in recipes/", RecipeError)
    try:
        return Recipe.model_validate({"name": file.stem, **told})
    except ValidationError as error:
        raise RecipeError(f"{file}: {describe_invalid(error)}", "docs/reference/recipes.md lists the keys") from error
