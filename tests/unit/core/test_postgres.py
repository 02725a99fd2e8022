"""What Upshift knows of PostgreSQL, without a PostgreSQL."""

from __future__ import annotations

import os
import pwd
import signal
from pathlib import Path
from types import SimpleNamespace

import psycopg
import pytest

from upshift.errors import MissingTool, ServerFailed, UsageError
from upshift.process import hidden_names
from upshift.server import kinds, postgres
from upshift.server.kind import Program, refuse_reserved
from upshift.server.postgres import KIND
from upshift.server.postgres_change import statements

DATA, SOCKET = Path("/trial/data"), Path("/tmp/upshift-x/.s.PGSQL.5432")


@pytest.fixture
def program(tmp_path: Path) -> Program:
    for name in ("postgres", "initdb"):
        (tmp_path / name).touch(mode=0o755)
    return Program(kind="postgres", binary=tmp_path / "postgres")


@pytest.fixture
def nobody_special(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)


@pytest.fixture
def root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(pwd, "getpwnam", lambda _name: SimpleNamespace(pw_gid=104))


def options(argv: tuple[str, ...]) -> dict[str, str]:
    given = dict(argv[at + 1].split("=", 1) for at, word in enumerate(argv) if word == "-c")
    assert len(given) == argv.count("-c")
    return given


@pytest.mark.usefixtures("nobody_special")
def test_a_server_listens_on_its_socket_alone_and_counts_statements(program: Program) -> None:
    command = KIND.start(program, DATA, SOCKET, {"work_mem": "8MB"})
    assert command.argv[:3] == (str(program.binary), "-D", str(DATA))
    assert options(command.argv) == {
        "work_mem": "8MB",
        "shared_preload_libraries": "pg_stat_statements",
        "pg_stat_statements.save": "off",
        "listen_addresses": "",
        "port": "5432",
        "unix_socket_directories": str(SOCKET.parent),
    }
    # Fast, immediate: at SIGTERM it would wait for its clients, and killed it would leave shared memory.
    assert (command.stop_signal, command.drop_signal) == (signal.SIGINT, signal.SIGQUIT)
    assert SOCKET.name == KIND.socket_name and KIND.url(SOCKET).endswith(f"/upshift?socket={SOCKET}")


@pytest.mark.usefixtures("nobody_special")
def test_libraries_of_a_user_s_own_are_preloaded_beside_the_counting_one(program: Program) -> None:
    command = KIND.start(program, DATA, SOCKET, {"shared_preload_libraries": "auto_explain"})
    assert options(command.argv)["shared_preload_libraries"] == "pg_stat_statements,auto_explain"


@pytest.mark.parametrize("name", ["track", "track_utility", "max", "save"])
def test_no_variant_changes_what_is_counted(name: str) -> None:
    with pytest.raises(UsageError, match=rf"a sets PG_stat_statements\.{name}: .* counts its work"):
        refuse_reserved(KIND, "a", {f"PG_stat_statements.{name}": "none"})


def test_what_is_counted_does_not_hang_on_defaults() -> None:
    names = ("track", "track_utility", "max")
    assert [KIND.settings()[f"pg_stat_statements.{name}"] for name in names] == ["top", "on", "100000"]
    with pytest.raises(UsageError):
        refuse_reserved(KIND, "a", {"compute_query_id": "off"})


@pytest.mark.usefixtures("nobody_special")
@pytest.mark.parametrize("known", [True, False])
def test_checksums_are_left_out_where_initdb_knows_no_such_option(program: Program, known: bool) -> None:
    """Before PostgreSQL 18."""
    options = b"data-checksums\0" + (b"no-data-checksums\0" if known else b"")
    program.binary.with_name("initdb").write_bytes(b"\x7fELF" + options)
    off = KIND.initialise(program, DATA, {"data_checksums": "off"}).argv
    assert ("--no-data-checksums" in off) is known
    assert "--data-checksums" not in off and "--data-checksums" in KIND.initialise(program, DATA, {"data_checksums": "on"}).argv


@pytest.mark.usefixtures("nobody_special")
def test_what_initdb_decides_is_no_setting_of_the_server(program: Program) -> None:
    shaping = {"wal_segment_size": "64MB", "data_checksums": "on"}
    made = KIND.initialise(program, DATA, {**shaping, "work_mem": "8MB"}).argv
    assert made[0] == str(program.binary.with_name("initdb")) and made[-1] == str(DATA)
    assert {"--wal-segsize=64", "--data-checksums"} <= set(made) and "--no-data-checksums" not in made
    assert not shaping.keys() & options(KIND.start(program, DATA, SOCKET, shaping).argv).keys()
    assert set(shaping) == set(KIND.lasting)


@pytest.mark.usefixtures("root")
def test_root_s_server_runs_as_its_package_s_user_and_ends_with_upshift(program: Program) -> None:
    for command in (KIND.start(program, DATA, SOCKET, {}), KIND.initialise(program, DATA)):
        words = command.argv[: command.argv.index("--pdeathsig=QUIT") + 1]
        assert words[:4] == ("setpriv", "--reuid=postgres", "--regid=104", "--init-groups")
        # Caches lie below root's home, where that user may not look.
        assert "--ambient-caps=+dac_override" in words


