"""Servers that start, fail to, die, hang or will not stop; and the folders of data that they run on."""

from __future__ import annotations

import contextlib
import shutil
import signal
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from fakes import DiskUsage, FakeClock, FakeKind, FakeProcess, FakeShell, Output

from upshift import door
from upshift.door import versions_of
from upshift.errors import LoadFailed, MissingTool, NotEnoughRoom, ServerFailed, UsageError
from upshift.server import data, instance
from upshift.server.instance import RunningServer, running
from upshift.server.kind import Counters, Program
from upshift.server.kinds import default_kind, kinds
from upshift.shell import Command, SystemShell
from upshift.workload.model import Workload

PROGRAM = Program(kind="fake", binary=Path("/srv/server"))


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(instance, "time", FakeClock())


@pytest.fixture
def log(tmp_path: Path) -> Path:
    file = tmp_path / "server.log"
    file.write_text("".join(f"line {number}\n" for number in range(20)))
    return file


def shell_of(*processes: FakeProcess) -> FakeShell:
    return FakeShell(processes=iter(processes))


def test_a_server_is_started_with_the_settings_of_kind_and_workload_and_stopped_cleanly(tmp_path: Path, log: Path) -> None:
    process, kind = FakeProcess(), FakeKind()
    shell = shell_of(process)
    with running(
        shell, kind, PROGRAM, tmp_path, log=log, settings={"pool": "2G"}, environment={"LD_PRELOAD": "x"}, cpus=(0,)
    ) as server:
        assert server.pid == 4711 and server.tools == Path("/srv")
        home = server.socket.parent
        assert home.is_dir() and len(str(server.socket)) < 100
        assert process.signals == []
    (command,) = shell.spawned
    assert command.argv[-2:] == ("--pool=2G", "--log=on")
    assert command.env == {"OWN": "1", "LD_PRELOAD": "x"} and command.cpus == (0,)
    assert process.signals == [15]
    assert not home.exists() and kind.forgot == [server.socket]


