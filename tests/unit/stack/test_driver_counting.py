"""Traffic is counted from an export; what lacks a part is refused, and work that was not done has no figures."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import pytest
from cards import MACHINE
from fakes import FakeShell, Output
from rich.console import Console

from upshift.errors import MissingTool, ServerFailed, UpshiftError, UsageError
from upshift.stack.driver_matrix import checking, running, store, whole
from upshift.stack.driver_matrix.certificates import Certificates
from upshift.stack.driver_matrix.counting import Sessions, count_traffic, read_sessions
from upshift.stack.driver_matrix.ground import State, tables
from upshift.stack.driver_matrix.matrix import Protocol, read_matrix
from upshift.stack.driver_matrix.model import Checked, Counted, DriversResult, LeftOut, Traffic
from upshift.stack.driver_matrix.rows import checks, failures, lines
from upshift.stack.driver_matrix.running import Bench
from upshift.stack.driver_matrix.terminal import show
from upshift.stack.driver_matrix.toolkit import Toolkit
from upshift.stack.driver_matrix.whole import Asked, run_matrix

WHOLE = {"whole": True, "gaps": {"connections": 0, "bytes": 0}, "unread": {}}
COLUMNS = (
    "kind VARCHAR, verb VARCHAR, round_trips BIGINT, packets_sent BIGINT, packets_received BIGINT, bytes_sent BIGINT, "
    "bytes_received BIGINT, statements_in_text BIGINT"
)
PREPARED_TWICE = [
    ("prepare", "select", 1, 1, 5, 60, 200, None),
    ("execute", "select", 1, 1, 4, 30, 150, 1),
    ("close_statement", None, 0, 1, 0, 9, 0, None),
    ("prepare", "select", 1, 1, 5, 60, 200, None),
    ("execute", "select", 1, 1, 4, 30, 150, 1),
    ("close_statement", None, 0, 1, 0, 9, 0, None),
    ("quit", None, 0, 1, 0, 5, 0, None),
]


def exported(folder: Path, rows: list[tuple[Any, ...]], *, tls: bool = False, compressed: bool = False, **changed: Any) -> Path:
    """What `upshift-stack export` writes, as far as counting reads it."""
    with duckdb.connect() as base:
        base.execute(f"CREATE TABLE exchanges ({COLUMNS})")
        if rows:
            base.executemany(f"INSERT INTO exchanges VALUES ({', '.join('?' * 8)})", rows)
        base.execute(f"COPY exchanges TO '{folder / 'exchanges.parquet'}' (FORMAT parquet)")
        session = f"SELECT 0 AS connection, {tls} AS tls, {compressed} AS compressed"
        base.execute(f"COPY ({session}) TO '{folder / 'sessions.parquet'}' (FORMAT parquet)")
    (folder / "trace.json").write_text(json.dumps({**WHOLE, **changed}))
    return folder


def test_every_exchange_is_counted(tmp_path: Path) -> None:
    found = count_traffic(exported(tmp_path, PREPARED_TWICE))
    assert (found.round_trips, found.packets_sent, found.packets_received) == (4, 7, 18)
    assert (found.bytes_sent, found.bytes_received, found.connections) == (203, 700, 1)
    assert found.exchanges == {"prepare select": 2, "execute select": 2, "close_statement": 2, "quit": 1}
    assert (found.figure("packets"), found.figure("bytes"), found.figure("round_trips")) == (25, 903, 4)


def test_a_trace_without_exchanges_counts_nothing(tmp_path: Path) -> None:
    assert count_traffic(exported(tmp_path, [])) == Traffic(connections=1)


def test_counting_downloads_no_extension(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trace = exported(tmp_path, PREPARED_TWICE)
    connect, asked = duckdb.connect, []

    def noted(**given: Any) -> duckdb.DuckDBPyConnection:
        asked.append(given)
        return connect(**given)

    monkeypatch.setattr(duckdb, "connect", noted)
    count_traffic(trace)
    assert asked == [{"config": {"autoinstall_known_extensions": "false"}}] * 2


def test_what_only_connecting_takes_is_taken_off(tmp_path: Path) -> None:
    found = count_traffic(exported(tmp_path, PREPARED_TWICE))
    login = Traffic(packets_sent=1, bytes_sent=5, exchanges={"quit": 1}, connections=1)
    rest = found.less(login)
    assert (rest.round_trips, rest.packets_sent, rest.bytes_sent) == (4, 6, 198)
    assert "quit" not in rest.exchanges


@pytest.mark.parametrize(
    "changed",
    [{"whole": False}, {"gaps": {"connections": 1, "bytes": 7}}, {"unread": {"encrypted": 1}}],
)
def test_a_trace_that_lacks_a_part_is_refused(changed: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(UpshiftError, match="lacks a part"):
        count_traffic(exported(tmp_path, PREPARED_TWICE, **changed))


@pytest.mark.parametrize(("tls", "compressed"), [(True, False), (False, True)])
def test_what_a_login_agreed_to_is_seen(tls: bool, compressed: bool, tmp_path: Path) -> None:
    assert read_sessions(exported(tmp_path, [], tls=tls, compressed=compressed)) == Sessions(1, tls, compressed)


# One driver on a server that is not there.

PYMYSQL = next(each for each in read_matrix().driver if each.name == "pymysql")
TOOLKIT = Toolkit(("program",), Path("/"))
SERVER = "MariaDB 1"
PEM = Certificates(ca=Path("ca"), certificate=Path("certificate"), key=Path("key"))


class NoServer:
    """Says what was written as a list of states has it."""

    url = "mysql://root@127.0.0.1:1/base"
    protocol: Protocol = "mysql"

    def answers(self) -> bool:
        return True

    def version(self) -> str:
        return SERVER

    def __init__(self) -> None:
        self.asked: list[str] = []

    def ask(self, statements: Any) -> str:
        self.asked += statements
        return "0 0"


def said(**changed: Any) -> Output:
    return Output(json.dumps({"driver_version": PYMYSQL.version, "rows": 0, **changed}) + "\n")


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Bench, list[Counted], list[Checked], FakeShell]:
    @contextmanager
    def proxied(_shell: Any, _program: Path, url: str, folder: Path, ending: Certificates | None) -> Iterator[str]:
        folder.mkdir(exist_ok=True)
        yield url
        exported(folder, PREPARED_TWICE, tls=ending is not None)

    monkeypatch.setattr(running, "captured", proxied)
    counted: list[Counted] = []
    checked: list[Checked] = []
    shell = FakeShell({"check_error": said(error="OperationalError: gone"), "check_": said(ok=True), "pymysql": said()})
    return Bench(shell, Path("proxy"), tmp_path / "trace", PEM, counted.append, checked.append), counted, checked, shell


def one_operation(monkeypatch: pytest.MonkeyPatch, *, before: State, after: State) -> Any:
    states = iter([before, after])
    monkeypatch.setattr(running, "state", lambda _ground: next(states))
    return PYMYSQL.model_copy(update={"setting": (PYMYSQL.setting[0].model_copy(update={"operations": ("batch_insert",)}),)})


def test_an_operation_is_counted_less_its_login(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    at, counted, _checked, shell = bench
    driver = one_operation(monkeypatch, before=State(0, 5), after=State(1000, 5))
    ground = NoServer()
    running.count_driver(at, driver, TOOLKIT, ground, SERVER)
    (one,) = counted
    # An earlier operation that wrote would change the bytes of rows.
    assert {"UPDATE upshift_drivers SET k = id", "DELETE FROM upshift_drivers_added"} <= {*ground.asked}
    # Both runs had the same traffic here, so that nothing is left of the second.
    assert (one.error, one.traffic.round_trips, one.login.round_trips, one.units) == ("", 0, 4, 10)
    assert [command.argv[-2:] for command in shell.ran] == [("connect", "1"), ("batch_insert", "10")]


def test_work_that_was_not_done_has_no_figures(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    at, counted, _checked, _shell = bench
    driver = one_operation(monkeypatch, before=State(0, 5), after=State(999, 5))
    running.count_driver(at, driver, TOOLKIT, NoServer(), SERVER)
    assert "added 999" in counted[0].error and counted[0].traffic == Traffic()


def test_another_version_than_the_pinned_one_is_an_error(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    at, counted, _checked, shell = bench
    shell.outputs["pymysql"] = said(driver_version="0.1")
    driver = one_operation(monkeypatch, before=State(0, 0), after=State(1000, 0))
    running.count_driver(at, driver, TOOLKIT, NoServer(), SERVER)
    assert "0.1" in counted[0].error and PYMYSQL.version in counted[0].error


def test_basic_tests_that_fail_are_named(bench: Any) -> None:
    at, _counted, checked, _shell = bench
    checking.check_driver(at, PYMYSQL, TOOLKIT, NoServer(), SERVER, encrypted=False)
    assert {each.check for each in checked} == {*PYMYSQL.checks} - {"tls"}
    gone = "OperationalError: gone"
    assert [(each.check, each.why) for each in checked if not each.ok] == [("error", gone), ("tls_ended", f"error: {gone}")]


def test_tls_that_the_proxy_did_not_see_fails(bench: Any) -> None:
    at, _counted, checked, _shell = bench
    checking.check_driver(at, PYMYSQL, TOOLKIT, NoServer(), SERVER, encrypted=True)
    assert [(each.check, each.why) for each in checked] == [("tls", "the proxy saw no TLS")]


def asked_for_tls(shell: FakeShell, operation: str) -> list[bool]:
    runs = [command.argv for command in shell.ran if command.argv[-2] == operation]
    return [json.loads(argv[-3])["options"] == PYMYSQL.encrypted for argv in runs]


def test_over_tls_that_ends_in_the_proxy_all_basic_tests_run_again(bench: Any) -> None:
    at, _counted, checked, shell = bench
    shell.outputs["check_error"] = said(ok=True)
    checking.check_driver(at, PYMYSQL, TOOLKIT, NoServer(), SERVER, encrypted=False)
    assert [each.check for each in checked if not each.ok] == []
    for each in {*PYMYSQL.checks} - {"tls", "tls_ended", "tls_refused"}:
        assert asked_for_tls(shell, f"check_{each}") == [False, True]
    assert asked_for_tls(shell, "check_tls_refused") == [True]


@pytest.mark.parametrize(
    ("rows", "tls", "why"),
    [(PREPARED_TWICE, False, "connect: the proxy saw no TLS"), ([], True, "connect: the proxy read no statement")],
)
def test_tls_that_does_not_end_in_the_proxy_fails(
    rows: list[Any], tls: bool, why: str, bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    at, _counted, checked, _shell = bench

    @contextmanager
    def proxied(_shell: Any, _program: Path, url: str, folder: Path, _ending: Any) -> Iterator[str]:
        folder.mkdir(exist_ok=True)
        yield url
        exported(folder, rows, tls=tls)

    monkeypatch.setattr(running, "captured", proxied)
    checking.check_driver(at, PYMYSQL, TOOLKIT, NoServer(), SERVER, encrypted=False)
    assert [each.why for each in checked if each.check == "tls_ended"] == [why]


CONNECTOR = next(each for each in read_matrix().driver if each.name == "connector-python")


@pytest.mark.parametrize(
    ("agrees", "rows", "why"),
    [
        (True, PREPARED_TWICE, ""),
        (False, PREPARED_TWICE, "fetch: the proxy saw no compression"),
        (True, PREPARED_TWICE[1:], "fetch: the proxy read round_trips=0"),
    ],
)
def test_compressed_traffic_is_read_as_if_it_were_not(
    agrees: bool, rows: list[Any], why: str, bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    at, _counted, checked, shell = bench
    shell.outputs["connector-python"] = Output(json.dumps({"driver_version": CONNECTOR.version, "rows": 0}) + "\n")

    @contextmanager
    def proxied(_shell: Any, _program: Path, url: str, folder: Path, _ending: Any) -> Iterator[str]:
        folder.mkdir(exist_ok=True)
        yield url
        asked = json.loads(shell.ran[-1].argv[-3])["options"] == CONNECTOR.compressed
        exported(folder, rows if asked else PREPARED_TWICE, compressed=asked and agrees)

    monkeypatch.setattr(running, "captured", proxied)
    driver = CONNECTOR.model_copy(update={"checks": ("compressed",)})
    checking.check_driver(at, driver, TOOLKIT, NoServer(), SERVER, encrypted=False)
    (one,) = checked
    assert one.ok == (not why) and one.why.startswith(why)
    assert len(shell.ran) == (2 if why else 6)


def counts(**changed: Any) -> Counted:
    given = {
        "driver": "pymysql",
        "version": PYMYSQL.version,
        "server": SERVER,
        "setting": "default",
        "kind": "default",
        "operation": "point_select",
        "unit": "statement",
        "units": 1000,
        "traffic": Traffic(round_trips=2001, packets_sent=1000, packets_received=500),
        "login": Traffic(),
    }
    return Counted.model_validate({**given, **changed})


def result(**changed: Any) -> DriversResult:
    given = {"command": "upshift", "began": "2026-11-23", "upshift_version": "1", "machine": MACHINE}
    return DriversResult.model_validate({**given, **changed})


def test_what_is_missing_is_named_and_the_rest_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    def prepare(language: str, _shop: Any) -> Toolkit:
        if language == "go":
            raise MissingTool("there is no go on this machine", "install it")
        return Toolkit(("program",), Path("/"), {}, (LeftOut(what="mysqlclient", why="no C library", hint="get one"),))

    monkeypatch.setattr(whole, "prepare", prepare)
    monkeypatch.setattr(whole, "ground_of", lambda _url, _shell: NoServer())
    monkeypatch.setattr(whole, "count_driver", lambda bench, driver, *_rest: bench.counted(counts(driver=driver.name)))
    monkeypatch.setattr(whole, "check_driver", lambda *_all, **_named: None)
    drivers = tuple(each for each in read_matrix().driver if each.name in ("pymysql", "mysqlclient", "go-sql-driver"))
    asked = Asked(drivers, server="mysql://root@h:1/base")
    saved: list[DriversResult] = []
    found = run_matrix(FakeShell(), Path("proxy"), asked, result(), say=lambda _line: None, save=saved.append)
    assert [each.driver for each in found.counted] == ["pymysql"]
    assert {each.what: each.why for each in found.left_out} == {
        "go-sql-driver": "there is no go on this machine",
        "mysqlclient": "no C library",
    }
    assert saved[-1] == found


@pytest.mark.parametrize("name", ["libmysqlclient", "pymysql"])
def test_what_an_earlier_run_has_is_not_run_again(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also of a driver that the system has in a version of its own."""
    (driver,) = (each for each in read_matrix().driver if each.name == name)
    of_driver = {"driver": name, "version": driver.version or "9.7.4", "server": SERVER}
    pairs = [(setting.name, operation) for setting in driver.setting for operation in driver.about(setting)]
    begun = result(
        counted=[counts(**of_driver, setting=setting, operation=operation) for setting, operation in pairs],
        checked=[Checked(**of_driver, check=check, ok=True) for check in driver.checks],
    )
    monkeypatch.setattr(whole, "prepare", lambda *_all: TOOLKIT)
    monkeypatch.setattr(whole, "ground_of", lambda _url, _shell: NoServer())
    monkeypatch.setattr(running, "captured", lambda *_all: pytest.fail("it runs again"))
    asked = Asked((driver,), server="mysql://root@h:1/base")
    assert run_matrix(FakeShell(), Path("proxy"), asked, begun, say=lambda _line: None, save=lambda _result: None) == begun


