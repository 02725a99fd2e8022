from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from upshift.cli import test as command
from upshift.cli.counting import CargoOutput, PytestOutput
from upshift.errors import MissingTool
from upshift.paths import CHECKOUT
from upshift.shell import Command, Completed, SystemShell
from upshift.toolchain import system

CARGO = """
running 3 tests
test fast ... ok
test later ... ignored, not today
test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.29s

running 3 tests
test needs_mysql ... ok
test breaks - should panic ... FAILED

successes:

---- needs_mysql stdout ----
starting
NOT RUN: UPSHIFT_TEST_MYSQLD names no server
NOT RUN: UPSHIFT_TEST_MYSQLD names no server

successes:
    needs_mysql

failures:

---- breaks stdout ----
NOT RUN: it says, and fails

failures:
    breaks

test result: FAILED. 5 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.29s
"""
SAID = {
    "mypy": "Success: no issues found in 172 source files",
    "cargo test": CARGO,
    "pytest": "tests/unit/a.py ...  [100%]\nSKIPPED tests/a.py::test_b - Skipped: needs a browser\n"
    "1 failed, 640 passed, 1 skipped, 2 warnings in 4.50s",
}
CHECKS = ["ruff check", "ruff format", "mypy", "cargo fmt", "cargo clippy", "cargo test", "pytest"]


def named(argv: tuple[str, ...]) -> str:
    if argv[0] == "cargo":
        return f"cargo {argv[1]}"
    return " ".join(argv[:2]) if argv[0] in ("ruff", "upshift") else argv[0]


