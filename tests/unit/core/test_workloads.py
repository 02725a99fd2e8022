"""Workload files, the commands in them, and what a driver reports."""

from __future__ import annotations

import re
import shutil
import tomllib
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from fakes import FakeClock, FakeKind, FakeProcess, FakeShell, Output

from upshift.errors import LoadFailed, ServerFailed, WorkloadError
from upshift.paths import shipped
from upshift.server.instance import RunningServer
from upshift.server.kind import Program
from upshift.server.mysql import MySQL
from upshift.server.postgres import PostgreSQL
from upshift.shell import SystemShell
from upshift.workload import driver
from upshift.workload.driver import begin_load, fill, run_fixed, run_load
from upshift.workload.library import find_workload, read_workload, shipped_workloads
from upshift.workload.model import FixedCommand, Workload
from upshift.workload.reports import LoadReport, read_json, read_sysbench, read_upshift_load

GOOD = 'fill = { command = ["fill"] }\nload = { command = ["load"] }\n'


def workload(
    load: tuple[str, ...] = ("load", "{socket}", "{connections}", "{seconds}", "{seed}"), latency: str = "none"
) -> Workload:
    return Workload.model_validate(
        {"name": "w", "fill": {"command": ("fill", "{database}", "{tools}")}, "load": {"command": load, "latency": latency}}
    )


class Bench:
    """A server that runs, in name, and the process of its load."""

    def __init__(self, folder: Path, load: FakeProcess, queries: Iterator[int] | None = None) -> None:
        self.kind = FakeKind(queries=queries or iter(()))
        self.shell = FakeShell(processes=iter([load]))
        self.process = FakeProcess()
        self.log = folder / "log"
        program = Program(kind="fake", binary=Path("/srv/bin/server"))
        self.server = RunningServer(self.kind, program, self.process, Path("/run/s.sock"), folder / "server.log")

    def run(self, made: Workload, seconds: float = 2.0) -> tuple[LoadReport, int]:
        return run_load(self.shell, self.kind, made, self.server, seconds=seconds, cpus=(1,), log=self.log)


def ended(code: int = 0) -> FakeProcess:
    return FakeProcess(code=code)


def test_every_shipped_workload_reads_and_says_what_it_is() -> None:
    found = shipped_workloads()
    assert len(found) >= 10
    assert [each.name for each in found if not each.description or each.load.latency not in ("sysbench", "upshift-load")] == []


def test_every_shipped_workloads_placeholders_are_known(tmp_path: Path) -> None:
    bench = Bench(tmp_path, ended())
    for each in shipped_workloads():
        fill(bench.shell, bench.kind, each, bench.server, bench.log)
        begin_load(bench.shell, bench.kind, each, bench.server, connections=1, seconds=1, seed=1, cpus=(), log=bench.log)
    assert not any("{" in part for command in (*bench.shell.ran, *bench.shell.spawned) for part in command.argv)


def test_what_others_write_into_the_log_is_not_the_loads(tmp_path: Path) -> None:
    bench = Bench(tmp_path, ended())
    made = workload(latency="json")
    load = begin_load(bench.shell, bench.kind, made, bench.server, connections=1, seconds=1, seed=1, cpus=(), log=bench.log)
    load.own_log.write_text('{"latency_ms_p99": 2.5}\n')
    bench.log.write_text("[ perf record: Captured and wrote 1.2 MB ]\n")
    assert load.finish().latency_ms_p99 == 2.5
    assert bench.log.read_text().splitlines() == ["[ perf record: Captured and wrote 1.2 MB ]", '{"latency_ms_p99": 2.5}']
    assert [file.name for file in tmp_path.iterdir()] == ["log"]


@pytest.mark.parametrize("name", ["nothing", "nothing.toml", ""])
def test_no_such_workload(name: str) -> None:
    with pytest.raises(WorkloadError, match="there is no workload") as caught:
        find_workload(name)
    assert "upshift workloads" in caught.value.hint


def test_a_file_of_ones_own_needs_its_ending(tmp_path: Path) -> None:
    shutil.copy(shipped("workloads") / "oltp_read_only.toml", tmp_path / "mine.toml")
    with pytest.raises(WorkloadError, match="there is no workload"):
        find_workload(str(tmp_path / "mine"))


