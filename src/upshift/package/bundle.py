"""The server to install: a tree that starts from any folder, its tarball, its provenance, and the way back."""

from __future__ import annotations

import contextlib
import gzip
import json
import shutil
import tarfile
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from elftools.common.exceptions import ELFError
from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile

from upshift.archive import unpack
from upshift.build.model import Build
from upshift.errors import CommandFailed, ServerFailed, VerifyFailed
from upshift.native.programs import programs_dir
from upshift.package import service
from upshift.server.instance import running
from upshift.server.kind import Program, SourceKind
from upshift.shell import Command, Shell
from upshift.source.model import Source
from upshift.values import Value, file_sha256

VERSION = 1
"""Raised when a package of the same servers comes out otherwise than before."""
# The time that all files of the tarball bear, so that the same content gives the same archive: 2020-01-01 UTC.
_FILE_TIME_S = 1_577_836_800
# Half the time of level 6, and 2 % more bytes (a package of MySQL 9.7).
_LEVEL = 4


class Bundle(Value):
    """An install tree and its tarball."""

    folder: Path
    tarball: Path


def libraries(parts: tuple[service.Part, ...]) -> Mapping[str, Path]:
    """Upshift's own that a package with these parts holds, by their place in it."""
    return {service.LIBRARY: programs_dir() / Path(service.LIBRARY).name} if "huge-text" in parts else {}


def make_package(
    *,
    kind: SourceKind,
    source: Source,
    plain: Build,
    server: Path,
    post_linked: bool,
    provenance: Mapping[str, Any],
    settings: Mapping[str, str],
    parts: tuple[service.Part, ...] = (),
    folder: Path,
    shell: Shell,
    log: Path,
) -> Bundle:
    """Lay the install tree out below ``folder``, pack it, and start it once from another place.

    The tree holds what ``kind.install`` names, ``provenance.json`` (what ``provenance`` says, and the SHA-256 of each
    program), ``sample.cnf`` (the configuration that it was measured with: the kind's, and the workloads' ``settings``),
    ``ROLLBACK.md``, and ``upshift.conf``, a drop-in for its service with the ``parts`` that were asked for. The same content
    gives the same tarball.

    Raises VerifyFailed when the unpacked package does not initialise and start, or would not on another machine.
    """
    shutil.rmtree(folder, ignore_errors=True)
    name = f"{kind.name}-{source.version}-upshift"
    tree = folder / name
    tree.mkdir(parents=True)
    installed = {**kind.install(source.path, plain.tree, server), **libraries(parts)}
    for target, origin in installed.items():
        if not origin.exists():
            raise VerifyFailed(f"the package lacks {target}: there is no {origin}", "build the source again")
        _place(origin, tree / target)
    programs = sorted((*(tree / "bin").iterdir(), *tree.rglob("*.so")))
    for program in programs:
        _refuse_libraries_of(plain, program)
        if post_linked and program.name == server.name:
            continue  # BOLT has dropped its relocations already, and objcopy does not know BOLT's program headers.
        # Relocations kept for BOLT and debug sections are of no use in service; symbols stay, for profilers.
        strip = Command(("objcopy", "--strip-debug", "--remove-relocations=*", str(program)))
        shell.run(strip, log=log, check=False)
    contents = {str(file.relative_to(tree)): file_sha256(file) for file in programs}
    (tree / "provenance.json").write_text(
        json.dumps({"schema_version": 1, **provenance, "sha256": contents}, indent=2, default=str) + "\n"
    )
    words = {"name": name, "program": kind.server_target, "service": kind.name, "version": source.version}
    words["built_from"] = (
        f"its source with the patches {', '.join(source.patches)}" if source.patches else "its unchanged source"
    )
    words["switches"] = _SWITCHES.format(**words) if source.patches else ""
    words["way_in"], words["way_back"] = (
        textwrap.indent("\n".join(commands(name, kind.name)), "    ") for commands in (service.way_in, service.way_back)
    )
    (tree / "ROLLBACK.md").write_text(_ROLLBACK.format(**words))
    (tree / "sample.cnf").write_text(_sample(kind, settings))
    (tree / service.DROP_IN).write_text(service.drop_in(kind, parts, Path("/opt") / name))
    tarball = folder / f"{name}.tar.gz"
    _pack(tree, tarball)
    check(kind, tarball, settings, folder / "check", shell, log, parts)
    return Bundle(folder=tree, tarball=tarball)


