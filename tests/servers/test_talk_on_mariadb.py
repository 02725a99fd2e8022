"""The talk's Java client on a real server: whatever its options, the tables stay consistent."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from captures import program

from upshift.errors import CommandFailed, MissingTool
from upshift.shell import SystemShell
from upshift.stack.driver_matrix.servers import find_kind, running
from upshift.stack.driver_matrix.toolkit import Workshop, prepare

FAMILIES = {"mariadb": "connector-j", "postgres": "pgjdbc"}


@pytest.fixture(scope="module")
def java() -> Iterator[tuple[str, ...]]:
    shell = SystemShell()
    try:
        toolkit = prepare("java", Workshop(shell=shell, binary=None, say=lambda _line: None))
        yield (*toolkit.argv[:-1], "upshift.talk.Talk")
    except MissingTool as error:
        pytest.skip(error.message)
    except CommandFailed as error:
        # A machine without a registry of Java's packages; what does not compile is a failure.
        if "Could not resolve" in error.message or "Could not transfer" in error.message:
            pytest.skip("the registry of Java's packages cannot be reached")
        raise
    finally:
        shell.close()


@pytest.mark.parametrize("family", ["mariadb", "postgres"])
def test_orders_are_consistent_in_every_way_to_place_them(java: tuple[str, ...], family: str) -> None:
    load = program("upshift-load")
    shell = SystemShell()
    try:
        kind = find_kind(family, None)  # type: ignore[arg-type]
    except MissingTool as error:
        pytest.skip(error.message)
    try:
        # PostgreSQL runs as a user of its own, who may not look into pytest's folders.
        with tempfile.TemporaryDirectory() as home, running(shell, kind, opened(home) / "server", None) as ground:
            say(load, "tpcc", "prepare", "--warehouses", "1", "--server", ground.url)
            address, database = ground.url.rpartition("@")[2].split("/")
            for ways in (
                ("--statements", "each", "--keys", "each", "--writes", "each"),
                ("--statements", "kept", "--keys", "in", "--writes", "batch"),
                ("--statements", "each", "--keys", "in", "--writes", "joined"),
            ):
                to = ("--driver", FAMILIES[family], "--address", address, "--database", database)
                said = say(*java, *to, *ways, "--connections", "2", "--seconds", "2", "--warehouses", "1")
                assert json.loads(said.splitlines()[-1])["transactions"] > 0
            say(load, "tpcc", "check", "--server", ground.url)
    finally:
        shell.close()


def opened(folder: str) -> Path:
    Path(folder).chmod(0o755)
    return Path(folder)


def test_an_unknown_option_is_named(java: tuple[str, ...]) -> None:
    done = subprocess.run((*java, "--keys", "all"), capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert json.loads(done.stdout)["error"] == "IllegalArgumentException: --keys takes each or in, not all"


def say(*words: str | Path) -> str:
    done = subprocess.run([str(each) for each in words], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
