"""A real driver through the proxy: PyMySQL, which is here already, is counted and passes its basic tests."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pymysql
import pytest
from captures import program

from upshift.errors import MissingTool, ServerFailed
from upshift.paths import CHECKOUT
from upshift.shell import SystemShell
from upshift.stack.driver_matrix.certificates import make_certificates
from upshift.stack.driver_matrix.checking import check_driver
from upshift.stack.driver_matrix.ground import ground_of, tables
from upshift.stack.driver_matrix.matrix import read_matrix
from upshift.stack.driver_matrix.model import Checked, Counted
from upshift.stack.driver_matrix.running import Bench, count_driver
from upshift.stack.driver_matrix.servers import find_kind, running
from upshift.stack.driver_matrix.toolkit import Toolkit

PYTHON = Toolkit((sys.executable, str(CHECKOUT / "drivers" / "python" / "main.py")), CHECKOUT)
OPERATIONS = ("point_select", "batch_insert", "batch_update")


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[dict[str, Counted], dict[str, Checked]]]:
    """What was counted, by operation, and checked, on a server without TLS and on one with it."""
    stack = program("upshift-stack")
    try:
        kind = find_kind("mariadb")
    except MissingTool as error:
        pytest.skip(error.message)
    (driver,) = (each for each in read_matrix().driver if each.name == "pymysql")
    default = driver.setting[0].model_copy(update={"operations": OPERATIONS})
    driver = driver.model_copy(update={"setting": (default,), "version": ""})
    folder = tmp_path_factory.mktemp("drivers")
    counted: list[Counted] = []
    checked: list[Checked] = []
    shell = SystemShell()
    try:
        certificates = make_certificates(shell, folder / "certificates")
        bench = Bench(shell, stack, folder / "trace", certificates, counted.append, checked.append)
        for encrypted in (False, True):
            home = folder / f"server-{encrypted}"
            with running(shell, kind, home, certificates if encrypted else None) as ground, tables(ground):
                if not encrypted:
                    count_driver(bench, driver, PYTHON, ground, ground.version())
                check_driver(bench, driver, PYTHON, ground, ground.version(), encrypted=encrypted)
        yield {each.operation: each for each in counted}, {each.check: each for each in checked}
    finally:
        shell.close()


def test_a_point_select_is_one_round_trip(found: tuple[dict[str, Counted], dict[str, Checked]]) -> None:
    one = found[0]["point_select"]
    assert not one.error
    # One connection, whose first statements and whose end are taken off; it commits once.
    assert one.traffic.exchanges == {"query select": 1000, "query commit": 1}
    assert (one.traffic.round_trips, one.traffic.packets_sent, one.traffic.connections) == (1001, 1001, 1)


def test_a_batch_of_inserts_is_one_statement_and_one_of_updates_a_hundred(
    found: tuple[dict[str, Counted], dict[str, Checked]],
) -> None:
    counted = found[0]
    assert counted["batch_insert"].traffic.exchanges == {"query insert": 10, "query commit": 11}
    assert counted["batch_update"].traffic.exchanges == {"query update": 1000, "query commit": 11}


def test_its_basic_tests_pass_through_the_proxy(found: tuple[dict[str, Counted], dict[str, Checked]]) -> None:
    assert {name: each.why for name, each in found[1].items() if not each.ok} == {}
    assert {"connect", "local_infile", "reconnect", "tls", "tls_refused", "tls_ended"} <= {*found[1]}


def test_tables_that_are_there_are_left_alone(tmp_path: Path) -> None:
    try:
        kind = find_kind("mariadb")
    except MissingTool as error:
        pytest.skip(error.message)
    shell = SystemShell()
    try:
        with running(shell, kind, tmp_path / "server", None) as ground:
            port = int(ground.url.rpartition(":")[2].split("/")[0])
            with pymysql.connect(host="127.0.0.1", port=port, user="root", database="upshift_drivers") as connection:
                connection.cursor().execute("CREATE TABLE upshift_drivers (mine INT)")
                with pytest.raises(ServerFailed, match="already exists") as raised, tables(ground_of(ground.url, shell)):
                    pass
                assert "no table whose name begins with upshift_drivers" in raised.value.hint
                connection.cursor().execute("INSERT INTO upshift_drivers VALUES (1)")
    finally:
        shell.close()