def check(
    kind: SourceKind,
    tarball: Path,
    settings: Mapping[str, str],
    scratch: Path,
    shell: Shell,
    log: Path,
    parts: tuple[service.Part, ...] = (),
) -> None:
    """Unpack a package into ``scratch``, initialise a data folder and start it there, as measured, with the ``parts`` that its
    service turns on. Raises VerifyFailed.
    """
    shutil.rmtree(scratch, ignore_errors=True)
    with tarfile.open(tarball) as archive:
        unpack(archive, scratch)
    binary = next(scratch.glob(f"*/bin/{kind.server_target}"), None)
    if binary is None:
        raise VerifyFailed(f"{tarball.name} holds no {kind.server_target}", f"see {log}")
    program = Program(kind=kind.name, binary=binary)
    try:
        shell.run(kind.initialise(program, scratch / "data", settings), log=log, timeout_s=300)
        with running(
            *(shell, kind, program, scratch / "data"),
            log=log,
            settings={**settings, **service.settings_of(kind, parts)},
            environment=service.environment_of(kind, parts, binary.parents[1]),
        ) as server:
            server.queries()
            service.refuse_unloaded(server.pid, parts, log)
    except (CommandFailed, ServerFailed) as error:
        raise VerifyFailed(f"the unpacked package does not work: {error.message}", f"see {log}") from error
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _refuse_libraries_of(plain: Build, program: Path) -> None:
    """Raises VerifyFailed for a program that finds shared libraries in the build folder: it starts here, and nowhere else."""
    # The linker knew the configured folder alone.
    build = (plain.patched and plain.patched.tree) or plain.tree
    with program.open("rb") as file, contextlib.suppress(ELFError):  # bin/ may hold scripts
        dynamic = ELFFile(file).get_section_by_name(".dynamic")
        for tag in dynamic.iter_tags() if isinstance(dynamic, DynamicSection) else ():
            path = getattr(tag, "rpath", "") or getattr(tag, "runpath", "")
            if any(Path(each).is_relative_to(build) for each in path.split(":")):
                raise VerifyFailed(
                    f"{program.name} needs shared libraries of the build folder, which the package does not hold: {path}",
                    "look at the recipe's options: they must not ask for a bundled library that is shared",
                )


def _sample(kind: SourceKind, settings: Mapping[str, str]) -> str:
    lines = [f"{name} = {value}" for name, value in sorted({**kind.settings(), **settings}.items())]
    return "\n".join(["# What the server was measured with; not a recommendation.", f"[{kind.server_target}]", *lines, ""])


def _place(origin: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if origin.is_dir():
        shutil.copytree(origin, target, ignore=shutil.ignore_patterns("CMakeFiles", "*.cmake"), dirs_exist_ok=True)
    else:
        shutil.copy2(origin, target)


def _pack(tree: Path, tarball: Path) -> None:
    def plain_owner(item: tarfile.TarInfo) -> tarfile.TarInfo:
        item.uid = item.gid = 0
        item.uname = item.gname = "root"
        item.mtime = _FILE_TIME_S
        # Not what the umask of the one who builds makes of it.
        item.mode = 0o755 if item.isdir() or item.mode & 0o100 else 0o644
        return item

    partial = tarball.with_suffix(".partial")
    with (
        partial.open("wb") as raw,
        gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=_FILE_TIME_S, compresslevel=_LEVEL) as packed,
        tarfile.open(fileobj=packed, mode="w") as archive,
    ):
        for path in [tree, *sorted(tree.rglob("*"))]:
            archive.add(path, arcname=str(path.relative_to(tree.parent)), recursive=False, filter=plain_owner)
    partial.rename(tarball)


_SWITCHES = """
First remove the variables of the patches from my.cnf, or write them there as `loose_NAME`: a {program} without the patches
does not start with a variable that it does not know.
"""
_ROLLBACK = """# Install and roll back

This is {program} {version}, built from {built_from}: it reads and writes the same data files as any other
{program} {version}. **If it starts on data of an older version, it upgrades the data. Only a backup undoes that.** Compare
the versions first, and take a backup when they differ:

    tar -C /opt -xzf {name}.tar.gz
    {program} --version
    /opt/{name}/bin/{program} --version

To run it in the place of the server that you have, first look at what yours needs. The service may be called {program} on your
system.

- When `systemctl cat {service}` shows options behind ExecStart's program, write them into /opt/{name}/upshift.conf as well.
  When it shows an LD_PRELOAD and upshift.conf has one, write both into upshift.conf, with a colon between them.
- The server looks for plugins and components in /opt/{name}/lib/plugin, which has those of the source. Copy a missing one from
  a {program} of the same version.
- It looks for `{program}.my`, which names a keyring component, beside itself, and for the component's `.cnf` beside the
  component. Copy yours to /opt/{name}/bin and /opt/{name}/lib/plugin. Without its keyring, a server does not open encrypted
  tables, and may not start.

Then restart the service with it:

{way_in}

To go back:
{switches}
{way_back}

`provenance.json` says what the server was built from, trained on and measured at, with the SHA-256 of each program.
`sample.cnf` is the configuration that it was measured with.
"""