class Machine:
    """Stands in for what the command installs and runs."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *failing: str) -> None:
        self.ran: list[tuple[str, ...]] = []
        self.ensured: list[tuple[str, bool]] = []
        self.failing = failing
        self.absent: tuple[str, ...] = ()
        self.said = dict(SAID)
        for name in ("UPSHIFT_TEST_FULL", "UPSHIFT_TEST_MYSQLD", "UPSHIFT_TEST_PATCHED_MYSQLD"):
            monkeypatch.setenv(name, "")  # so that it is taken away again
            monkeypatch.delenv(name)
        monkeypatch.setattr(SystemShell, "run", self.run)
        monkeypatch.setattr(system, "ensure_packages", self.ensure)

    def ensure(self, purpose: str, *, allow_install: bool, shell: object, say: object) -> tuple[str, ...]:
        self.ensured.append((purpose, allow_install))
        return ()

    def run(self, command: Command, *, on_line: Callable[[str], None], check: bool) -> Completed:
        argv = command.argv[2:] if command.argv[1] == "-m" else command.argv
        self.ran.append(argv)
        if argv[0] in self.absent:
            raise MissingTool(f"{argv[0]} is not on PATH", "install it")
        for line in self.said.get(named(argv), "").splitlines():
            on_line(line)
        return Completed(returncode=int(named(argv) in self.failing), stdout="", wall_s=0, cpu_s=0, peak_memory_bytes=0)

    def invoke(self, *arguments: str) -> tuple[int, str]:
        app = typer.Typer()
        app.command(context_settings=command.CONTEXT_SETTINGS)(command.test)
        done = CliRunner().invoke(app, list(arguments))
        return done.exit_code, done.stdout


HERE = Path(__file__).parent


def test_what_a_real_cargo_prints_of_tests_that_were_not_run() -> None:
    """Recorded with Rust 1.95 and no UPSHIFT_TEST_MYSQLD: ``cargo test -p wire -p loadgen -p tierctl --test mysql
    --test oltp --test servers --no-fail-fast -- --include-ignored --show-output mysql``.
    """
    output = CargoOutput()
    for line in (HERE / "cargo.txt").read_text().splitlines():
        output.line(line)
    assert (output.count.passed, output.count.failed, output.count.not_run) == (0, 0, 4)
    tests = [
        "oltp::mysql",
        "servers::kill::no_commit_is_lost_when_a_loaded_mysql_is_killed",
        "mysql::mysql",
        "mysql::mysqls_own_certificates",
    ]
    assert output.count.why == [f"{name}: UPSHIFT_TEST_MYSQLD names no server" for name in tests]


def test_cargo_shows_every_line_that_says_not_run() -> None:
    """The harness keeps what eprintln! writes for --show-output; what goes to std::io::stderr() it never sees."""
    for file in (CHECKOUT / "crates").rglob("*.rs"):
        for line in file.read_text().splitlines():
            assert "NOT RUN" not in line or "eprintln!(" in line or "starts_with(" in line, f"{file}: {line}"


def test_what_a_real_pytest_prints_of_tests_that_were_not_run() -> None:
    """Recorded with pytest 9.2.0: ``pytest -rs --no-fold-skipped`` of some tests, on a machine without a browser."""
    output = PytestOutput()
    for line in (HERE / "pytest.txt").read_text().splitlines():
        output.line(line)
    assert (output.count.passed, output.count.failed, output.count.not_run) == (8, 0, 3)
    browser = "tests/unit/report/test_in_a_browser.py"
    names = ["every_chart_is_drawn", "its_scripts_complain_of_nothing", "colours_are_those_of_the_style_sheet"]
    assert output.count.why == [f"{browser}::test_{name}: needs a browser, such as Debian's chromium" for name in names]


def test_every_check_runs_and_the_last_line_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch)
    code, stdout = machine.invoke()
    assert code == 0
    assert [named(argv) for argv in machine.ran] == CHECKS
    assert machine.ran[-1] == ("pytest", "-rs", "--no-fold-skipped", *command.SLOWEST, *command.SIDE_BY_SIDE)
    assert stdout.splitlines()[-4:] == [
        "not run: later: not today",
        "not run: needs_mysql: UPSHIFT_TEST_MYSQLD names no server",
        "not run: tests/a.py::test_b: needs a browser",
        "656 passed, 2 failed, 3 not run",
    ]
    assert machine.ensured == [("test", True)]


def test_what_passing_tests_print_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch)
    _code, stdout = machine.invoke()
    (arguments,) = (argv[argv.index("--") + 1 :] for argv in machine.ran if argv[:2] == ("cargo", "test"))
    assert arguments == ("--include-ignored", "--show-output", command.CARGO_THREADS)
    assert "starting" not in stdout
    assert "NOT RUN: it says, and fails" in stdout
    assert "test result: FAILED. 5 passed" in stdout


def test_what_fails_without_naming_a_test_is_a_failure_too(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch, "mypy", "cargo test", "pytest")
    machine.said["cargo test"] = "error: could not compile `wire`"
    code, stdout = machine.invoke()
    assert code == 1
    assert stdout.splitlines()[-1] == "640 passed, 3 failed, 1 not run"  # mypy, the compiler, and pytest's own


def test_full_installs_more_and_leaves_nothing_out(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch)
    machine.said["pytest"] = "646 passed in 4.50s"
    machine.invoke("--full", "--no-install")
    assert machine.ran[-1] == ("pytest", "-rs", "--no-fold-skipped", *command.SLOWEST)
    assert os.environ["UPSHIFT_TEST_FULL"] == "1"
    assert machine.ensured == [("test", False), ("mysql", False)]


def test_full_hands_the_servers_that_it_builds_to_the_tests(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    machine = Machine(monkeypatch)
    server = tmp_path / "mysqld"
    server.touch()
    machine.said["upshift build"] = f"[2/2] plain build: 20 min\n{server}"
    machine.invoke("--full")
    order = [named(argv) for argv in machine.ran]
    assert order.index("upshift build") < order.index("cargo test")
    builds = [argv for argv in machine.ran if named(argv) == "upshift build"]
    assert [argv[2:-1] for argv in builds] == [("plain",), ("plain", "--patches", "all")]
    assert os.environ["UPSHIFT_TEST_MYSQLD"] == os.environ["UPSHIFT_TEST_PATCHED_MYSQLD"] == str(server)


def test_a_mysql_that_is_named_is_not_built(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch)
    monkeypatch.setenv("UPSHIFT_TEST_MYSQLD", "/usr/sbin/mysqld")
    monkeypatch.setenv("UPSHIFT_TEST_PATCHED_MYSQLD", "/opt/patched/mysqld")
    machine.invoke("--full")
    assert "upshift build" not in map(named, machine.ran)


def test_a_mysql_that_does_not_build_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch, "upshift build")
    code, stdout = machine.invoke("--full")
    assert code == 1
    assert stdout.splitlines()[-1] == "656 passed, 4 failed, 3 not run"
    assert len(machine.ran) == len(CHECKS) + 2


def test_other_arguments_are_pytests(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch)
    machine.invoke("tests/unit", "-x", "-k", "flags", "--maxfail=2", "-m", "pipeline")
    expected = ("tests/unit", "-x", "-k", "flags", "--maxfail=2", "-m", "pipeline")
    assert machine.ran[-1] == ("pytest", "-rs", "--no-fold-skipped", *command.SLOWEST, *command.SIDE_BY_SIDE, *expected)


@pytest.mark.parametrize("broken", CHECKS)
def test_one_failure_fails_but_stops_nothing(monkeypatch: pytest.MonkeyPatch, broken: str) -> None:
    machine = Machine(monkeypatch, broken)
    code, _ = machine.invoke()
    assert code == 1
    assert len(machine.ran) == len(CHECKS)


def test_a_refusal_to_install_reaches_the_caller(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    machine = Machine(monkeypatch)

    def refuse(purpose: str, **_: object) -> tuple[str, ...]:
        raise MissingTool("cmake")

    monkeypatch.setattr(system, "ensure_packages", refuse)
    code, _ = machine.invoke()
    assert code == 1
    assert machine.ran == []


def test_a_missing_cargo_fails_its_checks_and_the_others_run(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch)
    machine.absent = ("cargo",)
    code, out = machine.invoke()
    assert [named(argv) for argv in machine.ran] == CHECKS
    # The three checks of cargo, and the test that fails in SAID.
    assert (code, out.splitlines()[-1]) == (1, "640 passed, 4 failed, 1 not run")
