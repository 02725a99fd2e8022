"""Sources from folders and tarballs: recognised, hashed, checked, and unpacked once."""

from __future__ import annotations

import errno
import hashlib
import io
import os
import re
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
from fakes import FakeShell, Output, half_a_copy

from upshift import archive as archive_module
from upshift.archive import unpack
from upshift.errors import CommandFailed, MissingTool, NotEnoughRoom, SourceError
from upshift.server.mysql import MySQL
from upshift.shell import Command, SystemShell
from upshift.source import apt, fetch
from upshift.source.model import Source

VERSION = 'MYSQL_VERSION_MAJOR=9\nMYSQL_VERSION_MINOR=7\nMYSQL_VERSION_PATCH=4\nMYSQL_VERSION_STABILITY="LTS"\n'


def make_tree(tree: Path) -> Path:
    (tree / "sql").mkdir(parents=True)
    (tree / "MYSQL_VERSION").write_text(VERSION)
    (tree / "sql" / "mysqld.cc").write_text("int main() {}\n" * 1000)
    return tree


def make_tarball(folder: Path, name: str = "mysql-9.7.4.tar.gz") -> Path:
    tree = make_tree(folder / "made" / "mysql-9.7.4")
    (tree / "noise").write_bytes(os.urandom(200_000))
    mode = {"gz": "w:gz", "xz": "w:xz", "bz2": "w:bz2"}[name.rsplit(".", maxsplit=1)[-1]]
    with tarfile.open(folder / name, mode) as archive:  # type: ignore[call-overload]
        archive.add(tree, arcname=tree.name)
    return folder / name


class Getter:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.cache = folder / "cache"
        self.said: list[str] = []

    def __call__(self, spec: object, shell: FakeShell | SystemShell | None = None) -> Source:
        return fetch.obtain(
            None if spec is None else str(spec),
            kind=MySQL(),
            cache=self.cache,
            shell=shell or FakeShell(),
            say=self.said.append,
            log=self.folder / "log",
        )


@pytest.fixture
def get(tmp_path: Path) -> Getter:
    return Getter(tmp_path)


def test_a_folder_is_used_in_place(get: Getter, tmp_path: Path) -> None:
    tree = make_tree(tmp_path / "tree")
    found = get(tree)
    assert (found.path, found.version, found.verified) == (tree, "9.7.4", "none (directory)")
    assert found.origin == f"directory: {tree}"


def test_a_folders_hash_sees_contents_names_and_links_but_not_version_control(get: Getter, tmp_path: Path) -> None:
    tree = make_tree(tmp_path / "tree")
    hashes = [get(tree).sha256]
    (tree / ".git").mkdir()
    (tree / ".git" / "HEAD").write_text("ref")
    assert get(tree).sha256 == hashes[0]
    (tree / "sql" / "new.cc").write_text("a")
    hashes.append(get(tree).sha256)
    (tree / "sql" / "new.cc").write_text("b")
    hashes.append(get(tree).sha256)
    (tree / "sql" / "new.cc").rename(tree / "sql" / "newer.cc")
    hashes.append(get(tree).sha256)
    (tree / "link").symlink_to("sql")
    hashes.append(get(tree).sha256)
    (tree / "link").unlink()
    (tree / "link").symlink_to("MYSQL_VERSION")
    hashes.append(get(tree).sha256)
    assert len(set(hashes)) == len(hashes)


def test_a_folder_that_is_no_server_is_refused(get: Getter, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="is not a mysql source tree") as caught:
        get(tmp_path)
    assert caught.value.hint


def test_a_missing_path_is_refused(get: Getter, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="there is no source at"):
        get(tmp_path / "nowhere")


@pytest.mark.parametrize("ending", ["gz", "xz", "bz2"])
def test_a_tarball_is_unpacked_once(get: Getter, tmp_path: Path, ending: str) -> None:
    tarball = make_tarball(tmp_path, f"mysql-9.7.4.tar.{ending}")
    found = get(tarball)
    digest = hashlib.sha256(tarball.read_bytes()).hexdigest()
    assert found.sha256 == digest
    assert found.path == get.cache / "sources" / f"mysql-9.7.4-{digest[:12]}" / "mysql-9.7.4"
    assert found.version == "9.7.4"
    first = found.path.stat().st_ino
    assert get(tarball) == found
    assert found.path.stat().st_ino == first