def test_nothing_that_can_be_run_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def prepare(_language: str, _shop: Any) -> Toolkit:
        raise MissingTool("there is no java on this machine", "install it")

    monkeypatch.setattr(whole, "prepare", prepare)
    monkeypatch.setattr(whole, "make_certificates", lambda *_all: None)
    asked = Asked(tuple(each for each in read_matrix().driver if each.name == "pgjdbc"))
    with pytest.raises(MissingTool, match="pgjdbc: there is no java") as raised:
        run_matrix(FakeShell(), Path("proxy"), asked, result(), say=lambda _line: None, save=lambda _result: None)
    assert raised.value.hint == "install it"


def test_a_row_has_a_units_share_and_names_what_failed() -> None:
    found = result(
        counted=(counts(), counts(operation="batch_insert", error="it broke"), counts(setting="bad one", kind="bad")),
        checked=(
            Checked(driver="pymysql", version="1", server=SERVER, check="connect", ok=True),
            Checked(driver="pymysql", version="1", server=SERVER, check="tls", ok=False, why="no TLS"),
        ),
    )
    first, second = lines(found, SERVER, "round_trips")
    assert first.cells == ("2.00", "", "", "failed", "", "", "")
    assert (second.setting, second.kind) == ("bad one", "bad")
    assert next(iter(lines(found, SERVER, "packets"))).cells[0] == "1.50"
    assert list(checks(found, SERVER)) == [("pymysql", "1 of 2 pass; tls fails: no TLS")]
    assert list(failures(found)) == [f"pymysql, default, batch_insert on {SERVER}: it broke"]


