"""Where the server is and who logs in: a URL, option files, a login path. No password comes from arguments."""

from __future__ import annotations

import configparser
import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

from upshift.errors import MissingTool, UsageError
from upshift.values import Value

PASSWORD = "MYSQL_PWD"
_EXAMPLE = "such as mysql://user@host:3306, or mysql://user@/?socket=/run/mysqld/mysqld.sock"
_PORTS = "ports are numbers from 1 to 65535"
_FILES = ("/etc/my.cnf", "/etc/mysql/my.cnf", "~/.my.cnf")
"""Where the server's own clients look, in their order."""
_GROUPS = ("client", "client-server", "client-mariadb", "mysql", "upshift")
"""The second and third are MariaDB's."""
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "s": " ", '"': '"', "'": "'", "\\": "\\"}
_KEY_BYTES = 20
_POSTGRES = ("postgres", "postgresql")


class PasswordWanted(UsageError):
    """A server wants a password, and none was sent."""


class Address(Value):
    """All that a connection needs."""

    host: str = ""
    port: int = 3306
    socket: str = ""
    user: str = ""
    password: str = ""
    ca: str = ""
    """A file of certificates; with it the server's is verified."""

    def shown(self) -> str:
        """Without the login."""
        return self.socket or f"{self.host or 'localhost'}:{self.port}"


def find_address(
    server: str | None,
    defaults_file: Path | None,
    login_path: str | None,
    environment: Mapping[str, str] = os.environ,
    *,
    option: str = "--server",
) -> Address:
    """From what the command line says. Later wins: option files, login path, URL; the password never comes from the last.
    ``option`` gave the URL.

    Raises UsageError for what cannot be an address, MissingTool when a login path cannot be read.
    """
    found: dict[str, str] = {}
    files = [defaults_file] if defaults_file else [_at_home(each) for each in _FILES]
    if defaults_file and _is_absent(defaults_file):
        raise UsageError(f"there is no option file {defaults_file}", "name one with a section [client]")
    if defaults_file and not _readable(defaults_file):
        raise UsageError(f"the option file {defaults_file} cannot be read by this user", "allow it, or name another")
    for file in files:
        found |= _of_file(_lines(file), str(file), _GROUPS) if _readable(file) else {}
    if login_path:
        found |= _of_login_path(login_path, environment)
    if server:
        found |= _of_url(server, option)
    found.setdefault("password", environment.get(PASSWORD, ""))
    if not found.get("host") and not found.get("socket"):
        raise UsageError("no server is named", f"--server takes its address, {_EXAMPLE}")
    return Address(
        host=found.get("host", ""),
        port=_port(found.get("port", "3306")),
        socket=found.get("socket", "") if found.get("host", "localhost") in ("", "localhost") else "",
        user=found.get("user", "") or environment.get("USER", "root"),
        password=found["password"],
        ca=found.get("ssl-ca", ""),
    )


def _of_url(server: str, option: str) -> dict[str, str]:
    try:
        parts = urlsplit(server)
        port = parts.port
    except ValueError as error:
        raise UsageError(f"{option} is not an address: its host or port is malformed", _EXAMPLE) from error
    if parts.scheme in _POSTGRES:
        raise UsageError("check supports MySQL and MariaDB, not PostgreSQL", "name a MySQL or MariaDB server, mysql://...")
    if parts.scheme not in ("mysql", "mariadb"):
        raise UsageError(f"{option} is not the address of a MySQL or MariaDB server", _EXAMPLE)
    options = {name: values[-1] for name, values in parse_qs(parts.query).items()}
    if parts.password is not None or "password" in options:
        raise UsageError(
            f"{option} holds a password, which every user of this machine could read in the list of processes",
            f"put it into an option file (--defaults-file), a login path (--login-path) or the variable {PASSWORD}",
        )
    if unknown := options.keys() - {"socket", "tls-ca"}:
        raise UsageError(f"{option} has an unknown option: {', '.join(sorted(unknown))}", "the options are socket and tls-ca")
    if port == 0:
        raise UsageError(f"{option} has port 0, which no server has", _PORTS)
    named = {
        "user": unquote(parts.username or ""),
        "host": parts.hostname or "",
        "port": str(port or ""),
        "socket": options.get("socket", ""),
        "ssl-ca": options.get("tls-ca", ""),
    }
    given = {name: value for name, value in named.items() if value}
    if "socket" in given:
        return {"host": "", **given} if "host" not in given else {**given, "host": "localhost"}
    return {"host": given.get("host", "127.0.0.1"), "socket": "", **given}


