"""A private apt root: the machine's own mirror and keyrings, with lists and caches of its own, leaving the system's alone."""

from __future__ import annotations

import hashlib
import platform
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from upshift.errors import CommandFailed, SourceError
from upshift.shell import Command, Shell

# Debian keeps MySQL in its development suite only.
_DEBIAN_EXTRA_SUITES = ("sid",)
_DEBIAN_ARCHIVE = re.compile(r"debian/?$")
_MIRROR_LIST = "mirror+file:"
_DEBIAN_SUITES = ("sid", "unstable", "testing", "stable", "oldstable")
_NO = ("no", "false", "0", "off", "without", "disable")
_HINT = "give --source a directory or a tarball"
_SOURCE_PACKAGES = ("mysql-9.7", "mysql-8.4")


@dataclass(frozen=True)
class Repository:
    """One line of the machine's apt sources."""

    uri: str
    suites: tuple[str, ...]
    components: tuple[str, ...]
    signed_by: str
    """Keyring files, or a key itself in ASCII armour, as deb822 files may hold it; empty: apt's trusted keys."""


@dataclass(frozen=True)
class Delivered:
    """A package's file that apt fetched and whose signature chain it checked."""

    package: str
    version: str
    file: Path
    """A .deb that holds the source's tarball, or the .dsc of a source package."""


def newest_mysql(root: Path, shell: Shell, say: Callable[[str], None], log: Path, etc: Path = Path("/etc/apt")) -> Delivered:
    """Download the newest MySQL source that the machine's apt mirror can deliver into ``root``.

    An index may name a version whose files are gone: then the next one is taken, and said. Raises SourceError.
    """
    release = platform.freedesktop_os_release()
    repositories = [one for one in read_repositories(etc) if _is_distribution(one, release)]
    if not repositories:
        raise SourceError("no apt mirror is configured on this machine", _HINT)
    apt = _PrivateApt(root, _lines(repositories, root / "etc", release), shell, log)
    refreshed = apt.update()
    tried = []
    for package, version, from_source in apt.candidates():
        try:
            file = apt.fetch(package, version, from_source)
        except CommandFailed:
            tried.append(f"{package} {version}")
            say(f"the mirror lists {package} {version} but did not deliver its files; trying the next")
            continue
        if not refreshed:
            say("the mirror did not answer in full: newer versions than those listed before are not seen")
        return Delivered(package, version, file)
    if not refreshed:
        raise SourceError("apt could not read its mirror: no network, or the mirror is down", _HINT)
    raise SourceError(
        f"the machine's apt mirror delivers no source of MySQL 8.4 or newer (tried: {', '.join(tried) or 'nothing is listed'})",
        _HINT,
    )


def read_repositories(etc: Path) -> list[Repository]:
    """The binary repositories of an apt configuration folder, one-line and deb822 files alike."""
    found: list[Repository] = []
    parts = etc / "sources.list.d"
    for file in [etc / "sources.list", *sorted(parts.glob("*.list"))]:
        if file.is_file():
            found += _one_line(file.read_text(errors="replace"))
    for file in sorted(parts.glob("*.sources")):
        found += _deb822(file.read_text(errors="replace"))
    return found


def _one_line(text: str) -> list[Repository]:
    found = []
    for line in text.splitlines():
        match = re.match(r"^\s*deb\s+(?:\[(.*?)\]\s+)?(\w[\w+]*:/\S+)\s+(\S+)\s*(.*?)\s*(?:#.*)?$", line)
        if match:
            options = dict(part.split("=", 1) for part in (match[1] or "").split() if "=" in part)
            found.append(Repository(match[2], (match[3],), tuple(match[4].split()), options.get("signed-by", "")))
    return found


def _deb822(text: str) -> list[Repository]:
    found = []
    for stanza in re.split(r"\n\s*\n", text):
        fields: dict[str, str] = {}
        name = ""
        for line in stanza.splitlines():
            if line.startswith("#"):
                continue
            if line[:1].isspace() and name:
                fields[name] += "\n" + line
            elif ":" in line:
                name, value = line.split(":", 1)
                name = name.lower()
                fields[name] = value.strip()
        if "deb" in fields.get("types", "").split() and fields.get("enabled", "yes").lower() not in _NO:
            suites, components = fields.get("suites", "").split(), fields.get("components", "").split()
            signed = fields.get("signed-by", "").strip()
            found += [Repository(uri, tuple(suites), tuple(components), signed) for uri in fields.get("uris", "").split()]
    return found


def _is_distribution(one: Repository, release: Mapping[str, str]) -> bool:
    """Whether a repository is the distribution's main archive: third parties' may be slow, unsigned or gone."""
    names = {*_DEBIAN_SUITES, release.get("VERSION_CODENAME", "")} - {""}
    pockets = ("", "-updates", "-security", "-backports", "-proposed-updates")
    own = any(suite.removesuffix(pocket) in names for suite in one.suites for pocket in pockets)
    return "main" in one.components and own and "security" not in one.uri


