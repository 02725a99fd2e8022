"""What is refused before any work, of that which only the machine, the server kind or the server itself can judge."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path

from upshift.errors import CommandFailed, SourceError, UsageError, WorkloadError
from upshift.files import text_in
from upshift.measure.variant import Variant
from upshift.paths import cache_dir
from upshift.server.contents import ELF, holds
from upshift.server.data import settings_of
from upshift.server.kind import KindOf, Program, ServerKind, SourceKind, bare
from upshift.shell import Shell
from upshift.toolchain.environment import changing_builds
from upshift.workload.model import Workload

_VERSION_TIMEOUT_S = 60.0
_NUMBER = re.compile(r"\d+(?:\.\d+)+\S*")
_MYSQL = re.compile(r"\bVer (\d+)\.(\d+)\.(\d+)")
OLDEST_MYSQL = 8, 0, 30
"""It has innodb_redo_log_capacity, which each MySQL is started with."""
_OF_MYSQLD = b"skip-grant-tables\0"
"""The name of an option that each mysqld has. The client mysql, which says its version in the same words, does not have it."""
OF_SERVERS = ("GLIBC_TUNABLES", "LD_BIND_NOW", "LD_PRELOAD")
_OF_ALLOCATORS = ("MALLOC_", "MIMALLOC_", "TCMALLOC_")


def version_of(shell: Shell, kind: ServerKind, server: Path) -> str:
    """What a server says of its version, without its own path. Raises CommandFailed when it does not start."""
    return shell.run(kind.version(server), timeout_s=_VERSION_TIMEOUT_S).stdout.replace(str(server), "").strip()


def versions_of(shell: Shell, kind_of: KindOf, servers: Mapping[str, Program]) -> Mapping[str, str]:
    """Each server's version. Raises UsageError for a script, for what is no MySQL or too old a one, and when one does not
    start: a missing library shows here.
    """
    found = {}
    for name, server in servers.items():
        _refuse_script(name, server.binary)
        try:
            found[name] = version_of(shell, kind_of(server), server.binary)
            if server.kind == "mysql":
                _refuse_other(name, server.binary, found[name])
            refuse_confined(name, server.binary)
        except CommandFailed as error:
            said = error.log.strip().splitlines()[-1:] or [error.message]
            hint = "run it with --version to see why"
            raise UsageError(f"{name}: {server.binary} does not start: {said[0]}", hint) from error
    return found


def _refuse_other(name: str, server: Path, version: str) -> None:
    """Raises UsageError for another program, and for a MySQL that does not start with what Upshift sets."""
    if "MariaDB" in version:
        raise UsageError(f"{name}: {server} is a MariaDB", "name a MySQL: Upshift starts no MariaDB")
    number = mysql_number(version)
    if number is None or not holds(server, _OF_MYSQLD):
        raise UsageError(f"{name}: {server} is no MySQL server", "name the server's binary, mysqld")
    if number < OLDEST_MYSQL:
        own, oldest = (".".join(map(str, each)) for each in (number, OLDEST_MYSQL))
        raise UsageError(f"{name}: {server} is a MySQL {own}", f"name a newer one: Upshift measures MySQL from {oldest} on")


def mysql_number(version: str) -> tuple[int, int, int] | None:
    """The three parts of the number in what a MySQL program says of its version; None for another program's words."""
    found = _MYSQL.search(version)
    return (int(found[1]), int(found[2]), int(found[3])) if found else None


def number_of(version: str) -> str:
    """The number in what a server says of its version; all that it says, where there is none."""
    found = _NUMBER.search(version)
    return found.group() if found else version


def _refuse_script(name: str, server: Path) -> None:
    """What is kept of a server is kept by its contents, and a script's do not say which server it starts."""
    try:
        with server.open("rb") as file:
            begin = file.read(len(ELF))
    except OSError as error:
        raise UsageError(f"{name}: {server} cannot be read: {error.strerror}", "name the server's binary, mysqld") from error
    if begin != ELF:
        raise UsageError(
            f"{name}: {server} is no ELF executable: a script does not say which server it starts",
            "name the server itself; what a script sets goes into a variant's `environment` and `under`",
        )