@pytest.mark.parametrize(
    "change",
    [
        lambda tree: (tree / "mark").touch(),
        lambda tree: (tree / "sql" / "mysqld.cc").write_text("int main() { return 1; }\n"),
        lambda tree: (tree / "sql" / "mysqld.cc").unlink(),
    ],
    ids=["another file", "other text", "a file less"],
)
def test_an_unpacked_source_that_has_changed_is_unpacked_again(
    get: Getter, tmp_path: Path, change: Callable[[Path], object]
) -> None:
    """Its builds are kept under the hash of the archive."""
    tarball = make_tarball(tmp_path)
    found = get(tarball)
    change(found.path)
    assert get(tarball) == found
    assert sorted(each.name for each in found.path.iterdir()) == ["MYSQL_VERSION", "noise", "sql"]
    assert (found.path / "sql" / "mysqld.cc").read_text() == "int main() {}\n" * 1000


def test_zstd_is_undone_first(get: Getter, tmp_path: Path) -> None:
    inner = make_tarball(tmp_path)
    tarball = tmp_path / "mysql-9.7.4.tar.zst"
    tarball.write_bytes(b"zstd")

    def undo(command: Command) -> None:
        Path(command.argv[-1]).write_bytes(inner.read_bytes())

    found = get(tarball, FakeShell({"zstd -d": Output(effect=undo)}))
    assert found.version == "9.7.4"
    assert not list((get.cache / "sources").glob("*.tar"))


@pytest.mark.parametrize("says", ["No space left on device", "Disk quota exceeded"])
def test_a_disk_that_zstd_fills_is_not_called_damage(get: Getter, tmp_path: Path, says: str) -> None:
    tarball = tmp_path / "mysql-9.7.4.tar.zst"
    tarball.write_bytes(b"zstd")
    full = Output(
        f"zstd: error 70 : Write error : cannot write block : {says}\n", 70, lambda command: Path(command.argv[-1]).touch()
    )
    with pytest.raises(NotEnoughRoom, match="the disk filled up"):
        get(tarball, FakeShell({"zstd -d": full}))
    assert list((get.cache / "sources").iterdir()) == []
    with pytest.raises(SourceError, match="is damaged"):
        get(tarball, FakeShell({"zstd -d": Output("zstd: mysql.tar.zst: unsupported format\n", 1)}))