def test_the_table_fits_eighty_columns() -> None:
    matrix = read_matrix()
    every = tuple(
        counts(driver=driver.name, setting=setting.name, kind=setting.kind, operation=operation, units=1)
        for driver in matrix.driver
        for setting in driver.setting
        for operation in driver.about(setting)
    )
    left = LeftOut(what="MySQL", why="no MySQL is named " * 8, hint="--binary")
    printed = io.StringIO()
    show(result(counted=every, left_out=(left,)), "bytes", Console(file=printed, width=80))
    assert max(map(len, printed.getvalue().splitlines())) <= 80
    assert all(setting.name.split(",")[0][:12] in printed.getvalue() for driver in matrix.driver for setting in driver.setting)


def test_a_result_is_gone_on_with_and_what_failed_is_tried_again(tmp_path: Path) -> None:
    file = tmp_path / "result.json"
    store.save(result(counted=(counts(), counts(operation="fetch", error="it broke"))), file)
    assert [each.operation for each in store.begin(file).counted] == ["point_select"]
    assert store.begin(tmp_path / "other.json").counted == ()
    for other in (b"{}", b"PK\x03\x04\xff"):
        file.write_bytes(other)
        with pytest.raises(UsageError, match="is not a result of `upshift stack drivers`"):
            store.begin(file)
    for place in (tmp_path, tmp_path / "absent" / "result.json"):
        with pytest.raises(UsageError, match="can be no file"):
            store.begin(place)