@pytest.mark.usefixtures("root")
def test_root_without_that_user_is_told(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody(name: str) -> None:
        raise KeyError(name)

    monkeypatch.setattr(pwd, "getpwnam", nobody)
    with pytest.raises(MissingTool, match="refuses to run as root") as error:
        KIND.start(program, DATA, SOCKET, {})
    assert "package" in error.value.hint


def test_a_server_without_initdb_is_told(tmp_path: Path) -> None:
    with pytest.raises(MissingTool, match="no initdb beside"):
        KIND.initialise(Program(kind="postgres", binary=tmp_path / "postgres"), DATA)


@pytest.mark.parametrize(
    ("value", "size_bytes"), [("1GB", 2**30), ("128 MB", 2**27), ("16384", 2**27), ("8kB", 8192), ("much", 0)]
)
def test_the_pool_is_read_as_the_server_reads_it(value: str, size_bytes: int) -> None:
    assert KIND.pool_bytes({"shared_buffers": value}) == size_bytes


def test_one_connection_is_upshift_s_own() -> None:
    assert KIND.most_connections(KIND.settings()) == 1099 and KIND.most_connections({}) == 99
    assert KIND.most_connections({"max_connections": "many"}) is None, "the server says that this is no number"


def test_the_newest_package_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres, "_PACKAGES", tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    assert KIND.packaged() is None
    with pytest.raises(MissingTool, match="no package of postgres is installed") as error:
        kinds.find_program(None, "postgres")
    assert "binary" in error.value.hint
    for version in ("9.6", "15", "8.4", "old"):
        (tmp_path / version / "bin").mkdir(parents=True)
        (tmp_path / version / "bin" / "postgres").touch(mode=0o755)
    assert KIND.packaged() == tmp_path / "15" / "bin" / "postgres"
    assert kinds.find_program(None, "postgres") == Program(kind="postgres", binary=tmp_path / "15" / "bin" / "postgres")


@pytest.mark.parametrize(
    ("binary", "server", "kind"),
    [
        ("/x/postgres", None, "postgres"),
        ("/x/mysqld", None, "mysql"),
        ("/x/mine", None, "mysql"),
        ("/x/mine", "postgres", "postgres"),
    ],
)
def test_an_executable_s_kind_is_found_by_its_name_or_said(binary: str, server: str | None, kind: str) -> None:
    assert kinds.find_program(Path(binary), server).kind == kind


def test_an_unknown_kind_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(UsageError, match="no kind of server 'oracle'") as error:
        kinds.find_program(None, "oracle")
    assert "mysql, postgres" in error.value.hint


def test_a_server_that_is_not_there_is_not_ready_and_a_failure_to_ask(tmp_path: Path) -> None:
    socket = tmp_path / KIND.socket_name
    assert not KIND.ready(socket)
    with pytest.raises(ServerFailed):
        KIND.counters(socket)
    with pytest.raises(ServerFailed):
        KIND.change(socket, "SELECT 1")
    KIND.forget(socket)


def test_no_connection_follows_variables_of_the_user_s_own_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """``PGHOSTADDR`` would go before the socket: the database would be created there."""
    monkeypatch.setenv("PGHOSTADDR", "192.0.2.1")
    monkeypatch.setenv("PGSERVICE", "production")
    seen: list[tuple[str, ...]] = []

    def connect(**_given: object) -> None:
        seen.append(hidden_names("PG"))
        raise psycopg.OperationalError

    monkeypatch.setattr(psycopg, "connect", connect)
    assert not KIND.ready(tmp_path / KIND.socket_name)
    assert seen == [()] and os.environ["PGHOSTADDR"] == "192.0.2.1"


def test_a_connection_to_a_server_that_hangs_is_cut() -> None:
    import socket as sockets

    ours, theirs = sockets.socketpair()
    with ours, theirs:
        connection: psycopg.Connection = SimpleNamespace(fileno=ours.fileno)  # type: ignore[assignment]
        with postgres._cut_after(connection, 0.05):
            ours.settimeout(10)
            assert ours.recv(1) == b""  # its end, long before ten seconds
        with postgres._cut_after(connection, 60):
            pass


ATOMIC = "CREATE FUNCTION f() RETURNS int Begin Atomic SELECT 1; SELECT CASE WHEN true THEN 2 END; END"


@pytest.mark.parametrize(
    ("sql", "found"),
    [
        ("", []),
        (" -- nothing\n/* nothing; */ ;; ", []),
        ("VACUUM t; ANALYZE t", ["VACUUM t", "ANALYZE t"]),
        ("SELECT 'a;''b';SELECT E'\\';' ; ", ["SELECT 'a;''b'", "SELECT E'\\';'"]),
        ('SELECT 1 AS "x;y"; -- end; of it\nSELECT 2;', ['SELECT 1 AS "x;y"', "-- end; of it\nSELECT 2"]),
        ("DO $$ BEGIN; END $$; SELECT $tag$ ; $$ ; $tag$;", ["DO $$ BEGIN; END $$", "SELECT $tag$ ; $$ ; $tag$"]),
        ("/* a */ SELECT 1 /* b */;", ["/* a */ SELECT 1 /* b */"]),
        ("SELECT a LIKE'x\\';SELECT 2", ["SELECT a LIKE'x\\'", "SELECT 2"]),
        ("SELECT $1; SELECT $2", ["SELECT $1", "SELECT $2"]),
        ("SELECT 1 -- one;\r; SELECT 2; -- end\r", ["SELECT 1 -- one;", "SELECT 2"]),
        ("/* a /* b; */ ; c */ SELECT 1; /* /* */ ;", ["/* a /* b; */ ; c */ SELECT 1", "/* /* */"]),
        ("BEGIN; SELECT 1; END; SELECT CASE WHEN a THEN 1 END", ["BEGIN", "SELECT 1", "END", "SELECT CASE WHEN a THEN 1 END"]),
        (f"{ATOMIC}; SELECT 3", [ATOMIC, "SELECT 3"]),
    ],
)
def test_statements_are_told_from_each_other(sql: str, found: list[str]) -> None:
    assert list(statements(sql)) == found
