"""What a file that is not there tells: nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from upshift.files import object_in, text_in


def test_a_file_that_cannot_be_read_is_empty(tmp_path: Path) -> None:
    assert (text_in(tmp_path / "none"), text_in(tmp_path)) == ("", "")
    (tmp_path / "file").write_bytes(b"a\xff")
    assert text_in(tmp_path / "file") == "a\ufffd"


@pytest.mark.parametrize("content", [b"", b"[1]", b'{"a": ', b'{"a": "\xff"}'])
def test_what_is_no_object_of_json_is_an_empty_one(tmp_path: Path, content: bytes) -> None:
    assert object_in(tmp_path / "none") == {}
    (tmp_path / "file").write_bytes(content)
    assert object_in(tmp_path / "file") == {}
    (tmp_path / "file").write_text('{"a": 1}')
    assert object_in(tmp_path / "file") == {"a": 1}
