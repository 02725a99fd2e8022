"""PostgreSQL as a server of the laboratory: a server of several processes, counted exactly, paused as a whole, left without a
trace; and a study of it through the command line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import psycopg
import pytest

from upshift.errors import ServerFailed
from upshift.measure.kernel import usage
from upshift.paths import CHECKOUT
from upshift.process import descendants
from upshift.server.instance import RunningServer, running
from upshift.server.kind import Program
from upshift.server.postgres import KIND
from upshift.shell import Command, SystemShell
from upshift.study.result import StudyResult

SMALL = {"shared_buffers": "32MB"}
PROGRAM = KIND.packaged()
pytestmark = pytest.mark.skipif(PROGRAM is None, reason="needs PostgreSQL, Debian's postgresql")

LOAD = """
server = "postgres"
unit = "transaction"
[fill]
command = ["sh", "-c", "{tools}/pgbench -iq -h $(dirname {socket}) -U postgres {database}"]
[load]
command = [
  "sh", "-c",
  "exec {tools}/pgbench -n -T {seconds} -c {connections} --random-seed {seed} -h $(dirname {socket}) -U postgres $@ {database}",
  "sh",
]
"""
STUDY = """
workloads = ["pgbench.toml"]
connections = [2]
metric = "qps"
trials = 3
rounds = 1
slice_s = 0.2
lead_s = 0.1
warmup_s = 1
card_s = 0
confirm = 0
budget = "5m"
[base]
server = "postgres"
settings = { shared_buffers = "32MB" }
[factors.extended.each]
client = ["--protocol", "extended"]
"""


@pytest.fixture(scope="module")
def shell() -> Iterator[SystemShell]:
    made = SystemShell()
    yield made
    made.close()


@pytest.fixture(scope="module")
def data(shell: SystemShell, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty data folder, where the server's user may not look if root runs the tests."""
    folder = tmp_path_factory.mktemp("postgres")
    folder.chmod(0o700)
    shell.run(KIND.initialise(program(), folder / "data", {"wal_segment_size": "16MB"}), log=folder / "log", timeout_s=120)
    return folder / "data"


def program() -> Program:
    assert PROGRAM
    return Program(kind="postgres", binary=PROGRAM)


@pytest.fixture(scope="module")
def server(shell: SystemShell, data: Path) -> Iterator[RunningServer]:
    with running(shell, KIND, program(), data, log=data.with_name("log"), settings=SMALL) as started:
        KIND.prepare(started.socket)
        yield started


def client(server: RunningServer, *words: str) -> Command:
    return Command((str(server.tools / "pgbench"), "-h", str(server.socket.parent), "-U", "postgres", *words, KIND.database))


def test_statements_and_transactions_are_counted_when_they_end(shell: SystemShell, server: RunningServer) -> None:
    log = server.log
    shell.run(client(server, "-i", "-q"), log=log)
    begun = KIND.counters(server.socket)
    before = usage(server.pid)
    shell.run(client(server, "-n", "-t", "100", "-c", "3"), log=log)
    spent = usage(server.pid) - before
    done = KIND.counters(server.socket)
    assert done.transactions - begun.transactions == 300
    # BEGIN, five statements and COMMIT each; pgbench looks for its tables first.
    assert 0 <= done.queries - begun.queries - 7 * 300 <= 5
    # The three connections' processes have ended, and what they used counts: a transaction takes 50 us at least.
    assert spent.total_cpu_s > 0.015


def test_transactions_are_counted_though_their_commit_is_prepared(server: RunningServer) -> None:
    begun = KIND.counters(server.socket)
    where = f"host={server.socket.parent} user=postgres dbname={KIND.database}"
    with psycopg.connect(where, autocommit=True, prepare_threshold=0) as session:
        session.execute("CREATE TABLE ended (it INT)")
        for end in ("COMMIT", "COMMIT", "COMMIT", "ROLLBACK"):
            session.execute("BEGIN")
            session.execute("INSERT INTO ended VALUES (1)")
            session.execute(end)
        # It takes no id, and is missed.
        session.execute("BEGIN")
        session.execute("SELECT 1")
        session.execute("COMMIT")
        session.execute("DROP TABLE ended")
    done = KIND.counters(server.socket)
    # The two statements that make and drop the table are transactions that write, too.
    assert done.transactions - begun.transactions == 3 + 2