def _readable(file: Path) -> bool:
    # In this order: is_file raises PermissionError below a folder that this user may not enter.
    return os.access(file, os.R_OK) and file.is_file()


def _is_absent(file: Path) -> bool:
    try:
        return not file.is_file()
    except PermissionError:
        return False


def _lines(file: Path, above: frozenset[Path] = frozenset()) -> Iterator[str]:
    """With those of the files that it includes, in their place; a file that includes itself, over others too, does so once."""
    section = ""
    for line in map(str.strip, file.read_text(errors="replace").splitlines()):
        if line.startswith("!"):
            for each in _included(line):
                if each not in above:
                    yield from _lines(each, above | {file, each})
            yield section
        else:
            section = line if line.startswith("[") else section
            yield line


def _included(line: str) -> list[Path]:
    """The files of a line !include or !includedir, without those that this user may not read."""
    word, path = (*line.split(None, 1), "")[:2]
    named = {"!include": lambda: [Path(path)], "!includedir": lambda: sorted(Path(path).glob("*.cnf"))}
    return [each for each in named.get(word, list)() if _readable(each)]


def _of_file(lines: Iterable[str], name: str, groups: tuple[str, ...]) -> dict[str, str]:
    parser = configparser.RawConfigParser(allow_no_value=True, strict=False, delimiters=("=",), inline_comment_prefixes=None)
    try:
        parser.read_string("\n".join(map(str.strip, lines)), name)
    except configparser.Error as error:
        raise UsageError(
            f"{name} is not an option file", "it has sections such as [client], with lines such as user = me"
        ) from error
    found: dict[str, str] = {}
    for group in groups:
        if parser.has_section(group):
            found |= {key.replace("_", "-"): _value(value or "") for key, value in parser.items(group)}
    return {key: value for key, value in found.items() if key in ("host", "port", "socket", "user", "password", "ssl-ca")}


def _value(text: str) -> str:
    """A value as the server's own clients read it (mysys/my_default.cc): a # outside of quotes begins a comment, and a
    backslash an escape."""
    end, quote = len(text), ""
    for at, each in enumerate(text):
        if each in "'\"" and (not at or text[at - 1] != "\\") and quote in ("", each):
            quote = "" if quote else each
        elif each == "#" and not quote:
            end = at
            break
    value = text[:end].strip()
    if len(value) > 1 and value[0] == value[-1] and value[0] in "'\"":
        value = value[1:-1]
    return re.sub(r"\\(.)", lambda found: _ESCAPES.get(found[1], found[0]), value)


def _at_home(name: str) -> Path:
    """Absent where this user has no home: Path.expanduser would raise."""
    return Path(os.path.expanduser(name))  # noqa: PTH111


def _of_login_path(name: str, environment: Mapping[str, str]) -> dict[str, str]:
    file = Path(environment.get("MYSQL_TEST_LOGIN_FILE") or _at_home("~/.mylogin.cnf"))
    if not _readable(file):
        raise UsageError(f"there is no login file {file}", f"mysql_config_editor set --login-path={name} writes it")
    found = _of_file(_decrypted(file.read_bytes(), file).splitlines(), str(file), (name,))
    if not found:
        raise UsageError(f"{file} has no login path '{name}'", "mysql_config_editor print --all lists them")
    return found


def _decrypted(stored: bytes, file: Path) -> str:
    """The file's text. Its format is client/mysql_config_editor.cc's: four unused bytes, a key, and lines of AES-128-ECB."""
    if shutil.which("openssl") is None:
        raise MissingTool("openssl, which reads login paths, is not installed", "install openssl, or use --defaults-file")
    key = bytearray(16)
    for number, byte in enumerate(stored[4 : 4 + _KEY_BYTES]):
        key[number % 16] ^= byte
    text, at = b"", 4 + _KEY_BYTES
    # The key lies in the file beside what it hides: nothing is lost when it shows in the list of processes.
    command = ("openssl", "enc", "-d", "-aes-128-ecb", "-K", bytes(key).hex())
    while at + 4 <= len(stored):
        length = int.from_bytes(stored[at : at + 4], "little")
        done = subprocess.run(command, input=stored[at + 4 : at + 4 + length], capture_output=True, timeout=20)
        if done.returncode:
            raise UsageError(f"{file} is not a login file", "mysql_config_editor writes one")
        text += done.stdout
        at += 4 + length
    return text.decode(errors="replace")


def _port(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,5}", text) or not 0 < int(text) < 65536:
        raise UsageError(f"{text} is not a port", _PORTS)
    return int(text)
