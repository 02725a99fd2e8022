"""An executable that is read in order is in the page cache whole, and its pages lie beside each other."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from fake_bench import plan
from fakes import FakeKind, FakeShell
from script_module import BENCHES, script_module

from upshift.measure import server_bench
from upshift.measure.variant import Variant
from upshift.server.executable import read_in_order
from upshift.server.kind import Program

PLACES: Any = script_module(BENCHES / "places.py")
SIZE_BYTES = 8 << 20


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file of many pages, none of which is in the page cache."""
    path = tmp_path / "server"
    path.write_bytes(os.urandom(SIZE_BYTES))
    PLACES.scatter(path)
    opened = os.open(path, os.O_RDONLY)
    os.posix_fadvise(opened, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(opened)
    if is_cached(path):
        pytest.skip("this file system keeps its files in memory")
    return path


def is_cached(path: Path) -> bool:
    opened = os.open(path, os.O_RDONLY)
    try:
        return os.preadv(opened, [bytearray(SIZE_BYTES)], 0, os.RWF_NOWAIT) == SIZE_BYTES
    except BlockingIOError:
        return False
    finally:
        os.close(opened)


def test_the_whole_file_is_read(file: Path) -> None:
    read_in_order(file)
    assert is_cached(file)


def test_pages_that_came_one_by_one_come_anew(file: Path) -> None:
    PLACES.scatter(file)
    scattered = PLACES.described(PLACES.frames(file))
    if not scattered["cached"]:
        pytest.skip("only root sees where pages lie")
    read_in_order(file)
    in_order = PLACES.described(PLACES.frames(file))
    assert in_order["runs"] < scattered["runs"] / 2


def test_a_file_that_is_not_there_is_left_to_whoever_starts_it(tmp_path: Path) -> None:
    read_in_order(tmp_path / "none")


def test_a_server_is_read_before_each_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shell = FakeShell()
    found: list[tuple[Path, int]] = []
    monkeypatch.setattr(server_bench, "read_in_order", lambda executable: found.append((executable, len(shell.spawned))))
    arm = Variant(name="one", program=Program(kind="fake", binary=Path("/opt/server")))
    bench = server_bench.ServerBench(
        shell, lambda _program: FakeKind(), plan(), {}, {"one": tmp_path}, tmp_path, tmp_path / "log"
    )
    for trial in range(2):
        with bench.arm(arm, trial):
            pass
    assert found == [(Path("/opt/server"), 0), (Path("/opt/server"), 1)]
