"""Builds crates/ with cargo when their sources have changed, and says where the programs are."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

from upshift.errors import CacheBusy, CommandFailed, MissingTool, UpshiftError, UsageError
from upshift.paths import CHECKOUT, cache_dir
from upshift.run.lock import holding
from upshift.shell import Command, Shell

RUST_OLDEST = (1, 88)
"""The first compiler that knows Rust 2024, the edition of crates/."""

PROGRAMS = "UPSHIFT_PROGRAMS"
"""The variable that names a folder of programs to take as they are; nothing is built then."""
TIER_LIBRARY = "libupshift_tier.so"
HUGE_TEXT_LIBRARY = "libupshift_hugetext.so"
CARD = "upshift-card"
DIFFER = "upshift-differ"
_BUILT = ("upshift-cache", "upshift-load", "upshift-stack", TIER_LIBRARY, HUGE_TEXT_LIBRARY, CARD, DIFFER)
_BUILD_TIMEOUT_S = 3600.0


def build_programs(shell: Shell, *, say: Callable[[str], None]) -> Path:
    """Bring the programs up to date and return their folder; cargo does not run when they are.

    Raises MissingTool without a new enough cargo, UpshiftError when the build fails, CacheBusy when another run works in the
    cache; UsageError where ``$UPSHIFT_PROGRAMS`` names a folder without them.
    """
    folder = programs_dir()
    require_named("upshift-load", "upshift-stack")
    if not programs_are_built():
        require_cargo(shell)
        if not (folder / TIER_LIBRARY).is_file():
            say("building the programs in crates/: once, two or three minutes")
        _build(shell, _BUILT, "--workspace")
    return folder


def build_card(shell: Shell, *, say: Callable[[str], None]) -> Path:
    """Bring the program of the machine card up to date and return it, as ``_build_alone``."""
    return _build_alone(shell, CARD, "machinecard", "the program that measures the machine: once, about a minute", say)


def build_huge_text(shell: Shell, *, say: Callable[[str], None]) -> Path:
    """Bring the library that moves a server's text up to date and return it, as ``_build_alone``."""
    return _build_alone(shell, HUGE_TEXT_LIBRARY, "hugetext", "the library that moves text onto huge pages: once", say)


def _build_alone(shell: Shell, built: str, package: str, what: str, say: Callable[[str], None]) -> Path:
    """Without the others, which take longer. Raises as ``build_programs``."""
    require_named(built)
    if not _is_built(built):
        require_cargo(shell)
        say(f"building {what}")
        _build(shell, (built,), "--package", package)
    return programs_dir() / built


def programs_are_built() -> bool:
    """Whether the programs are there, built from the sources as they are now."""
    return _up_to_date(_BUILT)


def card_is_built() -> bool:
    """Whether the program of the machine card is there, built from the sources as they are now, alone or with the others."""
    return _is_built(CARD)


def huge_text_is_built() -> bool:
    """The same of the library that moves a server's text."""
    return _is_built(HUGE_TEXT_LIBRARY)


def _is_built(name: str) -> bool:
    return _up_to_date((name,)) or programs_are_built()


@contextlib.contextmanager
def building() -> Iterator[None]:
    """Hold the cache, unless this process does: another run may measure with the programs in it. Raises CacheBusy."""
    with contextlib.ExitStack() as lock:
        try:
            lock.enter_context(holding(cache_dir()))
        except CacheBusy as error:
            raise CacheBusy(f"{error.message}, and may use the programs that would be built there", error.hint) from error
        yield


def _build(shell: Shell, built: tuple[str, ...], *what: str) -> None:
    wanted = _sources_sha256()
    with building():
        try:
            shell.run(cargo("build", "--release", *what), timeout_s=_BUILD_TIMEOUT_S)
        except CommandFailed as error:
            raise UpshiftError(f"cargo could not build crates/: {error.message}", "its own message is above") from error
        programs_dir().mkdir(parents=True, exist_ok=True)
        _stamp(built).write_text(wanted)


def _up_to_date(built: tuple[str, ...]) -> bool:
    if os.environ.get(PROGRAMS):
        return True  # They are what their folder has them to be.
    stamp = _stamp(built)
    there = all((programs_dir() / name).is_file() for name in built)
    return there and stamp.is_file() and stamp.read_text() == _sources_sha256()


def _stamp(built: tuple[str, ...]) -> Path:
    """What a program was built from stands here; for all of them it stands once."""
    return programs_dir() / ("upshift-sources.sha256" if built == _BUILT else f"{built[0]}-sources.sha256")


def _sources_sha256() -> str:
    """Of the paths and contents of all that cargo builds from, and of the variables that it reads."""
    digest = hashlib.sha256()
    files = [CHECKOUT / "Cargo.toml", CHECKOUT / "Cargo.lock", *sorted((CHECKOUT / "crates").rglob("*"))]
    for file in files:
        if file.is_file():
            content = file.read_bytes()
            digest.update(f"{file.relative_to(CHECKOUT)}\0{len(content)}\0".encode() + content)
    for name, value in sorted(os.environ.items()):
        if name.startswith(("CARGO_PROFILE_", "CARGO_BUILD_", "RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS")):
            digest.update(f"{name}={value}\0".encode())
    return digest.hexdigest()


def cargo(verb: str, *arguments: str, quiet: bool = True) -> Command:
    """A cargo command on our workspace, with the versions that Cargo.lock names."""
    argv = (
        "cargo",
        verb,
        *(("--quiet",) if quiet else ()),
        "--locked",
        "--manifest-path",
        str(CHECKOUT / "Cargo.toml"),
        *arguments,
    )
    return Command(argv, cwd=CHECKOUT, env={"CARGO_TARGET_DIR": str(target_dir())})


def programs_dir() -> Path:
    """The folder of the programs that ``build_programs`` brings up to date, or that ``$UPSHIFT_PROGRAMS`` names."""
    named = os.environ.get(PROGRAMS)
    return Path(named) if named else target_dir() / "release"


def require_named(*programs: str) -> None:
    """Raises UsageError where a folder is named that has them not."""
    missing = [name for name in programs if not (programs_dir() / name).is_file()]
    if missing and os.environ.get(PROGRAMS):
        raise UsageError(
            f"$UPSHIFT_PROGRAMS names {programs_dir()}, which has no {missing[0]}", "unset it: Upshift builds them"
        )


def target_dir() -> Path:
    """Where cargo keeps what it built."""
    return cache_dir() / "target"


def require_cargo(shell: Shell) -> str:
    """The version of cargo. Raises MissingTool when there is no cargo, or one that does not know the edition of crates/."""
    oldest = ".".join(map(str, RUST_OLDEST))
    hint = f"install Rust {oldest} or newer with rustup; a distribution's own cargo may be too old"
    try:
        said = shell.run(Command(("cargo", "--version"))).stdout
    except (MissingTool, CommandFailed) as error:
        raise MissingTool("there is no working cargo, which builds the programs in crates/", hint) from error
    found = re.search(r"(\d+)\.(\d+)(\.\d+)?", said)
    if found is None or (int(found[1]), int(found[2])) < RUST_OLDEST:
        raise MissingTool(f"{said.strip() or 'this cargo'} is too old for the programs in crates/", hint)
    return found[0]
