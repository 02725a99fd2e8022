"""Getting a source: a directory, a tarball, or the newest that the machine's own apt mirror delivers."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import lzma
import os
import shutil
import tarfile
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from upshift.archive import unpack
from upshift.errors import CommandFailed, MissingTool, NotEnoughRoom, SourceChanged, SourceError
from upshift.run.fingerprint import fingerprint
from upshift.server.kind import SourceKind
from upshift.shell import Command, Shell
from upshift.source.apt import Delivered, newest_mysql
from upshift.source.model import VERSION_CONTROL, Source
from upshift.source.vouch import vouched
from upshift.values import file_sha256

# Unpacked size over packed: 3 was seen with MySQL 9.7, where a .deb holds the tarball a second time while it is unpacked.
_UNPACK_FACTOR = 8
_NAMED = 3
_OLDEST_MYSQL = (8, 4)
"""Those before want a Boost of their own that CMake is told of, and their tests programs that are gone since."""
_FULL = tuple(map(os.strerror, (errno.ENOSPC, errno.EDQUOT)))
"""A program's words for a full disk."""
_ROOM_HINT = "free some space, or set UPSHIFT_CACHE to a folder on a larger disk"


def obtain(spec: str | None, *, kind: SourceKind, cache: Path, shell: Shell, say: Callable[[str], None], log: Path) -> Source:
    """The verified source that ``spec`` names: a directory, a tarball, or (None, ``apt``) the distribution's newest.

    Raises SourceError when it is not there, damaged, not this kind of server's, or can't be fetched.
    """
    if spec is None or spec == "apt":
        return _from_apt(kind, cache, shell, say, log)
    path = Path(spec).expanduser().resolve()
    if path.is_dir():
        return _recognised(kind, path, f"directory: {path}", _tree_sha256(path), "none (directory)")
    if path.is_file():
        return _from_tarball(kind, path, cache, shell, log)
    raise SourceError(f"there is no source at {path}", "give --source a directory or a tarball, or leave it out")


def refuse_changed(source: Source, since_s: float) -> None:
    """Raises SourceChanged where a directory is no longer the source that it was, and names files that were written since then
    (seconds since the epoch); takes seconds, as it reads all files. Raises SourceError where it cannot be read.
    """
    if _tree_sha256(source.path) == source.sha256:
        return
    written = [os.path.relpath(file, source.path) for file in sorted(_files(source.path)) if _written_s(file) >= since_s]
    more = ", ..." if len(written) > _NAMED else ""
    raise SourceChanged(
        f"the source {source.path} has changed while it was used: {', '.join(written[:_NAMED]) or 'files are gone'}{more}",
        "leave it as it is until the command ends, files of an editor too, or name a copy; then start again",
    )


def _written_s(file: str) -> float:
    try:
        return os.lstat(file).st_ctime
    except FileNotFoundError:
        return 0.0


def _from_apt(kind: SourceKind, cache: Path, shell: Shell, say: Callable[[str], None], log: Path) -> Source:
    if shutil.which("apt-get") is None:
        raise SourceError("this machine has no apt to get MySQL's source from", "give --source a directory or a tarball")
    delivered = newest_mysql(cache / "apt", shell, say, log)
    origin = f"apt: {delivered.package} {delivered.version}"
    say(f"source {origin}")
    if delivered.file.suffix == ".dsc":
        return _from_dsc(kind, delivered, cache, origin, shell, log)
    sha256 = file_sha256(delivered.file)
    unpacked = cache / "sources" / f"{delivered.file.stem}-{sha256[:12]}"
    if not _as_unpacked(unpacked):
        with _partial(unpacked, delivered.file.stat().st_size) as partial:
            shell.run(Command(("dpkg-deb", "-x", str(delivered.file), str(partial / "deb"))), log=log)
            tarballs = sorted((partial / "deb" / "usr" / "src").rglob("*.tar.*"))
            if not tarballs:
                raise SourceError(f"{delivered.file.name} holds no source tarball", "give --source a directory or a tarball")
            shell.run(Command(("tar", "-xf", str(tarballs[0]), "-C", str(partial))), log=log)
            shutil.rmtree(partial / "deb")
    return _recognised(kind, _single(unpacked), origin, sha256, "apt signature")


def _from_dsc(kind: SourceKind, delivered: Delivered, cache: Path, origin: str, shell: Shell, log: Path) -> Source:
    sha256 = file_sha256(delivered.file)
    unpacked = cache / "sources" / f"{delivered.file.stem}-{sha256[:12]}"
    if not _as_unpacked(unpacked):
        beside = delivered.file.parent.glob(f"{delivered.package}_*.tar.*")
        with _partial(unpacked, max((file.stat().st_size for file in beside), default=0)) as partial:
            # apt has checked the .dsc against the signed index; dpkg-source checks the files against the .dsc. Its --no-check
            # would skip that too. It only warns where it lacks the key of the .dsc's own signature.
            shell.run(Command(("dpkg-source", "-x", str(delivered.file), str(partial / "tree"))), log=log)
    return _recognised(kind, _single(unpacked), origin, sha256, "apt signature")


def _from_tarball(kind: SourceKind, tarball: Path, cache: Path, shell: Shell, log: Path) -> Source:
    sha256 = file_sha256(tarball)
    verified = vouched(tarball, sha256, shell)
    unpacked = cache / "sources" / f"{tarball.name.split('.tar')[0]}-{sha256[:12]}"
    if not _as_unpacked(unpacked):
        with _partial(unpacked, tarball.stat().st_size) as partial:
            _extract(tarball, partial, shell, log)
    return _recognised(kind, _single(unpacked), f"tarball: {tarball.name}", sha256, verified)