def test_a_socket_s_path_is_short_whatever_the_temporary_folder(
    tmp_path: Path, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A longer one than 107 bytes is none, and no server starts on it."""
    deep = tmp_path / ("scratch" * 15)
    deep.mkdir()
    monkeypatch.setattr("upshift.server.instance.tempfile.tempdir", str(deep))
    with running(shell_of(FakeProcess()), FakeKind(), PROGRAM, tmp_path, log=log) as server:
        assert len(str(server.socket)) <= 107
    assert not server.socket.parent.exists() and list(deep.iterdir()) == []


@pytest.mark.parametrize("text", ["2m", "", "-1", "inf", "nan"])
def test_a_limit_that_is_no_number(tmp_path: Path, log: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("UPSHIFT_START_TIMEOUT_S", text)
    with (
        pytest.raises(UsageError, match=f"UPSHIFT_START_TIMEOUT_S={text}, which is not a number"),
        running(shell_of(FakeProcess()), FakeKind(), PROGRAM, tmp_path, log=log),
    ):
        raise AssertionError("it never ran")


def test_a_server_that_cannot_be_started_at_all_leaves_no_folder(
    tmp_path: Path, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def start(*given: object) -> Command:
        raise MissingTool("there is no such user", "install it")

    kind = FakeKind()
    monkeypatch.setattr(kind, "start", start)
    monkeypatch.setattr("upshift.server.instance.tempfile.tempdir", str(tmp_path))
    with pytest.raises(MissingTool), running(FakeShell(), kind, PROGRAM, tmp_path / "data", log=log):
        raise AssertionError("it never ran")
    assert list(tmp_path.iterdir()) == [log]


@pytest.mark.parametrize(("code", "how"), [(1, "exit code 1"), (-11, "killed by SIGSEGV")])
def test_a_server_that_does_not_start_shows_the_end_of_its_log(tmp_path: Path, log: Path, code: int, how: str) -> None:
    with (
        pytest.raises(ServerFailed, match=f"did not start \\({how}\\)\nline 12") as caught,
        running(shell_of(FakeProcess(code=code)), FakeKind(is_ready=False), PROGRAM, tmp_path, log=log),
    ):
        raise AssertionError("it never ran")
    assert str(log) in caught.value.hint


def test_a_server_that_hangs_at_its_start_is_killed(tmp_path: Path, log: Path) -> None:
    process = FakeProcess(ends_with=None)
    with (
        pytest.raises(ServerFailed, match="did not answer within 7 s"),
        running(shell_of(process), FakeKind(is_ready=False), PROGRAM, tmp_path, log=log, start_timeout_s=7),
    ):
        raise AssertionError("it never ran")
    assert process.signals == [9]


def test_a_server_that_dies_meanwhile(tmp_path: Path, log: Path) -> None:
    process = FakeProcess()
    with (
        pytest.raises(ServerFailed, match="ended by itself \\(killed by SIGABRT\\)"),
        running(shell_of(process), FakeKind(), PROGRAM, tmp_path, log=log),
    ):
        process.code = -6
    assert process.signals == []


def test_a_server_that_will_not_stop_is_killed(tmp_path: Path, log: Path) -> None:
    process = FakeProcess(ends_with=None)
    with (
        pytest.raises(ServerFailed, match="did not stop within"),
        running(shell_of(process), FakeKind(), PROGRAM, tmp_path, log=log),
    ):
        pass
    assert process.signals == [15, 9]


class Several(FakeKind):
    """A server of several processes, which end with it when it is told to end in a certain way."""

    def start(self, program: Program, data: Path, socket: Path, settings: Mapping[str, str]) -> Command:
        command = super().start(program, data, socket, settings)
        return replace(command, stop_signal=signal.SIGINT, drop_signal=signal.SIGQUIT)


@pytest.mark.parametrize(("cleanly", "ends_with", "signals"), [(True, 0, [2]), (False, 0, [3]), (False, None, [3, 9])])
def test_a_server_is_stopped_and_dropped_by_the_signals_of_its_kind(
    tmp_path: Path, log: Path, cleanly: bool, ends_with: int | None, signals: list[int]
) -> None:
    process = FakeProcess(ends_with=ends_with)
    with running(shell_of(process), Several(), PROGRAM, tmp_path, log=log, cleanly=cleanly):
        assert process.signals == []
    assert process.signals == signals


def test_a_server_that_ends_badly_has_not_written_its_profile(tmp_path: Path, log: Path) -> None:
    with (
        pytest.raises(ServerFailed, match="did not stop cleanly \\(exit code 3\\)"),
        running(shell_of(FakeProcess(ends_with=3)), FakeKind(), PROGRAM, tmp_path, log=log),
    ):
        pass


@pytest.mark.parametrize("error", [LoadFailed("idle"), KeyboardInterrupt()])
def test_an_error_meanwhile_is_the_one_that_is_told_and_the_server_is_gone(
    tmp_path: Path, log: Path, error: BaseException
) -> None:
    process = FakeProcess()
    with pytest.raises(type(error)), running(shell_of(process), FakeKind(), PROGRAM, tmp_path, log=log) as server:
        home = server.socket.parent
        raise error
    assert process.signals == [9] and not home.exists()


def test_a_real_server_is_gone_after_its_time(tmp_path: Path, log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Sleeper(FakeKind):
        def start(self, program: Program, data: Path, socket: Path, settings: object) -> Command:
            return Command(("sleep", "100"))

    shell = SystemShell()
    with (
        pytest.raises(ServerFailed, match="SIGTERM"),  # sleep ends by the signal, without an exit code
        running(shell, Sleeper(), PROGRAM, tmp_path, log=log) as server,
    ):
        assert server.process.poll() is None
    assert server.process.poll() == -15
    shell.close()


@pytest.mark.parametrize("cleanly", [True, False])
def test_a_script_s_server_is_gone_with_the_script(
    tmp_path: Path, log: Path, monkeypatch: pytest.MonkeyPatch, cleanly: bool
) -> None:
    """Without ``exec`` in it, the server is a process of its own, which would run beside the next trial's."""
    started = tmp_path / "pid"

    class Scripted(FakeKind):
        def start(self, program: Program, data: Path, socket: Path, settings: object) -> Command:
            return Command(("sh", "-c", f"sleep 100 & echo $! >{started}.new; mv {started}.new {started}; wait"))

        def ready(self, socket: Path) -> bool:
            return started.is_file()

    monkeypatch.setattr(instance, "time", time)
    refused = pytest.raises(ServerFailed, match="SIGTERM") if cleanly else contextlib.nullcontext()
    with refused, running(SystemShell(), Scripted(), PROGRAM, tmp_path, log=log, cleanly=cleanly):
        sleeping = psutil.Process(int(started.read_text()))
    with contextlib.suppress(psutil.NoSuchProcess):  # nobody may wait for it
        assert sleeping.status() == psutil.STATUS_ZOMBIE


def test_waiting_for_quiet(tmp_path: Path, log: Path) -> None:
    kind = FakeKind(is_quiet=False)
    server = RunningServer(kind, PROGRAM, FakeProcess(), tmp_path / "s", log)
    assert not server.settle(5)
    kind.is_quiet = True
    assert server.settle(5)
    dead = RunningServer(kind, PROGRAM, FakeProcess(code=1), tmp_path / "s", log)
    with pytest.raises(ServerFailed):
        dead.settle(5)


class Mute(FakeKind):
    """Its server does not answer when it is asked for its counters."""

    def counters(self, socket: Path) -> Counters:
        raise ServerFailed("the server no longer answers")


def test_a_server_that_dies_while_it_is_asked(tmp_path: Path, log: Path) -> None:
    dying = RunningServer(Mute(), PROGRAM, FakeProcess(polls_before_end=1, code_at_end=-11), tmp_path / "s", log)
    with pytest.raises(ServerFailed, match="SIGSEGV"):
        dying.queries()


def test_a_server_that_hangs_while_it_is_asked(tmp_path: Path, log: Path) -> None:
    with pytest.raises(ServerFailed, match="no longer answers"):
        RunningServer(Mute(), PROGRAM, FakeProcess(), tmp_path / "s", log).queries()


def workload(name: str, fill: str) -> Workload:
    return Workload.model_validate({"name": name, "fill": {"command": (fill,)}, "load": {"command": ("load",)}})


def initialising_shell(count: int = 10) -> FakeShell:
    def initialise(command: Command) -> None:
        folder = Path(command.argv[-1])
        folder.mkdir()
        (folder / "ibdata").write_text("rows")
        (folder / "spare").write_text("")

    return FakeShell({"--initialise": Output(effect=initialise)}, iter([FakeProcess() for _ in range(count)]))


def test_a_template_is_filled_once_for_each_distinct_fill(tmp_path: Path, log: Path) -> None:
    shell, kind = initialising_shell(), FakeKind()
    workloads = (workload("a", "fill-4"), workload("b", "fill-4"), workload("c", "fill-16"))
    made = data.template(shell, kind, PROGRAM, workloads, tmp_path / "data", log)
    assert (made / "ibdata").is_file() and kind.prepared == 1 and kind.tidied == 1
    assert not (made / "spare").exists()
    assert sorted(command.argv[0] for command in shell.ran[1:]) == ["fill-16", "fill-4"]


def test_a_template_has_the_workloads_settings_from_the_first(tmp_path: Path, log: Path) -> None:
    """InnoDB's page size and the case of table names can't be changed later."""
    shell = initialising_shell()
    pages = workload("a", "fill").model_copy(update={"settings": {"innodb_page_size": "8K"}})
    data.template(shell, FakeKind(), PROGRAM, (workload("b", "fill"), pages), tmp_path / "data", log)
    assert "--innodb_page_size=8K" in shell.ran[0].argv
    assert "--innodb_page_size=8K" in shell.spawned[0].argv


def test_data_are_changed_on_a_copy_by_a_server_that_stops_cleanly(tmp_path: Path, log: Path) -> None:
    process, kind = FakeProcess(), FakeKind()
    shell = FakeShell(processes=iter([process]))
    (source := tmp_path / "template").mkdir()
    target = tmp_path / "data"
    made = data.changed(shell, kind, PROGRAM, source, target, log, {"page_size": "4k"}, {"a.sql": "A", "b.sql": "B"})
    assert made == target and shell.ran[0].argv[-2:] == (str(source), str(target))
    assert f"--data={target}" in shell.spawned[0].argv and "--page_size=4k" in shell.spawned[0].argv
    assert kind.changed == ["A", "B"] and process.code == 0


def test_statements_that_the_server_refuses_are_told_with_its_words(tmp_path: Path, log: Path) -> None:
    (tmp_path / "template").mkdir()
    shell, kind = FakeShell(processes=iter([FakeProcess()])), FakeKind(refuses="Table 'shop.x' doesn't exist (1146)")
    statements = {"/x/fix.sql": "A", "/x/more.sql": "B"}
    with pytest.raises(UsageError, match=r"/x/fix\.sql: the server refuses it: Table 'shop\.x' doesn't exist \(1146\)"):
        data.changed(shell, kind, PROGRAM, tmp_path / "template", tmp_path / "data", log, {}, statements)
    assert kind.changed == ["A"]


def test_the_contents_of_data(tmp_path: Path) -> None:
    for name, text in (("one", "rows"), ("same", "rows"), ("other", "rowz")):
        (tmp_path / name / "db").mkdir(parents=True)
        (tmp_path / name / "db" / "t.ibd").write_text(text)
    (tmp_path / "other" / "db" / "t.ibd").write_text("rowz")
    one, same, other = (data.contents_sha256(tmp_path / name) for name in ("one", "same", "other"))
    assert one == same != other


def test_a_copy_replaces_what_an_earlier_trial_left(tmp_path: Path) -> None:
    (tmp_path / "template" / "db").mkdir(parents=True)
    (tmp_path / "template" / "db" / "t.ibd").write_text("rows")
    (tmp_path / "trial" / "old").mkdir(parents=True)
    data.copy(SystemShell(), tmp_path / "template", tmp_path / "trial")
    assert (tmp_path / "trial" / "db" / "t.ibd").read_text() == "rows"
    assert not (tmp_path / "trial" / "old").exists() and not (tmp_path / "trial" / "template").exists()


def test_a_copy_that_would_fill_the_disk_is_refused_before_it_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "template").mkdir()
    (tmp_path / "template" / "t.ibd").write_bytes(b"x" * 1000)
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: DiskUsage(1000))
    shell = FakeShell()
    with pytest.raises(NotEnoughRoom, match="a copy of the data needs") as caught:
        data.copy(shell, tmp_path / "template", tmp_path / "trial")
    assert "UPSHIFT_CACHE" in caught.value.hint and shell.ran == []


