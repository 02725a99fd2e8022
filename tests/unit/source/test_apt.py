"""Reading the machine's apt sources, and falling back from what the mirror lists to what it has."""

from __future__ import annotations

import platform
from pathlib import Path

import pytest
from fakes import FakeShell, Output

from upshift.errors import SourceError
from upshift.shell import Command
from upshift.source import apt

DEBIAN = {"ID": "debian", "VERSION_CODENAME": "bookworm"}
UBUNTU = {"ID": "ubuntu", "VERSION_CODENAME": "noble"}

DEB822 = """\
Types: deb
# a comment between fields
URIs: http://mirror.test/debian
Suites: bookworm bookworm-updates
Components: main
Signed-By: /usr/share/keyrings/archive.gpg

Types: deb
URIs: http://mirror.test/debian-security
Suites: bookworm-security
Components: main

Types: deb
URIs: http://off.test/debian
Suites: bookworm
Components: main
Enabled: no

Types: deb-src
URIs: http://sources.test/debian
Suites: bookworm
Components: main
"""

INLINE_KEY = """\
types: deb
uris: http://mirror.test/debian http://second.test/debian
suites: bookworm
components: main
signed-by:
 -----BEGIN PGP PUBLIC KEY BLOCK-----
 .
 abc
 -----END PGP PUBLIC KEY BLOCK-----
"""

ONE_LINE = """\
# deb http://commented.test/debian bookworm main
deb cdrom:[Debian 12]/ bookworm main
deb [arch=amd64 signed-by=/k.gpg] http://mirror.test/ubuntu noble main universe # ours
deb-src http://mirror.test/ubuntu noble main
deb http://vendor.test/apt noble stable
deb http://compilers.test/noble compilers-noble main
"""


@pytest.fixture
def etc(tmp_path: Path) -> Path:
    (tmp_path / "etc" / "sources.list.d").mkdir(parents=True)
    return tmp_path / "etc"


def test_deb822_gives_the_enabled_binary_repositories(etc: Path) -> None:
    (etc / "sources.list.d" / "debian.sources").write_text(DEB822)
    found = apt.read_repositories(etc)
    assert [one.uri for one in found] == ["http://mirror.test/debian", "http://mirror.test/debian-security"]
    assert found[0] == apt.Repository(
        "http://mirror.test/debian", ("bookworm", "bookworm-updates"), ("main",), "/usr/share/keyrings/archive.gpg"
    )


def test_one_line_files_give_uri_suite_components_and_key(etc: Path) -> None:
    (etc / "sources.list").write_text(ONE_LINE)
    found = apt.read_repositories(etc)
    assert found[0] == apt.Repository("http://mirror.test/ubuntu", ("noble",), ("main", "universe"), "/k.gpg")
    assert [one.uri for one in found[1:]] == ["http://vendor.test/apt", "http://compilers.test/noble"]


def test_one_line_files_in_the_folder_are_read_too(etc: Path) -> None:
    (etc / "sources.list.d" / "a.list").write_text("deb http://mirror.test/debian bookworm main\n")
    assert [one.uri for one in apt.read_repositories(etc)] == ["http://mirror.test/debian"]


def test_third_parties_and_security_mirrors_are_left_out(etc: Path) -> None:
    (etc / "sources.list").write_text(ONE_LINE)
    own = [one.uri for one in apt.read_repositories(etc) if apt._is_distribution(one, UBUNTU)]
    assert own == ["http://mirror.test/ubuntu"]
    (etc / "sources.list").write_text(DEB822)
    security = apt.Repository("http://mirror.test/debian-security", ("bookworm-security",), ("main",), "")
    assert not apt._is_distribution(security, DEBIAN)


@pytest.mark.parametrize(
    ("mirrors", "added"),
    [
        ("http://one.test/debian\tpriority:1\nhttp://two.test/debian/\n", True),
        ("http://one.test/debian-security\n", False),
        (None, False),
    ],
)
def test_a_file_that_lists_mirrors_is_judged_by_them(etc: Path, tmp_path: Path, mirrors: str | None, added: bool) -> None:
    listed = tmp_path / "mirrors.list"
    if mirrors:
        listed.write_text(mirrors)
    for uri in (f"mirror+file:{listed}", f"mirror+file://{listed}"):
        (etc / "sources.list").write_text(f"deb {uri} bookworm main\n")
        (one,) = apt.read_repositories(etc)
        assert one.uri == uri
        assert any(" sid " in line for line in apt._lines([one], etc, DEBIAN)) is added


def test_sid_is_added_on_debian_only(etc: Path) -> None:
    debian = apt.Repository("http://mirror.test/debian", ("bookworm",), ("main",), "/k.gpg")
    assert apt._lines([debian], etc, DEBIAN) == [
        "deb [signed-by=/k.gpg] http://mirror.test/debian bookworm main",
        "deb-src [signed-by=/k.gpg] http://mirror.test/debian bookworm main",
        "deb [signed-by=/k.gpg] http://mirror.test/debian sid main",
        "deb-src [signed-by=/k.gpg] http://mirror.test/debian sid main",
    ]
    ubuntu = apt.Repository("http://mirror.test/ubuntu", ("noble",), ("main", "universe", "restricted"), "")
    assert apt._lines([ubuntu], etc, UBUNTU) == [
        "deb http://mirror.test/ubuntu noble main universe",
        "deb-src http://mirror.test/ubuntu noble main universe",
    ]