def _extract(tarball: Path, folder: Path, shell: Shell, log: Path) -> None:
    """Python's tarfile reads no zstd, which ``zstd`` undoes first."""
    plain = tarball
    try:
        if tarball.suffix in (".zst", ".tzst"):
            plain = folder.with_name(folder.name + ".tar")
            _undo_zstd(tarball, plain, shell, log)
        with tarfile.open(plain) as archive:
            unpack(archive, folder)
            # The archive ends before the compressed stream does, whose end holds the checksum of it all.
            while archive.fileobj is not None and archive.fileobj.read(1 << 20):
                pass
    except (tarfile.TarError, EOFError, zlib.error, lzma.LZMAError, CommandFailed, OSError) as error:
        full = isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)
        if full or (isinstance(error, CommandFailed) and any(words in error.log for words in _FULL)):
            raise NotEnoughRoom(f"the disk filled up while {tarball.name} was unpacked", _ROOM_HINT) from error
        raise SourceError(f"{tarball.name} is damaged or not a tarball: {error}", "download it again") from error
    finally:
        if plain != tarball:
            plain.unlink(missing_ok=True)


def _undo_zstd(tarball: Path, plain: Path, shell: Shell, log: Path) -> None:
    try:
        shell.run(Command(("zstd", "-d", "-q", "-f", str(tarball), "-o", str(plain))), log=log)
    except MissingTool as error:
        hint = "`sudo apt-get install zstd`, or unpack it elsewhere and give --source the folder"
        raise MissingTool(f"zstd, which unpacks {tarball.name}, is not on this machine", hint) from error


def _recognised(kind: SourceKind, path: Path, origin: str, sha256: str, verified: str) -> Source:
    version = kind.recognise(path)
    if version is None:
        raise SourceError(
            f"{path} is not a {kind.name} source tree",
            "name the folder that holds the server's CMakeLists.txt",
        )
    if kind.name == "mysql" and tuple(map(int, version.split(".")[:2])) < _OLDEST_MYSQL:
        raise SourceError(f"{path} is MySQL {version}, and Upshift builds 8.4 and newer", "give --source a newer one")
    return Source(kind=kind.name, version=version, origin=origin, sha256=sha256, verified=verified, path=path)


def _tree_sha256(tree: Path) -> str:
    """Of all files' paths, sizes and contents, and of links' targets; without the folders of version control."""
    try:
        files = sorted(_files(tree))
        with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
            states = list(pool.map(_state, files, chunksize=64))
    except OSError as error:
        raise SourceError(f"{error.filename} cannot be read: {error.strerror}", "check its permissions") from error
    digest = hashlib.sha256()
    for file, state in zip(files, states, strict=True):
        digest.update(f"{os.path.relpath(file, tree)}\0{state}\0".encode(errors="surrogateescape"))
    return digest.hexdigest()


def _files(tree: Path) -> Iterator[str]:
    for folder, folders, names in os.walk(tree):
        links = [name for name in folders if os.path.islink(os.path.join(folder, name))]  # noqa: PTH114, PTH118
        folders[:] = [name for name in folders if name not in VERSION_CONTROL]
        yield from (f"{folder}/{name}" for name in (*names, *links))


def _state(path: str) -> str:
    file = Path(path)
    if file.is_symlink():
        return f"-> {file.readlink()}"
    if not file.is_file():
        return "no file"  # a socket or pipe: reading one could wait for ever
    return f"{file.stat().st_size} {file_sha256(file)}"


def _as_unpacked(unpacked: Path) -> bool:
    """Whether a folder is there and nothing in it has changed: its source is named by the archive's contents alone."""
    noted = _noted(unpacked)
    return noted.is_file() and noted.read_text() == fingerprint(unpacked)


def _noted(unpacked: Path) -> Path:
    """Beside the folder, which holds what the archive did and no more."""
    return unpacked.with_name(unpacked.name + ".fingerprint")


@contextlib.contextmanager
def _partial(unpacked: Path, archive_bytes: int) -> Iterator[Path]:
    """A folder to unpack into, which becomes ``unpacked`` at the end; after a failure nothing is left of it.

    Raises NotEnoughRoom for an archive of so many bytes.
    """
    unpacked.parent.mkdir(parents=True, exist_ok=True)
    needed_bytes = archive_bytes * _UNPACK_FACTOR
    free_bytes = shutil.disk_usage(unpacked.parent).free
    if free_bytes < needed_bytes:
        raise NotEnoughRoom(
            f"unpacking into {unpacked.name} needs about {needed_bytes / 1e9:.1f} GB, {free_bytes / 1e9:.1f} GB are free",
            _ROOM_HINT,
        )
    partial = unpacked.with_name(unpacked.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    try:
        partial.mkdir()
        yield partial
        shutil.rmtree(unpacked, ignore_errors=True)
        partial.rename(unpacked)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    _noted(unpacked).write_text(fingerprint(unpacked) or "")


def _single(folder: Path) -> Path:
    """The one folder that an archive unpacks to, or the folder itself."""
    inside = list(folder.iterdir())
    return inside[0] if len(inside) == 1 and inside[0].is_dir() else folder
