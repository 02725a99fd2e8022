"""Builds crates/ with cargo, and says where its programs are."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from upshift.errors import CommandFailed, MissingTool, UpshiftError
from upshift.paths import CHECKOUT, cache_dir
from upshift.shell import Command, Shell

RUST_OLDEST = (1, 85)
"""The first compiler that knows Rust 2024, the edition of crates/."""

TIER_LIBRARY = "libupshift_tier.so"
_BUILD_TIMEOUT_S = 3600.0


def build_programs(shell: Shell, *, say: Callable[[str], None]) -> Path:
    """Bring the programs up to date and return their folder. When nothing has changed this takes a fraction of a second.

    Raises MissingTool without a new enough cargo, UpshiftError when the build fails.
    """
    folder = programs_dir()
    require_cargo(shell)
    if not (folder / TIER_LIBRARY).is_file():
        say("building the programs in crates/: once, two or three minutes")
    try:
        shell.run(cargo("build", "--release", "--workspace"), timeout_s=_BUILD_TIMEOUT_S)
    except CommandFailed as error:
        raise UpshiftError(f"cargo could not build crates/: {error.message}", "its own message is above") from error
    return folder


def cargo(verb: str, *arguments: str) -> Command:
    """A cargo command on our workspace, with the versions that Cargo.lock names."""
    argv = ("cargo", verb, "--quiet", "--locked", "--manifest-path", str(CHECKOUT / "Cargo.toml"), *arguments)
    return Command(argv, cwd=CHECKOUT, env={"CARGO_TARGET_DIR": str(target_dir())})


def programs_dir() -> Path:
    """The folder of the programs that ``build_programs`` brings up to date."""
    return target_dir() / "release"


def target_dir() -> Path:
    """Where cargo keeps what it built."""
    return cache_dir() / "target"


def require_cargo(shell: Shell) -> None:
    """Raises MissingTool when there is no cargo, or one that does not know the edition of crates/."""
    oldest = ".".join(map(str, RUST_OLDEST))
    hint = f"install Rust {oldest} or newer with rustup; a distribution's own cargo may be too old"
    try:
        said = shell.run(Command(("cargo", "--version"))).stdout
    except (MissingTool, CommandFailed) as error:
        raise MissingTool("there is no working cargo, which builds the programs in crates/", hint) from error
    found = re.search(r"(\d+)\.(\d+)", said)
    if found is None or (int(found[1]), int(found[2])) < RUST_OLDEST:
        raise MissingTool(f"{said.strip() or 'this cargo'} is too old for the programs in crates/", hint)