def test_a_workload_of_ones_own(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(GOOD)
    assert find_workload(str(file)).name == "mine"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("fill = [", "is not TOML"),
        ("", "fill: this key is missing; load: this key is missing"),
        (GOOD + "thraeds = 4", "thraeds: there is no such key"),
        (GOOD + 'connections = "many"', "connections: "),
        (GOOD + "connections = 0", "connections: "),
        (GOOD + "weight = 0", "weight: "),
        (GOOD + "weight = -1.0", "weight: "),
        (GOOD + "weight = inf", "weight: inf is not a finite number"),
        *(
            (f"name = '{name}'\n" + GOOD, "name: '")
            for name in ("", "a/b", "../up", ".hidden", "50%", "two\tcolumns", "x" * 101)
        ),
        (GOOD + "settings = { pool = 1 }", "settings.pool: "),
        ('fill = { command = "fill" }\nload = { command = ["load"] }', "fill.command: "),
        ('fill = { command = [] }\nload = { command = ["load"] }', "fill.command: "),
        ('fill = { command = ["fill"] }\nload = { command = ["load"], latency = "guess" }', "load.latency: "),
        ('fill = { command = ["fill"] }\nload = { command = ["load", "{password}"] }', "placeholder"),
        ('fill = { command = ["fill", "{0}"] }\nload = { command = ["load"] }', "placeholder"),
    ],
)
def test_a_malformed_file_is_refused_with_its_name_and_the_key(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(text)
    with pytest.raises(WorkloadError) as caught:
        read_workload(file)
    assert said in caught.value.message and str(file) in caught.value.message
    assert caught.value.hint


def test_a_file_in_another_encoding_is_told(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_bytes(b'description = "caf\xe9"\n' + GOOD.encode())
    with pytest.raises(WorkloadError, match=r"mine\.toml is not UTF-8"):
        find_workload(str(file))


@pytest.mark.parametrize(
    "part", ["{", "}", "{}", "{0}", "{sockets}", "{socket.name}", "{socket[a]}", "{socket:d}", "{socket!x}"]
)
def test_a_placeholder_that_cannot_be_filled_is_refused_before_any_work(part: str) -> None:
    with pytest.raises(ValueError, match="placeholder"):
        workload(("load", part))


def test_braces_of_the_command_itself_are_doubled(tmp_path: Path) -> None:
    bench = Bench(tmp_path, ended(), iter((0, 100)))
    bench.run(workload(("awk", "{{print $1}}", "--socket={socket}")))
    assert bench.shell.spawned[0].argv == ("awk", "{print $1}", "--socket=/run/s.sock")


def test_placeholders_of_a_load(tmp_path: Path) -> None:
    bench = Bench(tmp_path, ended(), iter((0, 100)))
    bench.run(workload(), seconds=2.1)
    assert bench.shell.spawned[0].argv == ("load", "/run/s.sock", "8", "3", "1")
    assert bench.shell.spawned[0].cpus == (1,)


def test_placeholders_of_a_fill(tmp_path: Path) -> None:
    bench = Bench(tmp_path, ended())
    fill(bench.shell, bench.kind, workload(), bench.server, bench.log)
    assert bench.shell.ran[0].argv == ("fill", "db", "/srv/bin")


def test_no_client_of_postgres_gets_the_variables_of_its_library(tmp_path: Path) -> None:
    """A client without a port of its own would go to ``PGPORT``."""
    bench = Bench(tmp_path, ended(), iter((0, 100)))
    bench.kind.hidden_from_clients = PostgreSQL().hidden_from_clients
    fill(bench.shell, bench.kind, workload(), bench.server, bench.log)
    bench.run(workload())
    clients = bench.shell.ran + bench.shell.spawned
    assert len(clients) > 1 and {each.hidden for each in clients} == {"PG"}


def test_no_client_gets_the_password_of_the_server_in_use(tmp_path: Path) -> None:
    """Who checks or traces it with MYSQL_PWD has that in the environment; a server that Upshift starts would refuse it."""
    assert MySQL().client_environment == {"MYSQL_PWD": ""}
    bench = Bench(tmp_path, ended(), iter((0, 100)))
    bench.kind.client_environment = MySQL().client_environment
    counted = FixedCommand(command=("load", "{transactions}"), transactions=10)
    fill(bench.shell, bench.kind, workload(), bench.server, bench.log)
    bench.run(workload())
    run_fixed(
        *(bench.shell, bench.kind, workload().model_copy(update={"fixed": counted}), bench.server),
        transactions=10,
        cpus=(1,),
        log=bench.log,
        timeout_s=9,
    )
    assert [each.env for each in (*bench.shell.ran, *bench.shell.spawned)] == [{"MYSQL_PWD": ""}] * 3


def test_a_fill_that_fails(tmp_path: Path) -> None:
    bench = Bench(tmp_path, ended())
    bench.shell.outputs["fill"] = Output("table exists", 1)
    with pytest.raises(LoadFailed, match="filling the database for workload 'w' failed"):
        fill(bench.shell, bench.kind, workload(), bench.server, bench.log)


def test_a_fill_that_kills_the_server_is_the_servers_failure(tmp_path: Path) -> None:
    bench = Bench(tmp_path, ended())
    bench.shell.outputs["fill"] = Output("lost connection", 1)
    bench.process.code = -11
    with pytest.raises(ServerFailed, match="SIGSEGV"):
        fill(bench.shell, bench.kind, workload(), bench.server, bench.log)


def test_queries_are_what_the_server_counted_meanwhile(tmp_path: Path) -> None:
    assert Bench(tmp_path, ended(), iter((500, 12_500))).run(workload())[1] == 12_000


def test_a_load_that_fails_shows_its_output(tmp_path: Path) -> None:
    bench = Bench(tmp_path, FakeProcess(polls_before_end=1, code_at_end=1), iter((0, 100)))
    bench.log.write_text("from before\n")
    with pytest.raises(LoadFailed, match="of workload 'w' failed with exit code 1") as caught:
        bench.run(workload())
    assert "from before" not in caught.value.message
    assert str(bench.log) in caught.value.hint


@pytest.mark.parametrize("counted", [0, 9])
def test_a_load_that_leaves_the_server_idle(tmp_path: Path, counted: int) -> None:
    with pytest.raises(LoadFailed, match=f"left the server idle: it counted {counted} queries") as caught:
        Bench(tmp_path, ended(), iter((100, 100 + counted))).run(workload())
    assert "{socket}" in caught.value.hint


def test_a_load_that_hangs_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "time", FakeClock())
    hanging = FakeProcess(ends_with=None)
    with pytest.raises(LoadFailed, match="did not end by itself"):
        Bench(tmp_path, hanging, iter((0, 100))).run(workload())
    assert hanging.signals == [9]


def test_a_load_that_hangs_is_killed_with_the_driver_that_it_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would go on beside what is measured later."""
    monkeypatch.setattr(driver, "OVERTIME_S", 0.0)
    shell, bench = SystemShell(), Bench(tmp_path, ended())
    made = workload(("sh", "-c", f"sleep 600 & echo $! > {tmp_path}/pid; wait"))
    load = begin_load(shell, bench.kind, made, bench.server, connections=1, seconds=1, seed=1, cpus=(), log=bench.log)
    try:
        with pytest.raises(LoadFailed, match="did not end by itself"):
            load.finish()
        pid = int((tmp_path / "pid").read_text())
        assert not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    finally:
        shell.close()


def test_a_server_that_dies_under_load_is_not_the_loads_failure(tmp_path: Path) -> None:
    bench = Bench(tmp_path, ended(1), iter((0, 100)))
    bench.process.polls_before_end, bench.process.code_at_end = 1, -6
    with pytest.raises(ServerFailed, match="SIGABRT"):
        bench.run(workload())


def test_a_server_that_died_without_the_load_noticing(tmp_path: Path) -> None:
    bench = Bench(tmp_path, ended(), iter((0, 100)))
    bench.process.polls_before_end, bench.process.code_at_end = 1, 1
    with pytest.raises(ServerFailed, match="exit code 1"):
        bench.run(workload())


SYSBENCH = """sysbench 1.0.20
Latency histogram (values are in milliseconds)
       value  ------------- distribution ------------- count
       0.069 |*                                        50
       0.070 |****************************************  900
       0.115 |                                         45
      12.500 |                                         5

SQL statistics:
    ignored errors:                      7      (0.35 per sec.)
"""


def test_sysbenchs_percentiles_come_from_its_histogram() -> None:
    report = read_sysbench(SYSBENCH)
    assert (report.latency_ms_p50, report.latency_ms_p95, report.latency_ms_p99) == (0.070, 0.070, 0.115)
    assert report.errors == 7


def test_what_waited_while_sysbench_was_paused_has_no_latency() -> None:
    report = read_sysbench(SYSBENCH, 5)
    assert (report.latency_ms_p50, report.latency_ms_p99) == (0.070, 0.115)
    report = read_sysbench(SYSBENCH, 5 + 45)
    assert report.latency_ms_p99 == 0.070
    assert read_sysbench(SYSBENCH, 999).latency_ms_p99 == 0.069
    for paused in (1000, 2000):
        all_waited = read_sysbench(SYSBENCH, paused)
        assert (all_waited.latency_ms_p50, all_waited.latency_ms_p95, all_waited.latency_ms_p99) == (None, None, None)
        assert all_waited.errors == 7


def test_sysbench_without_a_histogram() -> None:
    with pytest.raises(LoadFailed, match="no latency histogram") as caught:
        read_sysbench("SQL statistics:\n    transactions: 12\n")
    assert "--histogram=on" in caught.value.hint


UPSHIFT_LOAD = """upshift-load: 8 connections
{
  "schema_version": 3,
  "latency_us_p50": 812.5,
  "latency_us_p90": 1500.0,
  "latency_us_p99": 4250.0,
  "errors": {"1213": {"count": 3, "message": "Deadlock found"}, "disconnect": {"count": 1}}
}
"""


def test_what_waited_while_upshift_load_was_paused_has_no_latency() -> None:
    counted = '{\n"errors": {}, "latency_us_histogram": [[70, 980], [115, 15], [900000, 5]], "latency_us_p50": 70}'
    report = read_upshift_load(counted, 5)
    assert (report.latency_ms_p50, report.latency_ms_p95, report.latency_ms_p99) == (0.07, 0.07, 0.115)
    assert read_upshift_load(counted).latency_ms_p99 == 0.115
    assert read_upshift_load(counted, 20).latency_ms_p99 == 0.07
    assert read_upshift_load(counted, 1000).latency_ms_p99 is None


def test_upshift_loads_result_is_read() -> None:
    report = read_upshift_load(UPSHIFT_LOAD)
    assert (report.latency_ms_p50, report.latency_ms_p95, report.latency_ms_p99, report.errors) == (0.8125, None, 4.25, 4)


def test_a_warning_behind_upshift_loads_result_is_no_part_of_it() -> None:
    warning = "WARNING: 3 transactions were due and did not begin: {\n"
    assert read_upshift_load(UPSHIFT_LOAD + warning) == read_upshift_load(UPSHIFT_LOAD)


@pytest.mark.parametrize(
    "output",
    [
        "",
        "tpmC 120",
        "{",
        "[]",
        '{\n"latency_us_p50": null, "latency_us_p99": 1, "errors": {}}',
        '{\n"latency_us_p50": 1, "errors": {}}',
    ],
)
def test_an_upshift_load_that_did_not_print_json(output: str) -> None:
    with pytest.raises(LoadFailed, match="did not print") as caught:
        read_upshift_load(output)
    assert "--json" in caught.value.hint


def test_the_programs_that_a_workload_needs_are_named_in_its_commands() -> None:
    assert find_workload("tpcc").needs_programs
    assert not find_workload("oltp_read_only").needs_programs


def test_a_report_in_json_is_the_last_line() -> None:
    report = read_json('starting\n{"latency_ms_p99": 3.5, "errors": 2}\n\n')
    assert (report.latency_ms_p50, report.latency_ms_p99, report.errors) == (None, 3.5, 2)


@pytest.mark.parametrize(
    "output",
    [
        *("", "\n", "done", "[1]", "3", "null"),
        *('{"errors": "many"}', '{"errors": null}', '{"errors": Infinity}', '{"latency_ms_p50": "fast"}'),
    ],
)
def test_a_report_that_is_not_the_promised_json(output: str) -> None:
    with pytest.raises(LoadFailed, match="is not a JSON object"):
        read_json(output)


@pytest.mark.parametrize("value", ["Infinity", "NaN", "null"])
def test_a_latency_that_is_no_number_is_none(value: str) -> None:
    """A driver's mean of nothing, as Python writes it: no ratio can be made of it."""
    report = read_json(f'{{"latency_ms_p99": {value}, "latency_ms_p50": 2}}')
    assert (report.latency_ms_p50, report.latency_ms_p99) == (2.0, None)


def test_the_reader_follows_the_file(tmp_path: Path) -> None:
    bench = Bench(tmp_path, ended(), iter((0, 100)))
    with pytest.raises(LoadFailed, match="no latency histogram"):
        bench.run(workload(latency="sysbench"))


def test_the_shipped_files_use_no_network() -> None:
    text = "".join(each.load.model_dump_json() for each in shipped_workloads())
    assert "mysql-host" not in text and "mysql-port" not in text


def test_the_document_shows_a_workload_that_reads() -> None:
    document = (Path(__file__).parents[3] / "docs" / "reference" / "workloads.md").read_text()
    example = document.split("```toml\n")[1].split("```")[0]
    assert Workload.model_validate({"name": "x", **tomllib.loads(example)}).settings


def test_every_shipped_workload_can_be_counted() -> None:
    for each in shipped_workloads():
        assert each.fixed is not None and "--time={seconds}" not in each.fixed.command, each.name


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["load", "--events=9"], "no word of it has {transactions}"),
        (["load", "{transactions}", "{when}"], "unknown placeholder; there are {url}, {socket}"),
        ([], "1 or more are needed"),
    ],
)
def test_a_fixed_command_must_end_after_so_many_transactions(tmp_path: Path, command: list[str], said: str) -> None:
    file = tmp_path / "mine.toml"
    text = f'fill.command = ["f"]\nload.command = ["l"]\n[fixed]\ncommand = {command}\n'
    file.write_text(text)
    with pytest.raises(WorkloadError, match=re.escape(said)):
        find_workload(str(file))


def test_other_commands_do_not_know_the_number_of_transactions(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('fill.command = ["f"]\nload.command = ["l", "{transactions}"]\n')
    with pytest.raises(WorkloadError, match=r"load\.command: '\{transactions\}' has an unknown placeholder"):
        find_workload(str(file))
