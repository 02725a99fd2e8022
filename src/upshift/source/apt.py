"""A private apt root: the machine's own mirror and keyrings, with lists and caches of its own, leaving the system's alone."""

from __future__ import annotations

import platform
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from upshift.errors import CommandFailed, SourceError
from upshift.shell import Command, Shell

# Debian keeps MySQL in its development suite only.
_DEBIAN_EXTRA_SUITES = ("sid",)
_DEBIAN_ARCHIVE = re.compile(r"debian/?$")
_SOURCE_PACKAGES = ("mysql-9.7", "mysql-8.4", "mysql-8.0")


@dataclass(frozen=True)
class Repository:
    """One line of the machine's apt sources."""

    uri: str
    suites: tuple[str, ...]
    components: tuple[str, ...]
    signed_by: str


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
    repositories = [one for one in read_repositories(etc) if _is_system_archive(one)]
    if not repositories:
        raise SourceError("no apt mirror is configured on this machine", "give --source a directory or a tarball")
    apt = _PrivateApt(root, repositories, shell, log)
    try:
        apt.update()
    except CommandFailed as error:
        raise SourceError(
            "apt could not read its mirror: no network, or the mirror is down",
            "give --source a directory or a tarball",
        ) from error
    tried = []
    for package, version, from_source in apt.candidates():
        try:
            return Delivered(package, version, apt.fetch(package, version, from_source))
        except CommandFailed:
            tried.append(f"{package} {version}")
            say(f"the mirror lists {package} {version} but does not have its files; trying the next")
    raise SourceError(
        f"the machine's apt mirror delivers no MySQL source (tried: {', '.join(tried) or 'nothing is listed'})",
        "give --source a directory or a tarball",
    )


def read_repositories(etc: Path) -> list[Repository]:
    """The binary repositories of an apt configuration folder, one-line and deb822 files alike."""
    found: list[Repository] = []
    parts = etc / "sources.list.d"
    for file in [etc / "sources.list", *sorted(parts.glob("*.list"))]:
        if file.is_file():
            found += _one_line(file.read_text())
    for file in sorted(parts.glob("*.sources")):
        found += _deb822(file.read_text())
    return found


def _one_line(text: str) -> list[Repository]:
    found = []
    for line in text.splitlines():
        match = re.match(r"^\s*deb\s+(?:\[(.*?)\]\s+)?(\S+)\s+(\S+)\s*(.*?)\s*(?:#.*)?$", line)
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
                fields[name] = value.strip()
        if "deb" in fields.get("Types", "").split() and fields.get("Enabled", "yes").lower() != "no":
            signed = fields.get("Signed-By", "")
            for uri in fields.get("URIs", "").split():
                suites, components = fields.get("Suites", "").split(), fields.get("Components", "").split()
                # An inline key spans lines; only a file's path can be used on one line.
                found.append(Repository(uri, tuple(suites), tuple(components), signed if "\n" not in signed else ""))
    return found


def _is_system_archive(one: Repository) -> bool:
    return "main" in one.components and "security" not in one.uri and not any("security" in suite for suite in one.suites)


class _PrivateApt:
    def __init__(self, root: Path, repositories: list[Repository], shell: Shell, log: Path) -> None:
        self._root = root
        self._shell = shell
        self._log = log
        for folder in ("lists/partial", "cache/archives/partial", "etc", "files"):
            (root / folder).mkdir(parents=True, exist_ok=True)
        (root / "etc" / "sources.list").write_text("\n".join(_lines(repositories)) + "\n")
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
            )
            for option in ("-o", setting)
        ]

    def update(self) -> None:
        self._run("apt-get", "-o", "APT::Update::Error-Mode=any", "update")

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
        before = set(files.iterdir())
        if from_source:
            self._run("apt-get", "source", "--download-only", f"{package}={version}")
            pattern = f"{package}_{version.rsplit(':', maxsplit=1)[-1]}.dsc"
        else:
            self._run("apt-get", "download", f"{package}={version}")
            pattern = f"{package}_{version.replace(':', '%3a')}_*.deb"
        found = sorted(files.glob(pattern))
        if not found:
            raise CommandFailed(f"apt-get left no {pattern} in {files} (had {len(before)} files)")
        return found[-1]

    def _run(self, program: str, *arguments: str, check: bool = True) -> str:
        command = Command((program, *self._options, *arguments), cwd=self._root / "files")
        if check:
            self._shell.run(command, log=self._log, timeout_s=1800)
            return ""
        return self._shell.run(command, check=False, timeout_s=120).stdout


def _lines(repositories: list[Repository]) -> list[str]:
    lines = []
    debian = platform.freedesktop_os_release().get("ID") == "debian"
    for one in repositories:
        signed = f"[signed-by={one.signed_by}] " if one.signed_by else ""
        suites = list(one.suites)
        if debian and _DEBIAN_ARCHIVE.search(one.uri):
            suites += [suite for suite in _DEBIAN_EXTRA_SUITES if suite not in suites]
        for suite in suites:
            lines += [f"{kind} {signed}{one.uri} {suite} main" for kind in ("deb", "deb-src")]
    return list(dict.fromkeys(lines))


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version.rsplit(":", maxsplit=1)[-1]))
