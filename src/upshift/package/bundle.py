"""The server to install: a tree that starts from any folder, its tarball, its provenance, and the way back."""

from __future__ import annotations

import gzip
import json
import shutil
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from upshift.build.model import Build
from upshift.errors import VerifyFailed
from upshift.server.instance import running
from upshift.server.kind import Program, ServerKind
from upshift.shell import Command, Shell
from upshift.source.model import Source
from upshift.values import Value, file_sha256

# The time that all files of the tarball bear, so that the same content gives the same archive: 2020-01-01 UTC.
_FILE_TIME_S = 1_577_836_800


class Bundle(Value):
    """An install tree and its tarball."""

    folder: Path
    tarball: Path


def make_package(
    *,
    kind: ServerKind,
    source: Source,
    plain: Build,
    server: Path,
    post_linked: bool,
    provenance: Mapping[str, Any],
    folder: Path,
    shell: Shell,
    log: Path,
) -> Bundle:
    """Lay the install tree out below ``folder``, start it once from another place, and pack it.

    Raises VerifyFailed when the unpacked package does not initialise and start.
    """
    shutil.rmtree(folder, ignore_errors=True)
    name = f"{kind.name}-{source.version}-upshift"
    tree = folder / name
    tree.mkdir(parents=True)
    for target, origin in kind.install(source.path, plain.tree, server).items():
        _place(origin, tree / target)
    for program in (tree / "bin").iterdir():
        if post_linked and program.name == server.name:
            continue  # BOLT has dropped its relocations already, and objcopy does not know BOLT's program headers.
        # Relocations kept for BOLT and debug sections are of no use in service; symbols stay, for profilers.
        strip = Command(("objcopy", "--strip-debug", "--remove-relocations=*", str(program)))
        shell.run(strip, log=log, check=False)
    contents = {str(file.relative_to(tree)): file_sha256(file) for file in sorted((tree / "bin").iterdir())}
    (tree / "provenance.json").write_text(
        json.dumps({"schema_version": 1, **provenance, "sha256": contents}, indent=2, default=str) + "\n"
    )
    (tree / "ROLLBACK.md").write_text(_ROLLBACK.format(name=name, program=server.name))
    tarball = folder / f"{name}.tar.gz"
    _pack(tree, tarball)
    check(kind, tarball, folder / "check", shell, log)
    return Bundle(folder=tree, tarball=tarball)


def check(kind: ServerKind, tarball: Path, scratch: Path, shell: Shell, log: Path) -> None:
    """Unpack a package into ``scratch``, initialise a data folder with it and start it there. Raises VerifyFailed."""
    shutil.rmtree(scratch, ignore_errors=True)
    with tarfile.open(tarball) as archive:
        archive.extractall(scratch, filter="data")
    binary = next(scratch.glob(f"*/bin/{kind.server_target}"), None)
    if binary is None:
        raise VerifyFailed(f"{tarball.name} holds no {kind.server_target}", f"see {log}")
    program = Program(kind=kind.name, binary=binary)
    shell.run(kind.initialise(program, scratch / "data"), log=log, timeout_s=300)
    with running(shell, kind, program, scratch / "data", log=log) as server:
        server.queries()
    shutil.rmtree(scratch)


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
        return item

    partial = tarball.with_suffix(".partial")
    with (
        partial.open("wb") as raw,
        gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=_FILE_TIME_S, compresslevel=6) as packed,
        tarfile.open(fileobj=packed, mode="w") as archive,
    ):
        for path in [tree, *sorted(tree.rglob("*"))]:
            archive.add(path, arcname=str(path.relative_to(tree.parent)), recursive=False, filter=plain_owner)
    partial.rename(tarball)


_ROLLBACK = """# The way back

This package changes no data format: it is the same source as the plain server, built differently.

To install beside the server that you run:

    tar -C /opt -xzf {name}.tar.gz
    systemctl stop mysql
    systemctl edit mysql     # [Service] ExecStart= (empty), then ExecStart=/opt/{name}/bin/{program} and your options
    systemctl start mysql

To go back:

    systemctl stop mysql
    systemctl revert mysql
    systemctl start mysql
    rm -r /opt/{name}

`provenance.json` says what the server was built from, trained on and measured at, with the SHA-256 of each program.
"""
