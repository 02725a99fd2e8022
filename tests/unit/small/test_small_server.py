"""The tests' own small server: built with a real clang, started, loaded, and made to misbehave."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from upshift.build.model import Build
from upshift.build.recipe import find_recipe
from upshift.build.whole import build_whole
from upshift.errors import LoadFailed, ServerFailed, UpshiftError
from upshift.paths import CHECKOUT
from upshift.run.record import StageRecord
from upshift.server import instance
from upshift.server.data import copy, template
from upshift.server.instance import RunningServer, running
from upshift.server.kind import Program, SourceKind
from upshift.server.kinds import default_kind
from upshift.shell import SystemShell
from upshift.source.model import Source
from upshift.toolchain.find import find
from upshift.workbench import Workbench
from upshift.workload import driver
from upshift.workload.driver import run_load
from upshift.workload.library import find_workload
from upshift.workload.model import Workload

SMALL = CHECKOUT / "tests" / "small_server"


class Silent:
    """Progress that nobody watches."""

    def stage_started(self, name: str) -> None: ...
    def update(self, done: float, total: float, detail: str = "") -> None: ...
    def note(self, text: str) -> None: ...
    def stage_ended(self, record: StageRecord) -> None: ...


def workload(name: str) -> Workload:
    return find_workload(str(SMALL / "workloads" / f"{name}.toml"))


def misbehaving(name: str) -> Workload:
    return find_workload(str(SMALL / "misbehaving" / f"{name}.toml"))


@pytest.fixture(scope="module")
def kind() -> Iterator[SourceKind]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("UPSHIFT_SERVER_KIND", str(SMALL / "kind.py"))
        yield default_kind()


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workbench]:
    folder = tmp_path_factory.mktemp("small")
    shell = SystemShell()
    yield Workbench(folder, shell, folder / "log", Silent())
    shell.close()


@pytest.fixture(scope="module")
def built(kind: SourceKind, bench: Workbench) -> Build:
    source = SMALL / "source"
    version = kind.recognise(source)
    assert version
    given = Source(kind=kind.name, version=version, origin="tests", sha256="0", verified="none", path=source)
    return build_whole(bench, kind, given, find_recipe("plain"), find("clang", shell=bench.shell), jobs=2)


@pytest.fixture(scope="module")
def program(kind: SourceKind, built: Build) -> Program:
    return kind.program(SMALL / "source", built.tree, built.server)


@pytest.fixture(scope="module")
def filled(kind: SourceKind, bench: Workbench, program: Program) -> Path:
    return template(bench.shell, kind, program, (workload("point"),), bench.folder / "filled", bench.log)


@pytest.fixture
def data(bench: Workbench, filled: Path, tmp_path: Path) -> Path:
    return copy(bench.shell, filled, tmp_path / "data")


@pytest.fixture
def server(kind: SourceKind, bench: Workbench, program: Program, data: Path) -> Iterator[RunningServer]:
    with running(bench.shell, kind, program, data, log=bench.log) as started:
        yield started


def test_precompiled_headers_apply_and_the_one_file_that_cannot_have_them_falls_back(built: Build) -> None:
    # That it fell back says that it was given them.
    assert [Path(file).name for file in built.fallbacks] == ["legacy_rows.cc"]
    assert built.objects == 27


@pytest.mark.parametrize("name", ["point", "mix", "write", "scan"])
def test_each_workload_loads_the_server_and_reports(
    kind: SourceKind, bench: Workbench, server: RunningServer, name: str
) -> None:
    report, queries = run_load(bench.shell, kind, workload(name), server, seconds=1, cpus=(), log=bench.log, connections=2)
    counted = json.loads(bench.log.read_text().splitlines()[-1])
    assert counted["statements"] == queries > 0
    assert report.errors == 0
    assert report.latency_ms_p50 is not None and report.latency_ms_p99 is not None
    assert 0 < report.latency_ms_p50 <= report.latency_ms_p99


def test_a_clean_stop_keeps_the_data(kind: SourceKind, bench: Workbench, program: Program, data: Path) -> None:
    before = kind.data_bytes(data)
    with running(bench.shell, kind, program, data, log=bench.log) as server:
        run_load(bench.shell, kind, workload("write"), server, seconds=1, cpus=(), log=bench.log)
    assert kind.data_bytes(data) > before
    with running(bench.shell, kind, program, data, log=bench.log) as server:
        assert server.queries() == 0


def test_its_own_checks_pass_and_find_wrong_answers(
    kind: SourceKind, bench: Workbench, built: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failed(**environment: str) -> tuple[str, ...]:
        return kind.verify(SMALL / "source", built.tree, built.server, "short", bench, 1, environment).failed

    assert failed() == ()
    assert "point" in failed(SMALLSERVER_FAULT="wrong")
    assert failed(SMALLSERVER_FAULT="wrong", SMALLSERVER_FAULT_IN="/another/build/") == ()


@pytest.mark.parametrize(
    ("fault", "message"),
    [("no-start", "did not start"), ("hang", "did not answer"), ("crash", "SIGABRT"), ("no-stop", "did not stop")],
)
def test_faults_of_the_server_are_told(
    kind: SourceKind,
    bench: Workbench,
    program: Program,
    data: Path,
    monkeypatch: pytest.MonkeyPatch,
    fault: str,
    message: str,
) -> None:
    monkeypatch.setattr(instance, "STOP_TIMEOUT_S", 0.5)
    monkeypatch.setenv("UPSHIFT_START_TIMEOUT_S", "3")
    environment = {"SMALLSERVER_FAULT": fault}
    with (
        pytest.raises(ServerFailed, match=message),
        running(bench.shell, kind, program, data, log=bench.log, environment=environment) as server,
    ):
        run_load(bench.shell, kind, workload("point"), server, seconds=1, cpus=(), log=bench.log)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("load-fails", "exit code 1"),
        ("load-does-nothing", "left the server idle"),
        ("load-idle", "left the server idle"),
        ("load-silent", "JSON"),
        ("load-hangs", "did not end"),
        ("unknown-placeholder", "placeholder"),
    ],
)
def test_faults_of_a_load_are_told(
    kind: SourceKind,
    bench: Workbench,
    server: RunningServer,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    name: str,
    message: str,
) -> None:
    monkeypatch.setattr(driver, "OVERTIME_S", 0.5)
    with pytest.raises(UpshiftError, match=message):
        run_load(bench.shell, kind, misbehaving(name), server, seconds=1, cpus=(), log=tmp_path / "log")


def test_a_fill_that_fails_is_told(kind: SourceKind, bench: Workbench, server: RunningServer) -> None:
    with pytest.raises(LoadFailed, match="filling the database"):
        driver.fill(bench.shell, kind, misbehaving("fill-fails"), server, bench.log)


def test_statements_that_fail_are_counted(kind: SourceKind, bench: Workbench, server: RunningServer) -> None:
    report, queries = run_load(
        bench.shell, kind, misbehaving("errors"), server, seconds=1, cpus=(), log=bench.log, connections=1
    )
    assert 0.9 * queries < report.errors <= queries
