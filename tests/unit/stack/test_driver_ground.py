"""The server that drivers run on, by its URL."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

import pytest
from fakes import FakeShell

from upshift.errors import UsageError
from upshift.stack.driver_matrix.ground import ground_of, place_of
from upshift.stack.driver_matrix.servers import find_kind


@pytest.mark.parametrize(
    "url",
    [
        "mysql://u:secret@h:abc/db",
        "mysql://u:secret@h:0/db",
        "mysql://u:secret@h:99999/db",
        "mysql://u:secret@[::1/db",
        "mysql://u:secret@h:3306",
        "mysql://:secret@h:3306/db",
        "oracle://u:secret@h:3306/db",
        "secret",
    ],
)
def test_what_names_no_server_is_refused_without_its_password(url: str) -> None:
    with pytest.raises(UsageError, match="--server ") as raised:
        ground_of(url, FakeShell())
    assert "secret" not in raised.value.message + raised.value.hint


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("mysql://u@h/db", "h:3306"),
        ("mariadb://u@h:3310/db", "h:3310"),
        ("postgres://u@h/db", "h:5432"),
        ("postgresql://u@[::1]/db", "[::1]:5432"),
    ],
)
def test_a_server_without_a_port_listens_where_its_protocol_does(url: str, place: str) -> None:
    assert ground_of(url, FakeShell()).url == url
    assert place_of(urlsplit(url)) == place


def test_a_program_is_found_from_every_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its server starts in another one."""
    (tmp_path / "mysqld").touch()
    monkeypatch.chdir(tmp_path)
    assert find_kind("mysql", Path("mysqld")).program == (tmp_path / "mysqld").resolve()
