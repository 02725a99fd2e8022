"""What is refused before any work, of that which only the server kind or the server itself can judge."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from upshift.errors import CommandFailed, SourceError, UsageError
from upshift.measure.variant import Variant
from upshift.server.kind import ServerKind
from upshift.shell import Shell

_VERSION_TIMEOUT_S = 60.0


def version_of(shell: Shell, kind: ServerKind, server: Path) -> str:
    """What a server says of its version, without its own path. Raises CommandFailed when it does not start."""
    return shell.run(kind.version(server), timeout_s=_VERSION_TIMEOUT_S).stdout.replace(str(server), "").strip()


def versions_of(shell: Shell, kind: ServerKind, servers: Mapping[str, Path]) -> Mapping[str, str]:
    """Each server's version. Raises UsageError when one does not start: a library that is missing shows here."""
    found = {}
    for name, server in servers.items():
        try:
            found[name] = version_of(shell, kind, server)
        except CommandFailed as error:
            said = error.log.strip().splitlines()[-1:] or [error.message]
            hint = "it must run where it lies: try it with --version"
            raise UsageError(f"{name}: {server} does not start: {said[0]}", hint) from error
    return found


def lasting_settings(kind: ServerKind, variant: Variant) -> Mapping[str, str]:
    """The variant's settings that hold for a data folder's whole life, so that its data are its own."""
    return {name: value for name, value in sorted(variant.settings.items()) if name in kind.lasting}


def data_format(kind: ServerKind, version: str, variant: Variant) -> tuple[str, ...]:
    """What two servers must have in common to start on copies of the same data."""
    return (version, *(f"{name}={value}" for name, value in lasting_settings(kind, variant).items()))


def refuse_source(kind: ServerKind, source: str | None) -> None:
    """Raises SourceError when there is no such source, or a folder that is not one of the kind's."""
    if source in (None, "apt"):
        return
    path = Path(source)
    if not path.exists():
        raise SourceError(f"there is no source at {path}", "give --source a directory or a tarball, or leave it out")
    if path.is_dir() and kind.recognise(path) is None:
        raise SourceError(f"{path} is not a {kind.name} source tree", "name the folder that holds the server's CMakeLists.txt")


def refuse_unknown_tests(kind: ServerKind, option: str, tests: str, source: Path | None) -> None:
    """Raises UsageError when the kind has no such tests, as far as that can be told with or without the ``source``."""
    unknown = kind.unknown_tests(tests, source)
    if unknown:
        raise UsageError(
            f"{option} {tests}: {kind.name} has no tests '{', '.join(unknown)}'",
            f"there are the suites {', '.join(kind.suites)}, and single tests by their full names, such as main.1st",
        )
