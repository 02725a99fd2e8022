"""MySQL's own test suite: what is run, how its output is read, and that it was the right server."""

from __future__ import annotations

import fcntl
import os
import shutil
from pathlib import Path

import pytest
from fakes import DiskUsage, FakeProgress, FakeShell, Output

from upshift.errors import NotTested
from upshift.server import mtr
from upshift.server.kind import TestOutcome
from upshift.server.mtr_alone import ids_folder
from upshift.shell import Command
from upshift.workbench import Workbench

HEADER = "Logging: mysql-test-run.pl  --force\nCollecting tests\n"
PASSING = """\
[ 50%] main.ps_1general                         w2  [ pass ]    625
[100%] main.1st                                 w1  [ pass ]      6
[100%] shutdown_report                          w0  [ pass ]
"""
PASSED = ("main.1st", "main.ps_1general", "shutdown_report")
ENDED = "Completed: All 3 tests were successful.\n"


def others_wait() -> bool:
    """Whether another run of MTR would wait now."""
    folder = os.open(ids_folder(), os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(folder)
    return False


class House:
    """A build folder with a source, and a shell that plays MTR."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.source, self.tree = root / "source", root / "tree"
        (self.source / "mysql-test").mkdir(parents=True)
        (self.tree / "runtime_output_directory").mkdir(parents=True)
        (self.tree / "mysql-test" / "var").mkdir(parents=True)
        (self.tree / "share").mkdir()
        for name in ("mysqld", "mysqltest"):
            (self.tree / "runtime_output_directory" / name).write_text(f"plain {name}")
        self.server = root / "optimised"
        self.server.write_text("optimised mysqld")
        self.progress = FakeProgress()
        self.shell = FakeShell()
        self.seen: dict[str, str] = {}
        self.plugins: dict[str, str] = {}
        self.memory = root / "memory"
        self.others_wait = False

    def run(
        self, text: str, *, returncode: int = 0, suite: str = "short", tested: str | None = None, more: str = ""
    ) -> TestOutcome:
        def effect(command: Command) -> None:
            shadow = Path(command.env["MTR_BINDIR"])
            self.others_wait = others_wait()
            for program in (shadow / "runtime_output_directory").iterdir():
                self.seen[program.name] = program.read_text()
            self.plugins = {file.name: file.read_text() for file in (shadow / "plugin_output_directory").iterdir()}
            self.seen["share"] = str((shadow / "share").resolve())
            (self.memory / "1" / "log").mkdir(parents=True)
            (shadow / "mysql-test" / "var").symlink_to(self.memory)
            binary = tested or str(shadow / "runtime_output_directory" / "mysqld")
            line = f"2026-01-01T00:00:00Z 0 [System] [MY-010116] [Server] {binary} (mysqld 9.7.4) starting as process 7\n"
            (self.memory / "1" / "log" / "mysqld.1.err").write_text(line + more)

        self.shell = FakeShell({"mysql-test-run.pl": Output(text, returncode, effect)})
        bench = Workbench(self.root / "bench", self.shell, self.root / "log", self.progress)
        return mtr.run_tests(bench, self.source, self.tree, self.server, suite, jobs=2, environment={"LLVM_PROFILE_FILE": "p"})


@pytest.fixture
def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> House:
    """On a machine with room in memory, where no other MTR runs."""
    monkeypatch.setenv("MTR_UNIQUE_IDS_DIR", str(tmp_path))
    (tmp_path / "shm").mkdir()
    monkeypatch.setattr(mtr, "_SHARED_MEMORY", tmp_path / "shm")
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: DiskUsage(900_000_000))
    return House(tmp_path)


def test_tests_are_counted_without_the_report_on_shutdowns(house: House) -> None:
    assert house.run(HEADER + PASSING + ENDED) == TestOutcome(run=2, passed=2, failed=(), passing=PASSED)
    assert house.progress.updates[0] == (1, len(mtr.SHORT), "main.ps_1general")


def test_no_other_mtr_runs_meanwhile(house: House) -> None:
    house.run(HEADER + PASSING + ENDED)
    assert house.others_wait and not others_wait()


def test_mtr_finds_the_server_under_test_and_all_else_of_the_build(house: House) -> None:
    house.run(HEADER + PASSING + ENDED)
    assert house.seen["mysqld"] == "optimised mysqld"
    assert house.seen["mysqltest"] == "plain mysqltest"
    assert house.seen["share"] == str(house.tree / "share")


PLUGINS = """\
# name     folder    requires config    variable
component_keyring_file          plugin_output_directory  yes  KEYRING_FILE_COMPONENT component_keyring_file
component_gone                  plugin_output_directory  yes  GONE_COMPONENT component_gone
#component_off                  plugin_output_directory  yes  OFF_COMPONENT component_off
component_validate_password     plugin_output_directory  no   VALIDATE validate_password
"""


def test_a_test_can_set_up_a_keyring_and_nothing_of_it_is_written_into_the_build(house: House) -> None:
    (house.source / "mysql-test" / "include").mkdir()
    (house.source / "mysql-test" / "include" / "plugin.defs").write_text(PLUGINS)
    (plugins := house.tree / "plugin_output_directory").mkdir()
    for name in ("component_keyring_file", "component_validate_password", "component_off"):
        (plugins / f"{name}.so").write_text(name)
    house.run(HEADER + PASSING + ENDED)
    assert house.seen["mysqld.my"] == '{ "read_local_manifest": true }'
    names = {name for name in house.plugins if name.endswith(".cnf")}
    assert names == {"component_keyring_file.cnf"} and house.plugins[names.pop()] == '{ "read_local_config": true }'
    assert house.plugins["component_validate_password.so"] == "component_validate_password"
    assert not list(house.tree.rglob("*.cnf")) and not list(house.tree.rglob("*.my"))


def test_the_command_runs_the_suite_on_all_jobs_with_the_given_environment(house: House) -> None:
    house.run(HEADER + PASSING + ENDED, suite="main.1st,main.ps_1general")
    (command,) = house.shell.ran
    assert command.argv[:2] == ("perl", str(house.source / "mysql-test" / "mysql-test-run.pl"))
    assert command.argv[-2:] == ("main.1st", "main.ps_1general")
    assert {"--force", "--parallel=2", "--mem", "--skip-rpl"} <= set(command.argv)
    assert command.env["LLVM_PROFILE_FILE"] == "p" and Path(command.env["MTR_MEM"]).parent == house.root / "shm"
    # Nothing of it is left.
    assert not list((house.root / "shm").iterdir())


def test_without_room_in_memory_the_tests_data_are_on_the_disk(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: DiskUsage(64_000_000))
    house.run(HEADER + PASSING + ENDED)
    (command,) = house.shell.ran
    assert "--mem" not in command.argv and "MTR_MEM" not in command.env


@pytest.mark.parametrize("suite", ["main", "profile"])
def test_whole_suites_are_named_to_mtr(house: House, suite: str) -> None:
    house.run(HEADER + PASSING + ENDED, suite=suite)
    assert any(argument.startswith("--suite=main") for argument in house.shell.ran[0].argv)


def test_failed_tests_are_named_and_skipped_ones_not_counted(house: House) -> None:
    text = """\
[ 25%] main.group_by                            w1  [ fail ]
[ 50%] main.ps_1general                         w2  [ pass ]    625
[ 75%] main.union                               w2  [ skipped ]  Test needs a debug server
[ 75%] main.select_all                          w2  [ disabled ]  Bug#1
[100%] shutdown_report                          w0  [ pass ]
Completed: Failed 1/3 tests, 66.67% were successful.
"""
    assert house.run(text, returncode=1) == TestOutcome(run=2, passed=1, failed=("main.group_by",), passing=PASSED[1:])


def test_a_test_that_fails_again_when_repeated_has_failed(house: House) -> None:
    text = "[ 33%] main.ps      w2  [ fail ]\n[ 33%] main.ps      w2  [ retry-fail ]\n" + PASSING + ENDED
    assert house.run(text, returncode=1).failed == ("main.ps",)


def test_a_test_that_passes_when_repeated_has_passed_and_is_noted(house: House) -> None:
    text = "[ 33%] main.ps      w2  [ fail ]\n[ 33%] main.ps      w2  [ retry-pass ]   20\n" + PASSING + ENDED
    assert house.run(text, returncode=1) == TestOutcome(
        run=3, passed=3, failed=(), passing=("main.1st", "main.ps", *PASSED[1:]), repeated=("main.ps",)
    )
    assert house.progress.notes == [f"main.ps passed only when it was repeated: see {house.root / 'log'}"]


def test_the_test_in_which_a_server_crashed_is_known(house: House) -> None:
    text = "[ 33%] main.ps      w2  [ fail ]\n" + PASSING + ENDED
    log = "CURRENT_TEST: main.1st\nready\nCURRENT_TEST: main.ps\n2026-01-01T00:00:00Z UTC - mysqld got signal 11 ;\n"
    assert house.run(text, returncode=1, more=log).crashed == ("main.ps",)
    assert house.run(text, returncode=1).crashed == ()


def test_a_test_that_is_skipped_when_repeated_has_failed(house: House) -> None:
    text = "[ 33%] main.ps      w2  [ fail ]\n[ 33%] main.ps      w2  [ skipped ]  No room\n" + PASSING + ENDED
    assert house.run(text, returncode=1).failed == ("main.ps",)


def test_a_test_that_fails_with_one_combination_of_options_has_failed(house: House) -> None:
    text = "[ 33%] main.ps 'row'     w2  [ fail ]\n[ 66%] main.ps 'mixed'     w2  [ pass ]   20\n" + ENDED
    assert house.run(text, returncode=1) == TestOutcome(
        run=2, passed=1, failed=("main.ps 'row'",), passing=("main.ps 'mixed'",)
    )


def test_a_server_that_crashes_at_its_end_has_failed(house: House) -> None:
    text = PASSING.replace("shutdown_report                          w0  [ pass ]", "shutdown_report   w0  [ fail ]")
    assert house.run(text + ENDED, returncode=1) == TestOutcome(
        run=2, passed=2, failed=("shutdown_report",), passing=PASSED[:2]
    )


def test_a_suite_that_stops_half_way_does_not_count_as_passed(house: House) -> None:
    with pytest.raises(NotTested, match="did not run to its end"):
        house.run(HEADER + PASSING.splitlines()[0] + "\n", returncode=1)


def test_a_suite_that_lost_tests_with_a_worker_does_not_count_as_passed(house: House) -> None:
    """A worker whose server cannot make its data folder dies; MTR goes on without it, and says that all were successful."""
    lost = "2  of 4 test(s) completed.\nNot all tests completed: main.ps main.union\n\n"
    rest = "In completed tests: All 2 tests were successful.\n\nCompleted: All 2 tests were successful.\n"
    with pytest.raises(NotTested, match=r"did not run to its end: Not all tests completed: main\.ps main\.union$"):
        house.run(HEADER + PASSING + lost + rest)


def test_a_suite_that_lost_many_tests_names_some(house: House) -> None:
    many = " ".join(f"main.test_{number}" for number in range(50))
    with pytest.raises(NotTested, match=r"main\.test_0 .* \.\.\.$") as error:
        house.run(HEADER + PASSING + f"Not all tests completed: {many} ... and 51 more\n" + ENDED)
    assert len(error.value.message) < 400


def test_mtr_s_own_limit_is_not_below_that_of_a_suite(house: House) -> None:
    house.run(HEADER + PASSING + ENDED, suite="main")
    (limit,) = (word for word in house.shell.ran[0].argv if word.startswith("--suite-timeout="))
    assert int(limit.removeprefix("--suite-timeout=")) * 60 == mtr._SUITE_TIMEOUT_S


def test_a_suite_that_cannot_start_is_no_outcome(house: House) -> None:
    with pytest.raises(NotTested, match="did not run to its end"):
        house.run("mysql-test-run: *** ERROR: Could not find mysqlcheck\n", returncode=1)


def test_a_suite_that_skips_everything_is_no_outcome(house: House) -> None:
    with pytest.raises(NotTested, match="no test ran"):
        house.run("[100%] main.1st      w1  [ skipped ]  no\n" + ENDED)


def test_tests_of_another_server_are_refused(house: House) -> None:
    with pytest.raises(NotTested, match=r"did not run on .*/usr/sbin/mysqld"):
        house.run(HEADER + PASSING + ENDED, tested="/usr/sbin/mysqld")


@pytest.mark.parametrize("text", [PASSING + ENDED, "nothing"])
def test_the_data_in_memory_and_the_shadow_are_removed_however_it_ends(house: House, text: str) -> None:
    try:
        house.run(text)
    except NotTested:
        assert text == "nothing"
    assert not house.memory.exists()
    assert not (house.root / "bench" / "mtr").exists()
    assert (house.tree / "runtime_output_directory" / "mysqld").read_text() == "plain mysqld"
    assert house.server.read_text() == "optimised mysqld"


@pytest.mark.parametrize(
    ("tests", "without_source", "with_source"),
    [
        ("short", (), ()),
        ("mian", ("mian",), ("mian",)),
        ("main.1st", (), ()),
        ("main.first", (), ("main.first",)),
        ("main.1st,innodb.index,json", ("json",), ("json",)),
        ("innodb.indx", (), ("innodb.indx",)),
        ("x.basic", (), ()),
        ("nothing.basic", (), ("nothing.basic",)),
    ],
)
def test_tests_that_there_are_not(
    tests: str, without_source: tuple[str, ...], with_source: tuple[str, ...], tmp_path: Path
) -> None:
    for file in ("mysql-test/t/1st.test", "mysql-test/suite/innodb/t/index.test", "plugin/x/tests/mtr/t/basic.test"):
        (tmp_path / file).parent.mkdir(parents=True)
        (tmp_path / file).touch()
    assert mtr.unknown_tests(tests, None) == without_source
    assert mtr.unknown_tests(tests, tmp_path) == with_source


def test_data_in_memory_only_where_all_workers_have_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A container's /dev/shm has 64 MB by default, and MTR looks at no room."""
    monkeypatch.setattr(mtr, "_SHARED_MEMORY", tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: DiskUsage(900_000_000))
    shadow = tmp_path / "stage" / "mtr"
    memory = mtr.memory_folder(shadow, 2)
    assert memory is not None and memory.parent == tmp_path and memory.is_dir()
    # Another shadow's is another's; what a kill has left is known by its name.
    assert mtr.memory_folder(tmp_path / "other" / "mtr", 2) != memory and mtr.memory_folder(shadow, 2) is None
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: DiskUsage(64_000_000))
    assert mtr.memory_folder(tmp_path / "third", 2) is None