class _PrivateApt:
    def __init__(self, root: Path, lines: list[str], shell: Shell, log: Path) -> None:
        self._root = root
        self._shell = shell
        self._log = log
        for folder in ("lists/partial", "cache/archives/partial", "files"):
            (root / folder).mkdir(parents=True, exist_ok=True)
        (root / "etc" / "sources.list").write_text("\n".join(lines) + "\n")
        self._options = [
            option
            for setting in (
                f"Dir::Etc::sourcelist={root / 'etc' / 'sources.list'}",
                "Dir::Etc::sourceparts=/dev/null",
                f"Dir::State::lists={root / 'lists'}",
                f"Dir::Cache={root / 'cache'}",
                "Dir::State::status=/dev/null",
                "APT::Sandbox::User=root",
                "Acquire::Retries=3",
                "Acquire::Languages=none",
                # The machine's own apt.conf may be laxer.
                "Acquire::AllowInsecureRepositories=false",
                "APT::Get::AllowUnauthenticated=false",
            )
            for option in ("-o", setting)
        ]

    def update(self) -> bool:
        """Whether all of the mirror's lists are as new as the mirror has them."""
        try:
            self._run("apt-get", "-o", "APT::Update::Error-Mode=any", "update")
        except CommandFailed:
            return False
        return True

    def candidates(self) -> list[tuple[str, str, bool]]:
        """(package, version, whether it is a source package), newest version first, the smaller download first."""
        shown = self._run("apt-cache", "show", "mysql-source", check=False)
        found = [("mysql-source", version, False) for version in re.findall(r"^Version: (\S+)$", shown, re.M)]
        for package in _SOURCE_PACKAGES:
            shown = self._run("apt-cache", "showsrc", "--only-source", package, check=False)
            found += [(package, version, True) for version in re.findall(r"^Version: (\S+)$", shown, re.M)]
        unique = list(dict.fromkeys(found))
        return sorted(unique, key=lambda one: (_numbers(one[1]), not one[2]), reverse=True)

    def fetch(self, package: str, version: str, from_source: bool) -> Path:
        files = self._root / "files"
        if from_source:
            self._run("apt-get", "source", "--download-only", f"{package}={version}")
            pattern = f"{package}_{version.rsplit(':', maxsplit=1)[-1]}.dsc"
        else:
            self._run("apt-get", "download", f"{package}={version}")
            pattern = f"{package}_{version.replace(':', '%3a')}_*.deb"
        found = sorted(files.glob(pattern))
        if not found:
            raise CommandFailed(f"apt-get succeeded but left no {pattern} in {files}", _HINT)
        return found[-1]

    def _run(self, program: str, *arguments: str, check: bool = True) -> str:
        command = Command((program, *self._options, *arguments), cwd=self._root / "files")
        if check:
            self._shell.run(command, log=self._log, timeout_s=1800)
            return ""
        return self._shell.run(command, check=False, timeout_s=120).stdout


def _lines(repositories: list[Repository], etc: Path, release: Mapping[str, str]) -> list[str]:
    """The lines of a sources.list with binaries and sources; keys that are spelled out go into files of ``etc``."""
    etc.mkdir(parents=True, exist_ok=True)
    lines = []
    for one in repositories:
        suites = list(one.suites)
        if release.get("ID") == "debian" and _is_debian_archive(one.uri):
            suites += [suite for suite in _DEBIAN_EXTRA_SUITES if suite not in suites]
        signed = f"[signed-by={_keyring(one.signed_by, etc)}] " if one.signed_by else ""
        components = " ".join(component for component in one.components if component in ("main", "universe"))
        for suite in suites:
            lines += [f"{kind} {signed}{one.uri} {suite} {components}" for kind in ("deb", "deb-src")]
    return list(dict.fromkeys(lines))


def _is_debian_archive(uri: str) -> bool:
    """Whether this is Debian's whole archive, by its address or, for a file that lists mirrors, by one of theirs."""
    if not uri.startswith(_MIRROR_LIST):
        return bool(_DEBIAN_ARCHIVE.search(uri))
    file = Path("/" + uri.removeprefix(_MIRROR_LIST).lstrip("/"))
    mirrors = file.read_text(errors="replace").splitlines() if file.is_file() else []
    return any(_DEBIAN_ARCHIVE.search(words[0]) for line in mirrors if (words := line.split()))


def _keyring(signed_by: str, etc: Path) -> str:
    if "BEGIN PGP" not in signed_by:
        return ",".join(signed_by.split())
    # deb822: one space before each line of a value, and a dot for an empty one.
    key = "\n".join("" if line.strip() == "." else line.strip() for line in signed_by.splitlines())
    file = etc / f"{hashlib.sha256(key.encode()).hexdigest()[:12]}.asc"
    file.write_text(key + "\n")
    return str(file)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version.rsplit(":", maxsplit=1)[-1]))