def test_what_is_known_is_not_run_again(bench: Any) -> None:
    at, counted, _checked, shell = bench
    known = frozenset(
        (PYMYSQL.name, PYMYSQL.version, SERVER, setting.name, operation)
        for setting in PYMYSQL.setting
        for operation in PYMYSQL.about(setting)
    )
    running.count_driver(
        Bench(at.shell, at.proxy, at.folder, PEM, at.counted, at.checked, known), PYMYSQL, TOOLKIT, NoServer(), SERVER
    )
    assert counted == [] and shell.ran == []


@pytest.mark.parametrize("password", ["se:cret/", "se@cret", "se cret"])
def test_a_result_does_not_hold_the_servers_password(monkeypatch: pytest.MonkeyPatch, password: str) -> None:
    monkeypatch.setattr("sys.argv", ["upshift", "stack", "drivers", "--server", f"mysql://me:{password}@h:3306/d"])
    assert store.begin(None).command == "upshift stack drivers --server mysql://me:...@h:3306/d"


class Server:
    """Has tables, and refuses some statements."""

    url, protocol = "mysql://me@host:1/d", "mysql"

    def __init__(self, refuses: str) -> None:
        self.tables, self._refuses = {"upshift_drivers_item"}, refuses

    def answers(self) -> bool:
        return True

    def version(self) -> str:
        return "MySQL 9.7.4"

    def ask(self, statements: Any) -> str:
        for each in statements:
            verb, _, rest = each.partition(" TABLE ")
            name = rest.split()[0] if rest else ""
            if each.startswith(self._refuses) or (verb == "CREATE" and name in self.tables):
                raise ServerFailed(f"refused: {each}", "")
            self.tables ^= {name} if verb in ("CREATE", "DROP") else set()
        return ""


@pytest.mark.parametrize("refuses", ["no statement", "INSERT INTO"])
def test_tables_that_could_not_all_be_made_do_not_stay(refuses: str) -> None:
    """One of that name is the user's own; or the user may create tables and not fill them."""
    server = Server(refuses)
    if refuses == "INSERT INTO":
        server.tables.clear()
    before = set(server.tables)
    with pytest.raises(ServerFailed, match="refused"), tables(server):  # type: ignore[arg-type]
        raise AssertionError("not all tables are there")
    assert server.tables == before
