"""Getting a source: a directory, a tarball, or the newest that the machine's own apt mirror delivers."""

from __future__ import annotations

import hashlib
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path

from upshift.errors import NotEnoughRoom, SourceError
from upshift.server.kind import ServerKind
from upshift.shell import Command, Shell
from upshift.source.apt import Delivered, newest_mysql
from upshift.source.model import Source
from upshift.values import file_sha256

_SKIPPED = {".git", ".hg", ".bzr", ".svn"}
_UNPACK_FACTOR = 8


def obtain(spec: str | None, *, kind: ServerKind, cache: Path, shell: Shell, say: Callable[[str], None], log: Path) -> Source:
    """The verified source that ``spec`` names: a directory, a tarball, or (None, ``apt``) the distribution's newest.

    Raises SourceError when it is not there, damaged, not this kind of server's, or can't be fetched.
    """
    if spec is None or spec == "apt":
        return _from_apt(kind, cache, shell, say, log)
    path = Path(spec).expanduser().resolve()
    if path.is_dir():
        return _recognised(kind, path, f"directory: {path}", _tree_sha256(path), "none (directory)")
    if path.is_file():
        return _from_tarball(kind, path, cache, f"tarball: {path.name}", None)
    raise SourceError(f"there is no source at {path}", "give --source a directory or a tarball, or leave it out")


def _from_apt(kind: ServerKind, cache: Path, shell: Shell, say: Callable[[str], None], log: Path) -> Source:
    if shutil.which("apt-get") is None:
        raise SourceError("this machine has no apt to get MySQL's source from", "give --source a directory or a tarball")
    delivered = newest_mysql(cache / "apt", shell, say, log)
    origin = f"apt: {delivered.package} {delivered.version}"
    say(f"source {origin}")
    if delivered.file.suffix == ".dsc":
        return _from_dsc(kind, delivered, cache, origin, shell, log)
    sha256 = file_sha256(delivered.file)
    unpacked = cache / "sources" / f"{delivered.file.stem}-{sha256[:12]}"
    if not unpacked.is_dir():
        partial = _partial(unpacked, delivered.file)
        shell.run(Command(("dpkg-deb", "-x", str(delivered.file), str(partial / "deb"))), log=log)
        tarballs = sorted((partial / "deb" / "usr" / "src").rglob("*.tar.*"))
        if not tarballs:
            raise SourceError(f"{delivered.file.name} holds no source tarball", "give --source a directory or a tarball")
        shell.run(Command(("tar", "-xf", str(tarballs[0]), "-C", str(partial))), log=log)
        shutil.rmtree(partial / "deb")
        partial.rename(unpacked)
    return _recognised(kind, _single(unpacked), origin, sha256, "apt signature")


def _from_dsc(kind: ServerKind, delivered: Delivered, cache: Path, origin: str, shell: Shell, log: Path) -> Source:
    sha256 = file_sha256(delivered.file)
    unpacked = cache / "sources" / f"{delivered.file.stem}-{sha256[:12]}"
    if not unpacked.is_dir():
        partial = _partial(unpacked, delivered.file)
        # dpkg-source checks the files against the .dsc, which apt has checked against the signed index.
        shell.run(Command(("dpkg-source", "--no-check", "-x", str(delivered.file), str(partial / "tree"))), log=log)
        partial.rename(unpacked)
    return _recognised(kind, _single(unpacked), origin, sha256, "apt signature")


def _from_tarball(kind: ServerKind, tarball: Path, cache: Path, origin: str, verified: str | None) -> Source:
    sha256 = file_sha256(tarball)
    verified = verified or _checked_beside(tarball, sha256)
    unpacked = cache / "sources" / f"{tarball.name.split('.tar')[0]}-{sha256[:12]}"
    if not unpacked.is_dir():
        partial = _partial(unpacked, tarball)
        try:
            with tarfile.open(tarball) as archive:
                archive.extractall(partial, filter="data")
        except (tarfile.TarError, EOFError, OSError) as error:
            shutil.rmtree(partial, ignore_errors=True)
            raise SourceError(f"{tarball.name} is damaged or not a tarball: {error}", "download it again") from error
        partial.rename(unpacked)
    return _recognised(kind, _single(unpacked), origin, sha256, verified)


def _checked_beside(tarball: Path, sha256: str) -> str:
    """What vouches for a tarball: a checksum file beside it, if there is one. Raises SourceError when it disagrees."""
    for file in (tarball.with_name(tarball.name + ".sha256"), tarball.with_name("SHA256SUMS")):
        if not file.is_file():
            continue
        for line in file.read_text().splitlines():
            parts = line.split()
            if parts and (len(parts) == 1 or parts[1].lstrip("*") == tarball.name):
                if parts[0].lower() != sha256:
                    raise SourceError(f"{tarball.name} does not match its checksum in {file.name}", "download it again")
                return file.name
    return "none (no checksum beside it)"


def _recognised(kind: ServerKind, path: Path, origin: str, sha256: str, verified: str) -> Source:
    version = kind.recognise(path)
    if version is None:
        raise SourceError(
            f"{path} is not a {kind.name} source tree",
            "name the folder that holds the server's CMakeLists.txt",
        )
    return Source(kind=kind.name, version=version, origin=origin, sha256=sha256, verified=verified, path=path)


def _tree_sha256(tree: Path) -> str:
    digest = hashlib.sha256()
    for file in sorted(tree.rglob("*")):
        if file.is_file() and not file.is_symlink() and not _SKIPPED & set(file.relative_to(tree).parts):
            digest.update(f"{file.relative_to(tree)}\0{file.stat().st_size}\0".encode())
            digest.update(file.read_bytes())
    return digest.hexdigest()


def _partial(unpacked: Path, archive: Path) -> Path:
    unpacked.parent.mkdir(parents=True, exist_ok=True)
    needed_bytes = archive.stat().st_size * _UNPACK_FACTOR
    free_bytes = shutil.disk_usage(unpacked.parent).free
    if free_bytes < needed_bytes:
        raise NotEnoughRoom(
            f"unpacking {archive.name} needs about {needed_bytes / 1e9:.1f} GB, {free_bytes / 1e9:.1f} GB are free",
            "free some space, or set UPSHIFT_CACHE to a folder on a larger disk",
        )
    partial = unpacked.with_name(unpacked.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir()
    return partial


def _single(folder: Path) -> Path:
    """The one folder that an archive unpacks to, or the folder itself."""
    inside = list(folder.iterdir())
    return inside[0] if len(inside) == 1 and inside[0].is_dir() else folder
