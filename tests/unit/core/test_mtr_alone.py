"""Two runs of MTR side by side may get the same ports: one waits for the other."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import pytest

from upshift.server.mtr_alone import alone, ids_folder

AT_MOST_S = 20


@pytest.fixture(autouse=True)
def ids(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("MTR_UNIQUE_IDS_DIR", str(tmp_path))
    yield tmp_path / "mysql-unique-ids"


def never() -> None:
    raise AssertionError("nobody else runs MTR")


def test_mtr_finds_its_folder_for_all_users(ids: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with alone(never):
        assert stat.S_IMODE(ids.stat().st_mode) == 0o777
    monkeypatch.delenv("MTR_UNIQUE_IDS_DIR")
    assert ids_folder() == Path("/tmp/mysql-unique-ids")


def test_one_after_the_other_does_not_wait() -> None:
    for _time in range(2):
        with alone(never):
            pass


def test_a_second_one_says_that_it_waits_and_goes_on_after_the_first() -> None:
    waits = Event()

    def second() -> str:
        with alone(waits.set):
            return "second"

    with ThreadPoolExecutor(1) as pool:
        with alone(never):
            other = pool.submit(second)
            assert waits.wait(AT_MOST_S) and not other.done()
        assert other.result(AT_MOST_S) == "second"


def test_a_failure_lets_go() -> None:
    with pytest.raises(ValueError, match="tests failed"), alone(never):
        raise ValueError("tests failed")
    with alone(never):
        pass