@pytest.mark.skipif(shutil.which("zstd") is None or not Path("/dev/full").exists(), reason="needs zstd")
def test_zstds_words_for_a_full_disk_reach_the_error(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(os.urandom(1_000_000))
    shell = SystemShell()
    shell.run(Command(("zstd", "-q", str(tmp_path / "a"))))
    with pytest.raises(CommandFailed) as error:
        shell.run(Command(("sh", "-c", f"zstd -d -q -c {tmp_path}/a.zst > /dev/full")))
    assert any(words in error.value.log for words in fetch._FULL)


def test_a_machine_without_zstd_is_told_its_package(get: Getter, tmp_path: Path) -> None:
    (tmp_path / "mysql-9.7.4.tar.zst").write_bytes(b"zstd")

    def absent(_command: Command) -> None:
        raise MissingTool("zstd is not on this machine", "`upshift doctor` says how to get what is missing")

    with pytest.raises(MissingTool, match=r"zstd, which unpacks mysql-9\.7\.4\.tar\.zst") as error:
        get(tmp_path / "mysql-9.7.4.tar.zst", FakeShell({"zstd -d": Output(effect=absent)}))
    assert "apt-get install zstd" in error.value.hint


@pytest.mark.parametrize("ending", ["gz", "xz", "bz2"])
def test_a_truncated_tarball_is_damaged_and_leaves_nothing(get: Getter, tmp_path: Path, ending: str) -> None:
    tarball = make_tarball(tmp_path, f"mysql-9.7.4.tar.{ending}")
    tarball.write_bytes(tarball.read_bytes()[:100_000])
    with pytest.raises(SourceError, match="is damaged"):
        get(tarball)
    assert list((get.cache / "sources").iterdir()) == []


@pytest.mark.parametrize("ending", ["gz", "xz", "bz2"])
def test_a_flipped_byte_is_damage(get: Getter, tmp_path: Path, ending: str) -> None:
    tarball = make_tarball(tmp_path, f"mysql-9.7.4.tar.{ending}")
    content = bytearray(tarball.read_bytes())
    content[100_000:100_100] = bytes(100)
    tarball.write_bytes(content)
    with pytest.raises(SourceError, match="is damaged"):
        get(tarball)


def test_a_text_file_is_no_tarball(get: Getter, tmp_path: Path) -> None:
    (tmp_path / "mysql.tar.gz").write_text("<html>not found</html>")
    with pytest.raises(SourceError, match="is damaged or not a tarball"):
        get(tmp_path / "mysql.tar.gz")


def test_a_full_disk_is_not_called_damage(get: Getter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_args: object, **_options: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    for way in ("extract", "extractall"):
        monkeypatch.setattr(tarfile.TarFile, way, full)
    with pytest.raises(NotEnoughRoom):
        get(make_tarball(tmp_path))


def test_too_little_room_is_seen_before_unpacking(get: Getter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tarball = make_tarball(tmp_path)
    usage = shutil.disk_usage(tmp_path)._replace(free=1000)
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: usage)
    with pytest.raises(NotEnoughRoom, match="GB are free"):
        get(tarball)


def test_an_interrupted_unpacking_starts_again(get: Getter, tmp_path: Path) -> None:
    tarball = make_tarball(tmp_path)
    digest = hashlib.sha256(tarball.read_bytes()).hexdigest()
    partial = get.cache / "sources" / f"mysql-9.7.4-{digest[:12]}.partial"
    (partial / "half").mkdir(parents=True)
    found = get(tarball)
    assert not partial.exists()
    assert not (found.path.parent / "half").exists()


def test_a_member_outside_of_the_folder_is_refused(get: Getter, tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "evil.tar.gz", "w:gz") as archive:
        member = tarfile.TarInfo("../../outside")
        member.size = 3
        archive.addfile(member, io.BytesIO(b"bad"))
    with pytest.raises(SourceError, match="damaged"):
        get(tmp_path / "evil.tar.gz")
    assert not (get.cache / "outside").exists()


def test_a_debs_tarball_is_unpacked(get: Getter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deb = tmp_path / "mysql-source_9.7.4-2_amd64.deb"
    deb.write_bytes(b"deb")
    inner = make_tarball(tmp_path)

    def unpack(command: Command) -> None:
        place = Path(command.argv[-1]) / "usr" / "src" / "mysql"
        place.mkdir(parents=True)
        inner.rename(place / "mysql-source.tar.gz")

    def unpack_inner(command: Command) -> None:
        with tarfile.open(command.argv[2]) as archive:
            archive_module.unpack(archive, Path(command.argv[4]))

    monkeypatch.setattr(shutil, "which", lambda _program: "/usr/bin/apt-get")
    monkeypatch.setattr(fetch, "newest_mysql", lambda *_args: apt.Delivered("mysql-source", "9.7.4-2", deb))
    found = get(None, FakeShell({"dpkg-deb -x": Output(effect=unpack), "tar -xf": Output(effect=unpack_inner)}))
    assert (found.version, found.verified, found.origin) == ("9.7.4", "apt signature", "apt: mysql-source 9.7.4-2")
    assert get.said == ["source apt: mysql-source 9.7.4-2"]


@pytest.mark.parametrize(
    ("package", "program"), [("mysql-source_9.7.4-2_amd64.deb", "dpkg-deb -x"), ("mysql-9.7_9.7.4.dsc", "dpkg-source -x")]
)
@pytest.mark.parametrize("error", [CommandFailed("the disk is full"), KeyboardInterrupt()])
def test_a_package_that_was_not_unpacked_to_its_end_leaves_nothing(
    get: Getter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, package: str, program: str, error: BaseException
) -> None:
    def unpack(command: Command) -> None:
        half_a_copy(command)
        raise error

    (tmp_path / package).write_bytes(b"package")
    monkeypatch.setattr(shutil, "which", lambda _program: "/usr/bin/apt-get")
    monkeypatch.setattr(fetch, "newest_mysql", lambda *_args: apt.Delivered("mysql", "9.7.4-2", tmp_path / package))
    with pytest.raises(type(error)):
        get(None, FakeShell({program: Output(effect=unpack)}))
    assert list((get.cache / "sources").iterdir()) == []


def test_a_machine_without_apt_is_told_what_to_give(get: Getter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda _program: None)
    with pytest.raises(SourceError, match="no apt") as caught:
        get("apt")
    assert "--source" in caught.value.hint


DSC = """Format: 1.0
Source: mysql-9.7
Version: 9.7.4
Maintainer: Nobody <nobody@example.org>
Files:
 {md5} {size} mysql-9.7_9.7.4.tar.gz
Checksums-Sha256:
 {sha256} {size} mysql-9.7_9.7.4.tar.gz
"""


@pytest.mark.skipif(shutil.which("dpkg-source") is None, reason="needs dpkg-dev")
@pytest.mark.parametrize("damaged", [False, True])
def test_a_source_packages_files_are_checked_against_its_dsc(
    get: Getter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damaged: bool
) -> None:
    tree = make_tree(tmp_path / "made" / "mysql-9.7-9.7.4")
    tarball = tmp_path / "mysql-9.7_9.7.4.tar.gz"
    with tarfile.open(tarball, "w:gz") as archive:
        archive.add(tree, arcname=tree.name)
    content = tarball.read_bytes()
    md5, sha256 = hashlib.md5(content).hexdigest(), hashlib.sha256(content).hexdigest()
    dsc = tmp_path / "mysql-9.7_9.7.4.dsc"
    dsc.write_text(DSC.format(md5=md5, sha256=sha256, size=len(content)))
    if damaged:
        (tree / "sql" / "mysqld.cc").write_text("int main() { return 1; }\n" * 1000)
        with tarfile.open(tarball, "w:gz") as archive:
            archive.add(tree, arcname=tree.name)
    delivered = apt.Delivered("mysql-9.7", "9.7.4", dsc)
    monkeypatch.setattr(fetch, "newest_mysql", lambda *_given: delivered)
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")
    if damaged:
        with pytest.raises(CommandFailed, match="dpkg-source failed"):
            get(None, SystemShell())
    else:
        assert get(None, SystemShell()).version == "9.7.4"


@pytest.mark.parametrize("filters", [True, False], ids=["as Python 3.11.4 does", "as Debian 12's 3.11.2 must"])
def test_members_are_unpacked_without_and_with_filters(filters: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not filters:
        monkeypatch.delattr(tarfile, "data_filter", raising=False)
    file = tmp_path / "a.tar"
    with tarfile.open(file, "w") as archive:
        for name, mode in (("top", 0o500), ("top/run.sh", 0o775), ("top/text", 0o444)):
            member = tarfile.TarInfo(name)
            member.type = tarfile.DIRTYPE if name == "top" else tarfile.REGTYPE
            member.mode, member.uid, member.uname, member.size = mode, 4711, "nobody", 0 if name == "top" else 2
            archive.addfile(member, None if name == "top" else io.BytesIO(b"hi"))
        for name, kind, target in (("top/link", tarfile.SYMTYPE, "text"), ("top/hard", tarfile.LNKTYPE, "top/text")):
            member = tarfile.TarInfo(name)
            member.type, member.linkname = kind, target
            archive.addfile(member)
    with tarfile.open(file) as archive:
        unpack(archive, tmp_path / "out")
    top = tmp_path / "out" / "top"
    assert (top / "link").read_text() == (top / "hard").read_text() == "hi" and (top / "link").is_symlink()
    assert (top / "run.sh").stat().st_mode & 0o777 == 0o755 and (top / "text").stat().st_uid == os.getuid()


@pytest.mark.parametrize("filters", [True, False])
@pytest.mark.parametrize(
    ("name", "kind", "target"),
    [
        ("../../outside", tarfile.REGTYPE, ""),
        ("link", tarfile.SYMTYPE, "../../outside"),
        ("link", tarfile.SYMTYPE, "/etc/passwd"),
        ("hard", tarfile.LNKTYPE, "../../outside"),
        ("device", tarfile.CHRTYPE, ""),
        ("away/file", tarfile.REGTYPE, ""),
    ],
)
def test_what_would_lead_outside_is_refused(
    name: str, kind: bytes, target: str, filters: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not filters:
        monkeypatch.delattr(tarfile, "data_filter", raising=False)
    folder = tmp_path / "a" / "out"
    folder.mkdir(parents=True)
    (folder / "away").symlink_to(tmp_path)
    with tarfile.open(tmp_path / "evil.tar", "w") as archive:
        member = tarfile.TarInfo(name)
        member.type, member.linkname = kind, target
        archive.addfile(member)
    with tarfile.open(tmp_path / "evil.tar") as archive, pytest.raises(tarfile.TarError):
        unpack(archive, folder)
    assert not (tmp_path / "file").exists() and not (tmp_path / "outside").exists()


def test_a_mysql_that_is_too_old_to_be_built_is_refused(get: Getter, tmp_path: Path) -> None:
    tree = make_tree(tmp_path / "tree")
    file = tree / "MYSQL_VERSION"
    file.write_text(re.sub(r"MAJOR=\S+", "MAJOR=8", re.sub(r"MINOR=\S+", "MINOR=0", file.read_text())))
    with pytest.raises(SourceError, match=r"MySQL 8\.0\.\d+, and Upshift builds 8\.4 and newer"):
        get(tree)