def test_variables_of_a_users_own_server_lead_nowhere(
    shell: SystemShell, server: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = {"PGHOSTADDR": "127.0.0.2", "PGOPTIONS": "-c nothing=1", "PGSERVICE": "production", "PGPORT": "1"}
    for name, value in (own | {"PGREQUIREAUTH": "scram-sha-256", "PGGSSENCMODE": "require"}).items():
        monkeypatch.setenv(name, value)
    assert KIND.ready(server.socket) and KIND.change(server.socket, "SELECT 1") is None
    shell.run(replace(client(server, "-i", "-q"), hidden=KIND.hidden_from_clients), log=server.log)


def test_more_different_statements_than_the_extension_keeps_by_default_are_counted(server: RunningServer) -> None:
    begun = KIND.counters(server.socket)
    # Constants count by their types alone.
    digits = str.maketrans({"0": "1,", "1": "true,"})
    sql = "".join(f"SELECT {f'{number:013b}'.translate(digits)} 1;" for number in range(6000))
    assert KIND.change(server.socket, sql) is None
    assert KIND.counters(server.socket).queries - begun.queries >= 6000


def test_checksums_are_left_out(shell: SystemShell, tmp_path: Path) -> None:
    made = KIND.initialise(program(), tmp_path / "data", {"data_checksums": "off"})
    assert "checksums are disabled" in shell.run(made, timeout_s=120).stdout


def _status(pid: int) -> str:
    try:
        return psutil.Process(pid).status()
    except psutil.NoSuchProcess:
        return "gone"


def test_a_paused_server_stands_still_with_all_its_processes(shell: SystemShell, server: RunningServer) -> None:
    processes = [server.pid, *descendants(server.pid)]
    assert len(processes) > 3
    server.pause()
    try:
        # One that waits for a CPU is stopped when it gets one, before it goes on.
        deadline = time.monotonic() + 20
        # A connection's process may have ended just before: a zombie until its parent goes on, or gone.
        still = {"stopped", "zombie", "gone"}
        while not (found := {_status(pid) for pid in processes}) <= still and time.monotonic() < deadline:
            time.sleep(0.02)
        assert found <= still and _status(server.pid) == "stopped"
    finally:
        server.resume()
    assert server.settle(20)
    assert KIND.counters(server.socket).queries > 0


def test_statements_of_a_users_own_are_executed_one_by_one(server: RunningServer) -> None:
    made = "CREATE TABLE own (a int); -- VACUUM; is refused in a transaction\nINSERT INTO own VALUES (1); VACUUM own;"
    assert KIND.change(server.socket, made) is None
    assert KIND.change(server.socket, "INSERT INTO own VALUES (2); SELECT nothing; DROP TABLE own") == (
        'column "nothing" does not exist (42703)'
    )
    assert KIND.change(server.socket, "SELECT a FROM own") is None


def test_a_server_that_is_dropped_leaves_no_process_and_no_shared_memory(
    shell: SystemShell, server: RunningServer, tmp_path: Path
) -> None:
    shell.run(KIND.initialise(program(), tmp_path / "data"), log=tmp_path / "log", timeout_s=120)
    with running(shell, KIND, program(), tmp_path / "data", log=tmp_path / "log", settings=SMALL, cleanly=False) as dropped:
        family = {dropped.pid, *descendants(dropped.pid)}
        segments = shared_memory_of(family)
        assert len(family) > 3 and segments
    assert not [pid for pid in family if psutil.pid_exists(pid)]
    assert not segments & {each.split()[1] for each in Path("/proc/sysvipc/shm").read_text().splitlines()[1:]}


def shared_memory_of(creators: set[int]) -> set[str]:
    """Identifiers of segments, by the process that made them."""
    rows = [each.split() for each in Path("/proc/sysvipc/shm").read_text().splitlines()[1:]]
    return {row[1] for row in rows if int(row[4]) in creators}


def test_a_setting_that_the_server_refuses_is_told_with_its_words(
    shell: SystemShell, server: RunningServer, data: Path
) -> None:
    log = data.with_name("refused")
    with (
        pytest.raises(ServerFailed, match=r'did not start .*\n(.*\n)*.*unrecognized configuration parameter "colour"'),
        running(shell, KIND, program(), data, log=log, settings={"colour": "red"}),
    ):
        raise AssertionError("it never ran")


def test_a_study_measures_postgres(tmp_path: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="upshift-") as cache:
        (tmp_path / "pgbench.toml").write_text(LOAD)
        (tmp_path / "mine.toml").write_text(STUDY)
        command = [sys.executable, "-m", "upshift", "study", str(tmp_path / "mine.toml"), "--json", "--no-install"]
        room = {"UPSHIFT_NEEDED_DISK_BYTES": "500000000", "UPSHIFT_NEEDED_MEMORY_BYTES": "500000000"}
        environment = {**os.environ, **room, "PYTHONPATH": str(CHECKOUT / "src"), "UPSHIFT_CACHE": cache}
        environment.pop("UPSHIFT_SERVER_KIND", None)
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, done.stderr
        result = StudyResult.model_validate(json.loads(done.stdout))
    assert [row.name for row in result.rows] == ["off", "extended"] and not any(row.died for row in result.rows)
    assert result.rows[0].change.server == "postgres" and result.settings["shared_buffers"] == "32MB"
    (cell,) = result.cells
    assert cell.row == "extended" and cell.value > 0
    assert result.instructions is not None and result.instructions.not_counted == (
        "a postgres is several processes, and instructions are counted of one",
    )