def refuse_confined(name: str, server: Path, root: Path = Path("/")) -> None:
    """AppArmor confines a server by its path: the packages' profiles of mysqld permit nothing below the cache, to root neither.

    `--version` works all the same. Raises UsageError for a profile that is enforced and has no rule for the cache.
    """
    path = str(server.resolve())
    profile = path.strip("/").replace("/", ".")
    file, local = root / "etc/apparmor.d" / profile, root / "etc/apparmor.d/local" / profile
    rules = text_in(file)
    # Rules have braces, too: owner @{PROC}/@{pid}/status r,
    heads = (line for line in rules.splitlines() if line.rstrip().endswith("{") and not line.lstrip().startswith("#"))
    confines = any("complain" not in line for line in heads)
    disabled = os.path.lexists(root / "etc/apparmor.d/disable" / profile)
    if not confines or disabled or "Y" not in text_in(root / "sys/module/apparmor/parameters/enabled"):
        return
    # Only root may read what the kernel has loaded; in a container it is not the container's profile.
    loaded = text_in(root / "sys/kernel/security/apparmor/profiles")
    if loaded and f"{path} (enforce)" not in loaded and f"{server.name} (enforce)" not in loaded:
        return
    if str(cache_dir()) not in rules + text_in(local):
        raise UsageError(
            f"{name}: AppArmor's profile {file} does not let {server} use Upshift's cache",
            f"add the line '{cache_dir()}/** mrwkl,' to {local}, then run `apparmor_parser -r {file}`",
        )


def lasting_settings(kind: ServerKind, variant: Variant) -> Mapping[str, str]:
    """The variant's settings that hold for a data folder's whole life, so that its data are its own."""
    return {name: value for name, value in sorted(variant.settings.items()) if bare(name) in kind.lasting}


def data_format(kind: ServerKind, version: str, variant: Variant) -> tuple[str, ...]:
    """What two servers must have in common to start on copies of the same data."""
    return (kind.name, version, *(f"{name}={value}" for name, value in lasting_settings(kind, variant).items()))


def refuse_source(
    kind: SourceKind, source: str | None, hint: str = "give --source a directory or a tarball, or leave it out"
) -> None:
    """Raises SourceError when there is no such source, with the ``hint`` for it, or a folder that is not one of the kind's."""
    if source in (None, "apt"):
        return
    path = Path(source)
    if not path.exists():
        raise SourceError(f"there is no source at {path}", hint)
    if path.is_dir() and kind.recognise(path) is None:
        raise SourceError(f"{path} is not a {kind.name} source tree", "name the folder that holds the server's CMakeLists.txt")


def refuse_cache_within(source: str | None) -> None:
    """Raises SourceError when the cache lies in the source directory: what a build writes there would change its source."""
    if source in (None, "apt"):
        return
    if cache_dir().resolve().is_relative_to(Path(source).resolve()):
        raise SourceError(
            f"the cache {cache_dir()} lies in the source {source}, which a build must leave as it is",
            "set UPSHIFT_CACHE to a folder outside of it",
        )


def refuse_environment(kind: SourceKind, environment: Mapping[str, str]) -> None:
    """Raises UsageError when a variable would change what is built: the key of a kept build would not tell."""
    if found := changing_builds(environment, kind.build_variables):
        raise UsageError(
            f"the environment has {', '.join(found)}, which would change the build without appearing in any command",
            f"unset {' '.join(found)}; set flags, link_flags and options in a recipe instead",
        )


def refuse_server_environment(environment: Mapping[str, str]) -> None:
    """Raises UsageError when a variable would change the servers that are started: no key would tell. A variant that has the
    same one replaces it, and would differ from the others in more than it says.
    """
    known = (name for name in environment if name in OF_SERVERS or name.startswith(_OF_ALLOCATORS))
    if found := sorted(name for name in known if environment[name]):
        raise UsageError(
            f"the environment has {', '.join(found)}, which would change each server without appearing in any command",
            f"unset {' '.join(found)}; to measure a server with it, write it into a variant's `environment`",
        )


def refuse_unknown_tests(kind: SourceKind, option: str, tests: str, source: Path | None) -> None:
    """Raises UsageError when the kind has no such tests, as far as that can be told with or without the ``source``."""
    unknown = kind.unknown_tests(tests, source)
    if unknown:
        raise UsageError(
            f"{option} {tests}: {kind.name} has no tests '{', '.join(unknown)}'",
            f"the suites are {', '.join(kind.suites)}, and single tests by their full names, such as main.1st",
        )


def refuse_missing_programs(workloads: tuple[Workload, ...]) -> None:
    """Raises WorkloadError when a workload's fill or load program is not on this machine; those in {tools} are built first."""
    for each in workloads:
        for program in (each.fill.command[0], each.load.command[0]):
            if "{" not in program and shutil.which(program) is None:
                raise WorkloadError(
                    f"workload '{each.name}' runs '{program}', which does not exist", "install it, or name it with its path"
                )


def refuse_many_connections(kind: ServerKind, workloads: tuple[Workload, ...], measured_at: tuple[int, ...]) -> None:
    """Raises UsageError when training or measuring would open more connections than the server is configured for."""
    most = kind.most_connections({**kind.settings(), **settings_of(workloads)})
    asked = max((*measured_at, *(each.connections for each in workloads)))
    if most is not None and asked > most:
        raise UsageError(
            f"{asked} client connections are asked for, and the server's limit is {most}",
            "ask for fewer, or set the server's limit in a workload's [settings]",
        )