def test_a_key_spelled_out_goes_into_a_file(etc: Path, tmp_path: Path) -> None:
    (etc / "sources.list.d" / "debian.sources").write_text(INLINE_KEY)
    repositories = apt.read_repositories(etc)
    assert [one.uri for one in repositories] == ["http://mirror.test/debian", "http://second.test/debian"]
    lines = apt._lines(repositories, tmp_path / "own", DEBIAN)
    (key,) = (tmp_path / "own").glob("*.asc")
    assert f"[signed-by={key}]" in lines[0]
    assert key.read_text() == "-----BEGIN PGP PUBLIC KEY BLOCK-----\n\nabc\n-----END PGP PUBLIC KEY BLOCK-----\n"


def leaves(name: str) -> Output:
    def effect(command: Command) -> None:
        assert command.cwd is not None
        (command.cwd / name).write_text("package")

    return Output(effect=effect)


SHOWN = Output("Package: mysql-source\nVersion: 9.7.4-2\n")
SOURCES = Output("Package: mysql-9.7\nVersion: 9.7.4-2\n\nPackage: mysql-9.7\nVersion: 9.10.1-1\n")


class Machine:
    """A Debian with one mirror, and a shell that answers for apt."""

    def __init__(self, tmp_path: Path, etc: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (etc / "sources.list.d" / "debian.sources").write_text(DEB822)
        monkeypatch.setattr(platform, "freedesktop_os_release", lambda: DEBIAN)
        self.root, self.etc, self.said = tmp_path / "root", etc, list[str]()

    def newest(self, shell: FakeShell) -> apt.Delivered:
        return apt.newest_mysql(self.root, shell, self.said.append, self.root / "log", self.etc)


@pytest.fixture
def machine(tmp_path: Path, etc: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(tmp_path, etc, monkeypatch)


def test_the_newest_version_comes_first_and_the_binary_package_before_its_source(machine: Machine) -> None:
    gone = Output("404", returncode=100)
    shell = FakeShell(
        {
            "show mysql-source": SHOWN,
            "showsrc --only-source mysql-9.7": SOURCES,
            "mysql-9.7=9.10.1-1": gone,
            "download mysql-source=9.7.4-2": leaves("mysql-source_9.7.4-2_amd64.deb"),
        }
    )
    found = machine.newest(shell)
    assert (found.package, found.version, found.file.name) == ("mysql-source", "9.7.4-2", "mysql-source_9.7.4-2_amd64.deb")
    assert machine.said == ["the mirror lists mysql-9.7 9.10.1-1 but did not deliver its files; trying the next"]


def test_a_source_package_is_taken_when_the_binary_one_is_gone(machine: Machine) -> None:
    shell = FakeShell(
        {
            "show mysql-source": SHOWN,
            "showsrc --only-source mysql-9.7": Output("Version: 9.7.4-2\n"),
            "download mysql-source=": Output(returncode=100),
            "source --download-only mysql-9.7=9.7.4-2": leaves("mysql-9.7_9.7.4-2.dsc"),
        }
    )
    assert machine.newest(shell).file.name == "mysql-9.7_9.7.4-2.dsc"


def test_the_systems_own_lists_are_left_alone_and_signatures_are_checked(machine: Machine) -> None:
    shell = FakeShell({"show mysql-source": SHOWN, "download": leaves("mysql-source_9.7.4-2_amd64.deb")})
    machine.newest(shell)
    for line in shell.lines:
        assert "Dir::Etc::sourceparts=/dev/null" in line
        assert f"Dir::State::lists={machine.root}/lists" in line
        assert "Acquire::AllowInsecureRepositories=false" in line
    assert "signed-by=/usr/share/keyrings/archive.gpg" in (machine.root / "etc" / "sources.list").read_text()


def test_without_a_network_the_error_says_so(machine: Machine) -> None:
    with pytest.raises(SourceError, match="no network") as caught:
        machine.newest(FakeShell({" update": Output(returncode=100)}))
    assert "--source" in caught.value.hint


def test_without_a_network_what_was_fetched_before_is_taken_and_said(machine: Machine) -> None:
    outputs = {
        " update": Output(returncode=100),
        "show mysql-source": SHOWN,
        "download": leaves("mysql-source_9.7.4-2_amd64.deb"),
    }
    assert machine.newest(FakeShell(outputs)).version == "9.7.4-2"
    assert "did not answer" in machine.said[0]


def test_a_mirror_without_mysql_is_said_so(machine: Machine) -> None:
    with pytest.raises(SourceError, match="nothing is listed"):
        machine.newest(FakeShell())


def test_a_machine_without_a_mirror_is_said_so(machine: Machine) -> None:
    (machine.etc / "sources.list.d" / "debian.sources").unlink()
    with pytest.raises(SourceError, match="no apt mirror"):
        machine.newest(FakeShell())
