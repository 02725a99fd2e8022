"""Where the server is, and who logs in: never a password from the arguments."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from upshift.check.address import Address, find_address
from upshift.errors import UsageError

_NOBODY = 65534


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of its own, so that no option file of this machine's counts."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr("upshift.check.address._FILES", ("~/.my.cnf",))
    return tmp_path


def found(server: str | None = None, file: Path | None = None, path: str | None = None, **environment: str) -> Address:
    return find_address(server, file, path, {"USER": "me", **environment})


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("mysql://db", Address(host="db", user="me")),
        ("mariadb://you@db:3307/shop", Address(host="db", port=3307, user="you")),
        ("mysql://", Address(host="127.0.0.1", user="me")),
        ("mysql://a%40b@/?socket=/run/my%20sql.sock", Address(socket="/run/my sql.sock", user="a@b")),
        ("mysql://you@localhost?socket=/run/s", Address(host="localhost", socket="/run/s", user="you")),
        ("mysql://you@[::1]:3310?tls-ca=/ca.pem", Address(host="::1", port=3310, user="you", ca="/ca.pem")),
    ],
)
def test_a_url(url: str, address: Address) -> None:
    assert found(url) == address


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("mysql://me:sesame@db", "holds a password"),
        ("mysql://me@db?password=sesame", "holds a password"),
        ("postgres://me@db", "not PostgreSQL"),
        ("postgresql://me:sesame@db", "not PostgreSQL"),
        ("db:3306", "not the address"),
        ("mysql://db:many", "malformed"),
        ("mysql://db:99999", "malformed"),
        ("mysql://db:0", "--server has port 0"),
        ("mysql://[::1", "malformed"),
        ("mysql://db?sokcet=/s", "unknown option: sokcet"),
        (None, "no server is named"),
    ],
)
def test_what_is_no_address(url: str | None, said: str) -> None:
    with pytest.raises(UsageError, match=said) as refused:
        found(url)
    assert refused.value.hint and "sesame" not in f"{refused.value.message} {refused.value.hint}"


def test_a_password_comes_from_the_environment() -> None:
    assert found("mysql://db", MYSQL_PWD="sesame").password == "sesame"


def test_option_files_name_server_and_login(home: Path) -> None:
    (home / ".my.cnf").write_text('[client]\nuser = you\npassword = "ses#ame"\nhost=db\n[mysql]\nport=3307\nskip-auto-rehash\n')
    assert found() == Address(host="db", port=3307, user="you", password="ses#ame")
    # The URL's parts win, and the login stays.
    assert found("mysql://other:3310") == Address(host="other", port=3310, user="you", password="ses#ame")
    own = home / "own.cnf"
    own.write_text("!include /etc/other.cnf\n[client]\nsocket=/run/s\n[mysqld]\nuser=mysql\n")
    assert found(file=own) == Address(socket="/run/s", user="me")
    # Of an option file's socket and a URL's host, the URL's holds.
    assert found("mysql://db", own).socket == ""


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("sesame # ours", "sesame"),
        ("'ses#ame' # ours", "ses#ame"),
        ('ses"ame"', 'ses"ame"'),
        ("it's", "it's"),
        (r"a\\b\s", "a\\b "),
        (r"a\q", r"a\q"),
        ("a:b=c", "a:b=c"),
        ('""', ""),
        ("", ""),
    ],
)
def test_values_are_read_as_the_servers_clients_read_them(home: Path, written: str, value: str) -> None:
    (home / ".my.cnf").write_text(f"[client]\nhost = db # the main one\npassword = {written}\nport=3307# or so\n")
    assert found() == Address(host="db", port=3307, user="me", password=value)


def test_an_option_file_that_may_not_be_read(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = home / "own.cnf"
    file.write_text("[client]\nhost=db\n")
    monkeypatch.setattr("os.access", lambda *_given: False)
    with pytest.raises(UsageError, match="cannot be read by this user"):
        found(file=file)


@contextlib.contextmanager
def closed(folder: Path) -> Iterator[None]:
    """A block in which this process may not enter ``folder``."""
    folder.chmod(0)
    is_root = os.geteuid() == 0
    try:
        if is_root:
            os.setresuid(_NOBODY, _NOBODY, 0)
        yield
    finally:
        if is_root:
            os.setresuid(0, 0, 0)
        folder.chmod(0o700)


def test_a_home_that_may_not_be_entered_has_no_option_file(home: Path) -> None:
    """As for MySQL's clients, which leave out what they may not read."""
    (home / ".my.cnf").write_text("[client]\nuser=you\n")
    with closed(home):
        assert found("mysql://db") == Address(host="db", user="me")
        with pytest.raises(UsageError, match="there is no login file"):
            found(path="shop")
        with pytest.raises(UsageError, match="cannot be read by this user"):
            found(file=home / ".my.cnf")
    assert found("mysql://db").user == "you"