@pytest.fixture
def own_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    file = tmp_path / "own.py"
    monkeypatch.setenv("UPSHIFT_SERVER_KIND", str(file))
    yield file


def test_a_kind_of_ones_own_comes_first(own_kind: Path) -> None:
    own_kind.write_text("class Own:\n    name = 'own'\nKIND = Own()\n")
    assert default_kind().name == "own"
    assert list(kinds()) == ["own", "mysql", "postgres"]


@pytest.mark.parametrize("text", [None, "KIND: int\n", "import no_such_module\n", "KIND = \n"])
def test_a_kind_that_cannot_be_had(own_kind: Path, text: str | None) -> None:
    if text is not None:
        own_kind.write_text(text)
    with pytest.raises(UsageError, match=r"UPSHIFT_SERVER_KIND names .*own\.py"):
        kinds()


def test_without_one_it_is_mysql(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("UPSHIFT_SERVER_KIND", raising=False)
    assert default_kind().name == "mysql"


def test_a_mariadb_is_refused_before_the_work() -> None:
    """Debian's mysqld may be a link to it."""
    binary = Path("/bin/true")
    shell = FakeShell({f"{binary} --version": Output(f"{binary}  Ver 10.11.14-MariaDB-0+deb12u2 for debian-linux-gnu")})
    with pytest.raises(UsageError, match="--baseline: /bin/true is a MariaDB"):
        versions_of(shell, lambda _program: FakeKind(), {"--baseline": Program(kind="mysql", binary=binary)})


SERVER_HAS = b" skip-grant-tables\0"


@pytest.mark.parametrize(
    ("version", "word", "told"),
    [
        ("Ver 9.7.4 for Linux on x86_64 (Source distribution)", SERVER_HAS, None),
        ("Ver 8.0.30-22 for Linux on x86_64 (Percona Server)", SERVER_HAS, None),
        ("Ver 8.0.29 for Linux on x86_64", SERVER_HAS, "is a MySQL 8.0.29"),
        ("Ver 9.7.4 for Linux on x86_64 (Source distribution)", b"--skip-grant-tables).", "is no MySQL server"),
        ("Ver 14.14 Distrib 5.7.44, for Linux", SERVER_HAS, "is no MySQL server"),
        ("true (GNU coreutils) 9.1", SERVER_HAS, "is no MySQL server"),
    ],
)
def test_what_is_no_mysql_that_starts_is_refused_before_the_work(
    tmp_path: Path, version: str, word: bytes, told: str | None
) -> None:
    """Each of these ends `--version` with 0: they failed as servers, after all builds."""
    binary = tmp_path / "mysqld"
    binary.write_bytes(b"\x7fELF" + word)
    shell = FakeShell({f"{binary} --version": Output(f"{binary}  {version}")})
    named = {"--baseline": Program(kind="mysql", binary=binary)}
    if told is None:
        assert versions_of(shell, lambda _program: FakeKind(), named) == {"--baseline": version}
        return
    with pytest.raises(UsageError, match=f"--baseline: {binary} {told}") as caught:
        versions_of(shell, lambda _program: FakeKind(), named)
    assert caught.value.exit_code == 2
    assert ("from 8.0.30 on" if "8.0.29" in told else "mysqld") in caught.value.hint


CACHE = "/home/me/.cache/upshift"
PROFILE = "/usr/sbin/mysqld {\n}\n"


@pytest.mark.parametrize(
    ("changed", "refused"),
    [
        ({}, True),
        ({"sys/kernel/security/apparmor/profiles": "{path} (enforce)"}, True),
        ({"sys/kernel/security/apparmor/profiles": "{path} (complain)"}, False),
        ({"etc/apparmor.d/local/{name}": CACHE + "/** mrwkl,"}, False),
        ({"etc/apparmor.d/{name}": PROFILE + CACHE}, False),
        ({"etc/apparmor.d/{name}": "profile x flags=(complain) {{\n  owner @{{PROC}}/@{{pid}}/status r,\n}}"}, False),
        ({"etc/apparmor.d/{name}": "# Empty on purpose: MariaDB's.\n"}, False),
        ({"etc/apparmor.d/disable/{name}": ""}, False),
        ({"sys/module/apparmor/parameters/enabled": "N"}, False),
    ],
)
def test_a_server_that_apparmor_keeps_out_of_the_cache_is_refused(
    changed: dict[str, str], refused: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It answers `--version`, and would fail at its data folder, after all builds."""
    monkeypatch.setenv("UPSHIFT_CACHE", CACHE)
    server = tmp_path / "mysqld"
    server.touch()
    words = {"path": str(server), "name": str(server).strip("/").replace("/", ".")}
    files = {"sys/module/apparmor/parameters/enabled": "Y", "etc/apparmor.d/{name}": PROFILE, **changed}
    for path, text in files.items():
        file = tmp_path / path.format(**words)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text.replace("{path}", words["path"]))
    if not refused:
        door.refuse_confined("--baseline", server, tmp_path)
        return
    with pytest.raises(UsageError, match="AppArmor's profile") as error:
        door.refuse_confined("--baseline", server, tmp_path)
    assert f"local/{words['name']}" in error.value.hint and "apparmor_parser -r" in error.value.hint
