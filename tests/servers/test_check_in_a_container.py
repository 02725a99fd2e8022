"""`upshift check` of a real MariaDB in a control group of 256 MiB: what is set for it hears nothing, what is not is named.

The group of the server counts, not that of the check.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from real_server import OF_THE_MACHINE, initialised, started

from upshift.paths import CHECKOUT

MIB = 1 << 20
SMALL = (
    "--innodb-buffer-pool-size=64M",
    "--innodb-log-buffer-size=8M",
    "--innodb-log-file-size=32M",
    "--key-buffer-size=1M",
    "--aria-pagecache-buffer-size=8M",
    "--max-connections=40",
    "--back-log=40",
    "--table-open-cache=400",
    "--character-set-server=utf8mb4",
)
LARGE = ("--innodb-buffer-pool-size=512M", "--max-connections=2000")
ROWS = "INSERT INTO orders SELECT seq, REPEAT(MD5(seq), 30) FROM seq_1_to_90000"


def places() -> Iterator[tuple[Path, str]]:
    """Folders in which a group with a limit of memory may be made, with the limit's file: below our own first."""
    mount = Path("/sys/fs/cgroup")
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _number, controllers, path = line.split(":", 2)
        if controllers == "memory":
            yield from ((mount / "memory" / each, "memory.limit_in_bytes") for each in (path.lstrip("/"), ""))
        elif not controllers:
            yield from ((mount / each, "memory.max") for each in (path.lstrip("/"), ""))


class Group:
    """A control group that limits memory. Raises OSError where none can be made."""

    def __init__(self, limit_bytes: int) -> None:
        refusals = []
        for above, limit in places():
            self.folder = above / f"upshift-{uuid.uuid4().hex[:12]}"
            try:
                self.folder.mkdir()
                (self.folder / limit).write_text(str(limit_bytes))
            except OSError as error:
                refusals.append(f"{error.filename}: {error.strerror}")
                if self.folder.is_dir():
                    self.folder.rmdir()
            else:
                return
        raise OSError("; ".join(refusals) or "there are no control groups")

    def program(self, folder: Path, *command: str) -> str:
        """A program that becomes ``command`` within the group."""
        file = folder / f"in-{self.folder.name}"
        words = " ".join(command)
        file.write_text(f'#!/bin/sh\necho $$ > "{self.folder}/cgroup.procs" || exit 1\nexec {words} "$@"\n')
        file.chmod(0o755)
        return str(file)

    def remove(self) -> None:
        self.folder.rmdir()


@pytest.fixture
def group() -> Iterator[Group]:
    try:
        made = Group(256 * MIB)
    except OSError as error:
        pytest.skip(f"no control group with a limit of memory can be made: {error}")
    yield made
    made.remove()


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return initialised("mariadbd", tmp_path_factory.mktemp("mariadb") / "data")


def found(url: str, *command: str) -> dict[str, str]:
    """The findings of `upshift check` and their evidence, run by ``command``."""
    environment = {**os.environ, "PYTHONPATH": str(CHECKOUT / "src")}
    done = subprocess.run(
        (*command, "-m", "upshift", "check", "--server", url, "--json"), env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["on_this_machine"]
    return {each["id"]: each["evidence"] for each in report["findings"]}


def test_a_server_that_is_set_for_its_container_hears_nothing(data: Path, group: Group, tmp_path: Path) -> None:
    """With more data than pool, and no memory for a larger one."""
    with started(group.program(tmp_path, "mariadbd"), data, SMALL) as server:
        server.run("CREATE DATABASE shop", "USE shop", "CREATE TABLE orders (id INT PRIMARY KEY, note TEXT)", ROWS)
        server.run("ANALYZE TABLE shop.orders")
        (size,) = server.run("SELECT data_length FROM information_schema.tables WHERE table_name = 'orders'")
        assert size[0] > 64 * MIB
        assert found(server.url, sys.executable).keys() <= OF_THE_MACHINE


def test_a_server_that_is_set_for_more_than_its_container_is_told(data: Path, group: Group, tmp_path: Path) -> None:
    with started(group.program(tmp_path, "mariadbd"), data, (*SMALL, *LARGE)) as server:
        told = found(server.url, sys.executable)
    assert "the server has 256 MiB by its control group" in told["buffer-pool-above-memory"]
    assert "connections-above-memory" in told


def test_the_container_of_the_check_is_not_the_servers(data: Path, group: Group, tmp_path: Path) -> None:
    with started("mariadbd", data, (*SMALL, "--innodb-buffer-pool-size=512M")) as server:
        assert "buffer-pool-above-memory" not in found(server.url, group.program(tmp_path, sys.executable))
