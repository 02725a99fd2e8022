"""What Upshift knows of MySQL, without a MySQL."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import pymysql
import pytest
from fakes import FakeClock, toolchain

from upshift.errors import ServerFailed
from upshift.server import mysql, mysql_asking
from upshift.server.kind import Program
from upshift.server.mysql import KIND

SOURCE, TREE = Path("/src/mysql"), Path("/cache/tree")
PROGRAM = KIND.program(SOURCE, TREE, TREE / "runtime_output_directory" / "mysqld")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    (tmp_path / "sql").mkdir()
    (tmp_path / "sql" / "mysqld.cc").touch()
    (tmp_path / "MYSQL_VERSION").write_text(
        'MYSQL_VERSION_MAJOR=9\nMYSQL_VERSION_MINOR=7\nMYSQL_VERSION_PATCH=4\nMYSQL_VERSION_MATURITY="LTS"\n'
    )
    return tmp_path


def test_a_source_tree_is_recognised_by_its_version(source: Path) -> None:
    assert KIND.recognise(source) == "9.7.4"


@pytest.mark.parametrize("missing", ["MYSQL_VERSION", "sql/mysqld.cc"])
def test_a_tree_of_something_else_is_not(source: Path, missing: str) -> None:
    (source / missing).unlink()
    assert KIND.recognise(source) is None


def configured(**options: str) -> dict[str, str]:
    command = KIND.configure(
        SOURCE,
        TREE,
        toolchain(),
        build_type="Release",
        compile_flags=("-a", "-b"),
        link_flags=("-fuse-ld=lld",),
        options=options,
    )
    assert command.argv[:7] == ("cmake", "-G", "Ninja", "-S", str(SOURCE), "-B", str(TREE))
    return dict(part.removeprefix("-D").split("=", 1) for part in command.argv[7:])


def test_flags_reach_c_and_c_plus_plus() -> None:
    given = configured()
    assert (given["CMAKE_C_FLAGS"], given["CMAKE_CXX_FLAGS"], given["CMAKE_EXE_LINKER_FLAGS"]) == (
        "-a -b",
        "-a -b",
        "-fuse-ld=lld",
    )
    assert (given["CMAKE_CXX_COMPILER"], given["CMAKE_BUILD_TYPE"]) == ("/tools/clang++", "Release")


def test_a_recipes_options_win(source: Path) -> None:
    assert configured()["WITH_SSL"] == "system"
    assert configured(WITH_SSL="bundled")["WITH_SSL"] == "bundled"


def test_it_listens_on_a_socket_and_on_no_port() -> None:
    argv = KIND.start(PROGRAM, Path("/data"), Path("/run/s.sock"), {"innodb_buffer_pool_size": "2G"}).argv
    assert argv[:2] == (str(PROGRAM.binary), "--no-defaults")
    assert {"--socket=/run/s.sock", "--skip-networking", "--datadir=/data", "--innodb-buffer-pool-size=2G"} <= set(argv)
    assert not any("port" in part for part in argv)


def test_it_removes_no_temporary_tables_of_others() -> None:
    assert "--tmpdir=/run" in KIND.start(PROGRAM, Path("/data"), Path("/run/s.sock"), {}).argv
    assert "--tmpdir=/of/ours" in KIND.initialise(PROGRAM, Path("/of/ours/data")).argv


@pytest.mark.parametrize(("user", "told"), [(0, True), (1000, False)])
def test_root_is_named_only_where_it_runs_as_root(monkeypatch: pytest.MonkeyPatch, user: int, told: bool) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: user)
    assert ("--user=root" in KIND.initialise(PROGRAM, Path("/data")).argv) is told


def test_a_build_runs_from_where_it_lies() -> None:
    assert PROGRAM.options == (
        "--lc-messages-dir=/cache/tree/share",
        "--character-sets-dir=/src/mysql/share/charsets",
        "--plugin-dir=/cache/tree/plugin_output_directory",
    )
    assert Program.model_validate_json(PROGRAM.model_dump_json()) == PROGRAM


@pytest.mark.parametrize(
    ("given", "size_bytes"),
    [
        ({}, 128 * 2**20),
        ({"innodb_buffer_pool_size": "1G"}, 2**30),
        ({"innodb_buffer_pool_size": "512m"}, 2**29),
        ({"innodb_buffer_pool_size": "64K"}, 2**16),
        ({"innodb_buffer_pool_size": "5242880"}, 5242880),
        ({"innodb_buffer_pool_size": "lots"}, 0),
        ({"innodb_buffer_pool_size": "1G", "loose_innodb_buffer_pool_size": "64M"}, 2**26),
    ],
)
def test_the_pool(given: dict[str, str], size_bytes: int) -> None:
    assert KIND.pool_bytes(given) == size_bytes


@pytest.mark.parametrize(("given", "most"), [({}, 151), ({"max_connections": "2K"}, 2048), ({"max_connections": "many"}, None)])
def test_how_many_clients_a_configuration_lets_in(given: dict[str, str], most: int | None) -> None:
    """What is no number the server refuses in its own words."""
    assert KIND.most_connections(given) == most


def test_data_are_tables_without_logs(tmp_path: Path) -> None:
    for name, size in (("upshift/sbtest1.ibd", 100), ("#innodb_redo/redo1", 1000), ("undo_001", 1000), ("ibdata1", 1000)):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"x" * size)
    assert KIND.data_bytes(tmp_path) == 100


@pytest.mark.parametrize(
    ("first", "later", "quiet"),
    [
        ({}, {}, True),
        ({"trx_rseg_history_len": 4000}, {}, True),  # An idle InnoDB leaves up to 5,000.
        ({"Innodb_buffer_pool_pages_dirty": 16}, {}, True),
        ({"Innodb_buffer_pool_pages_dirty": 17}, {}, False),
        ({"trx_rseg_history_len": 90}, {"trx_rseg_history_len": 80}, False),
        *(({}, {name: 1}, False) for name in mysql_asking.BACKGROUND),
    ],
)
def test_quiet_is_no_flushing_no_purge_and_few_dirty_pages(
    monkeypatch: pytest.MonkeyPatch, first: dict[str, int], later: dict[str, int], quiet: bool
) -> None:
    state = {**dict.fromkeys(mysql_asking.BACKGROUND, 0), "trx_rseg_history_len": 0, **first}
    looks = iter((state, {**state, **later}))
    monkeypatch.setattr(mysql_asking, "background", lambda _socket: next(looks))
    monkeypatch.setattr("time.sleep", lambda _seconds: None)
    assert KIND.quiet(Path("/s")) is quiet


def test_a_server_that_is_not_there(tmp_path: Path) -> None:
    socket = tmp_path / "s.sock"
    assert not KIND.ready(socket)
    for ask in (KIND.counters, KIND.quiet, KIND.prepare):
        with pytest.raises(ServerFailed, match="no longer answers"):
            ask(socket)


def test_a_server_that_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def connect(**_given: object) -> object:
        raise pymysql.err.OperationalError(2013, "Lost connection to MySQL server during query (timed out)")

    monkeypatch.setattr(pymysql, "connect", connect)
    assert not KIND.ready(tmp_path)
    with pytest.raises(ServerFailed, match="timed out"):
        KIND.counters(tmp_path)


class CountingServer:
    """Stands in for a server and its connections: a login is two queries for it, and each SHOW is one, which that SHOW sees."""

    def __init__(self) -> None:
        self.questions = 1000

    def connect(self, **_given: object) -> CountingServer:
        self.questions += 2
        return self

    @contextlib.contextmanager
    def cursor(self) -> Iterator[CountingServer]:
        yield self

    def execute(self, _statement: str, _names: object) -> None:
        self.questions += 1

    def fetchall(self) -> list[tuple[str, str]]:
        return [(name, str(self.questions)) for name in ("Questions", "Com_commit", *mysql_asking._STATEMENTS)]

    def close(self) -> None:
        pass


def test_upshifts_own_look_at_the_counters_is_no_clients_query(monkeypatch: pytest.MonkeyPatch) -> None:
    servers = {"/one": CountingServer(), "/other": CountingServer()}
    monkeypatch.setattr(pymysql, "connect", lambda **given: servers[given["unix_socket"]].connect())
    kind, one, other = mysql.MySQL(), Path("/one"), Path("/other")
    looks = [kind.counters(one).queries, kind.counters(other).queries, kind.counters(one).queries]
    servers["/one"].questions += 50
    looks += [kind.counters(one).queries, kind.counters(other).queries]
    assert looks == [1002, 1002, 1002, 1052, 1002]
    kind.forget(one)
    again = [kind.counters(one).queries for _ in range(3)]
    assert len(set(again)) == 1 and again[0] >= 1052


def test_headers_for_precompiling_lie_in_the_source() -> None:
    headers = KIND.precompiled_headers()
    assert all(Path(header).parts[0] in {"sql", "storage", "include", "mysys"} for each in headers.values() for header in each)


def test_a_package_holds_the_server_its_clients_messages_and_licence(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    for name in (
        "runtime_output_directory/mysql",
        "runtime_output_directory/mysqltest",
        "share/german/errmsg.sys",
        "share/x/y",
    ):
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).touch()
    names = ("mysql_clone", "component_reference_cache", "component_test_x")
    (tree / "build.ninja").write_text("".join(f"build plugin_output_directory/{name}.so: LINKER a.o\n" for name in names))
    packaged = KIND.install(SOURCE, tree, Path("/out/mysqld"))
    assert packaged["bin/mysqld"] == Path("/out/mysqld") and packaged["LICENSE"] == SOURCE / "LICENSE"
    assert "bin/mysql" in packaged and "bin/mysqltest" not in packaged and "bin/mysqldump" not in packaged
    loaded = {f"lib/plugin/{name}.so": tree / "plugin_output_directory" / f"{name}.so" for name in names[:2]}
    assert {name: file for name, file in packaged.items() if name.startswith("lib/")} == loaded
    assert "share/german" in packaged and "share/x" not in packaged and "share/charsets" in packaged


def test_plugins_are_those_of_the_source_that_are_not_for_its_tests(tmp_path: Path) -> None:
    names = ("mysql_clone", "component_test_sensitive", "component_validate_password", "qa_auth_client", "auth", "auth_socket")
    lines = [f"build plugin_output_directory/{name}.so: CXX_MODULE_LIBRARY_LINKER__x_Release a.o" for name in names]
    (tmp_path / "build.ninja").write_text("\n".join([*lines, "build all: phony plugin_output_directory/mysql_clone.so"]))
    assert KIND.plugins(tmp_path) == tuple(
        f"plugin_output_directory/{name}.so" for name in ("auth_socket", "component_validate_password", "mysql_clone")
    )


class Asked:
    """Stands in for a connection: remembers the statements, and finds no transaction before the ``waits``-th look."""

    def __init__(self, waits: int) -> None:
        self.statements: list[str] = []
        self._waits = waits

    @contextlib.contextmanager
    def __call__(self, _socket: Path) -> Iterator[Asked]:
        yield self

    def execute(self, statement: str) -> None:
        self.statements.append(statement)

    def fetchall(self) -> tuple[tuple[int], ...]:
        self._waits -= 1
        return ((int(self._waits < 0),),)


def test_purge_waits_from_when_the_event_has_its_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Asked(waits=3)
    monkeypatch.setattr(mysql_asking, "asked", asked)
    monkeypatch.setattr(mysql, "time", FakeClock())
    KIND.leave_undisturbed(Path("/s.sock"))
    assert asked.statements[0].startswith("CREATE EVENT upshift.upshift_still") and len(asked.statements) == 5


def test_an_event_that_never_starts_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mysql_asking, "asked", Asked(waits=10_000))
    monkeypatch.setattr(mysql, "time", FakeClock())
    with pytest.raises(ServerFailed, match="the event that holds purge back did not start"):
        KIND.leave_undisturbed(Path("/s.sock"))


def test_a_server_to_be_counted_starts_with_settings_that_it_knows_alone() -> None:
    settings = KIND.repeatable().settings
    assert not settings.keys() & {*KIND.lasting, *KIND.settings()}, "data that were filled fit, and the size of the pool stays"


def test_copies_have_no_spare_redo_log_files(tmp_path: Path) -> None:
    """InnoDB names a file in use #ib_redo7, and a spare one #ib_redo8_tmp."""
    redo = tmp_path / "#innodb_redo"
    redo.mkdir()
    for name in ("#ib_redo7", "#ib_redo8_tmp", "#ib_redo9_tmp", "other_tmp"):
        (redo / name).touch()
    KIND.trim(tmp_path)
    assert {file.name for file in redo.iterdir()} == {"#ib_redo7", "other_tmp"}


def test_a_data_folder_of_a_server_without_spare_files_is_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "ib_logfile0").touch()
    KIND.trim(tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["ib_logfile0"]
