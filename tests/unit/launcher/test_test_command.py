from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from upshift.cli import test as command
from upshift.errors import MissingTool
from upshift.shell import Command, Completed, SystemShell
from upshift.toolchain import system

SAID = {
    "mypy": ("Success: no issues found in 172 source files",),
    "cargo test": (
        "test result: ok. 12 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.29s",
        "test result: ok. 3 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s",
    ),
    "pytest": ("tests/unit/a.py ...  [100%]", "1 failed, 640 passed, 2 warnings in 4.50s"),
}
CHECKS = ["ruff", "mypy", "cargo fmt", "cargo clippy", "cargo test", "pytest"]


class Machine:
    """Stands in for what the command installs and runs."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *failing: str) -> None:
        self.ran: list[tuple[str, ...]] = []
        self.ensured: list[tuple[str, bool]] = []
        self.failing = failing
        monkeypatch.setattr(SystemShell, "run", self.run)
        monkeypatch.setattr(system, "ensure_packages", self.ensure)

    def ensure(self, purpose: str, *, allow_install: bool, shell: object, say: object) -> tuple[str, ...]:
        self.ensured.append((purpose, allow_install))
        return ()

    def run(self, command: Command, *, on_line: Callable[[str], None], check: bool) -> Completed:
        argv = command.argv[2:] if command.argv[1] == "-m" else command.argv
        name = argv[0] if argv[0] != "cargo" else f"cargo {argv[1]}"
        self.ran.append(argv)
        for line in SAID.get(name, ()):
            on_line(line)
        return Completed(returncode=int(name in self.failing), stdout="", wall_s=0, cpu_s=0, peak_memory_bytes=0)

    def invoke(self, *arguments: str) -> tuple[int, str]:
        app = typer.Typer()
        app.command(context_settings=command.CONTEXT_SETTINGS)(command.test)
        done = CliRunner().invoke(app, list(arguments))
        return done.exit_code, done.stdout


def test_every_check_runs_and_the_last_line_counts_what_passed(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch)
    code, stdout = machine.invoke()
    assert code == 0
    assert [argv[0] if argv[0] != "cargo" else f"cargo {argv[1]}" for argv in machine.ran] == CHECKS
    assert machine.ran[-1] == ("pytest", "-m", "not full")
    assert stdout.splitlines()[-1] == "655 passed: 15 by cargo test, 640 by pytest"
    assert machine.ensured == [("test", True)]


def test_full_installs_more_and_leaves_nothing_out(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch)
    machine.invoke("--full", "--no-install")
    assert machine.ran[-1] == ("pytest",)
    assert machine.ensured == [("test", False), ("mysql", False)]


def test_other_arguments_are_pytests(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch)
    machine.invoke("tests/unit", "-x", "-k", "flags", "--maxfail=2", "-m", "pipeline")
    expected = ("tests/unit", "-x", "-k", "flags", "--maxfail=2", "-m", "pipeline")
    assert machine.ran[-1] == ("pytest", "-m", "not full", *expected)


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