@pytest.mark.parametrize(("text", "said"), [("user = you\n", "is not an option file"), (None, "there is no option file")])
def test_what_is_no_option_file(home: Path, text: str | None, said: str) -> None:
    file = home / "own.cnf"
    if text is not None:
        file.write_text(text)
    with pytest.raises(UsageError, match=said):
        found(file=file)


def test_a_bad_port_of_an_option_file(home: Path) -> None:
    (home / ".my.cnf").write_text("[client]\nhost=db\nport=0\n")
    with pytest.raises(UsageError, match="0 is not a port"):
        found()


def written(file: Path, text: str) -> None:
    """A login file, as mysql_config_editor writes it."""
    key = bytes(range(20))
    folded = bytearray(16)
    for number, byte in enumerate(key):
        folded[number % 16] ^= byte
    stored = b"\0" * 4 + key
    for line in text.splitlines(keepends=True):
        command = ("openssl", "enc", "-aes-128-ecb", "-K", bytes(folded).hex())
        hidden = subprocess.run(command, input=line.encode(), capture_output=True, check=True).stdout
        stored += len(hidden).to_bytes(4, "little") + hidden
    file.write_bytes(stored)


def test_a_login_path(home: Path) -> None:
    written(home / ".mylogin.cnf", '[shop]\nuser = "you"\npassword = "ses ame"\nhost = "db"\n[other]\nuser = no\n')
    assert found(path="shop") == Address(host="db", user="you", password="ses ame")
    with pytest.raises(UsageError, match="no login path 'sop'"):
        found(path="sop")


def test_a_login_file_that_is_none(home: Path) -> None:
    with pytest.raises(UsageError, match="there is no login file"):
        found(path="shop")
    (home / ".mylogin.cnf").write_bytes(b"\0" * 24 + (16).to_bytes(4, "little") + b"\1" * 16)
    with pytest.raises(UsageError, match="is not a login file"):
        found(path="shop")


def test_the_login_is_not_shown() -> None:
    assert found("mysql://you@db", MYSQL_PWD="sesame").shown() == "db:3306"
    assert found("mysql://you@/?socket=/run/s").shown() == "/run/s"


def test_a_user_without_a_home_has_no_files_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOME")
    monkeypatch.setattr(os, "getuid", lambda: 2**31)
    assert found("mysql://db") == Address(host="db", user="me")
    with pytest.raises(UsageError, match="there is no login file"):
        found(path="shop")


def test_included_option_files_and_mariadbs_sections(home: Path) -> None:
    folder = home / "conf.d"
    folder.mkdir()
    (home / ".my.cnf").write_text(
        f"[client]\nuser = a\n!includedir {folder}\n!include {home}/more\n!include {home}/none\nport = 3307\n"
    )
    (folder / "b.cnf").write_text("[client-server]\nsocket = /run/b.sock\n[mysqld]\nuser = mysql\n")
    (folder / "a.cnf").write_text("[client-server]\nsocket = /run/a.sock\n")
    (folder / "c.conf").write_text("[client]\nuser = nobody\n")
    (home / "more").write_text(f"[client-mariadb]\nssl-ca = /ca.pem\n!include {home}/more\n")
    assert found() == Address(socket="/run/b.sock", port=3307, user="a", ca="/ca.pem")
