from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from fakes import another_run

from upshift.errors import CacheBusy, CommandFailed, MissingTool, UpshiftError, UsageError
from upshift.native import programs
from upshift.run.lock import exclusive
from upshift.shell import Command, Completed


class Machine:
    """A machine with a cargo of one version, or without one, on which a build works or fails."""

    def __init__(self, version: str | None = "cargo 1.95.0 (f2d3ce0bd 2026-03-21)", *, breaks: bool = False) -> None:
        self.version = version
        self.breaks = breaks
        self.built: list[Command] = []

    def run(
        self,
        command: Command,
        *,
        log: Path | None = None,
        timeout_s: float | None = None,
        on_line: Callable[[str], None] | None = None,
        check: bool = True,
    ) -> Completed:
        if self.version is None:
            raise MissingTool("cargo is not there")
        if command.argv == ("cargo", "--version"):
            return Completed(0, self.version, 0.0, 0.0, 0)
        self.built.append(command)
        if self.breaks:
            raise CommandFailed("cargo build failed")
        return Completed(0, "", 0.0, 0.0, 0)

    def spawn(self, command: Command, *, log: Path) -> None:
        raise AssertionError("nothing runs in the background")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("UPSHIFT_CACHE", str(tmp_path))
    return tmp_path


def test_the_first_build_is_announced_and_later_ones_are_not(cache: Path) -> None:
    machine = Machine()
    said: list[str] = []
    folder = programs.build_programs(machine, say=said.append)  # type: ignore[arg-type]
    assert folder == cache / "target" / "release"
    assert len(said) == 1
    assert machine.built[0].env == {"CARGO_TARGET_DIR": str(cache / "target")}
    assert {"--locked", "--release"} <= set(machine.built[0].argv)
    leave_programs(folder)
    programs.build_programs(machine, say=said.append)  # type: ignore[arg-type]
    assert len(said) == 1


def leave_programs(folder: Path) -> None:
    for name in (
        "upshift-cache",
        "upshift-load",
        "upshift-stack",
        programs.TIER_LIBRARY,
        programs.HUGE_TEXT_LIBRARY,
        programs.CARD,
        programs.DIFFER,
    ):
        (folder / name).touch()


def test_cargo_runs_only_when_the_sources_have_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkout = tmp_path / "checkout"
    (checkout / "crates" / "wire").mkdir(parents=True)
    for name in ("Cargo.toml", "Cargo.lock", "crates/wire/lib.rs"):
        (checkout / name).write_text(name)
    monkeypatch.setattr(programs, "CHECKOUT", checkout)
    machine = Machine()

    def builds() -> int:
        folder = programs.build_programs(machine, say=lambda _: None)  # type: ignore[arg-type]
        leave_programs(folder)
        return len(machine.built)

    assert not programs.programs_are_built()
    assert builds() == 1
    assert programs.programs_are_built()
    (checkout / "crates" / "wire" / "lib.rs").touch()
    assert builds() == 1
    (checkout / "crates" / "wire" / "lib.rs").write_text("changed")
    assert not programs.programs_are_built()
    assert builds() == 2
    (checkout / "Cargo.lock").write_text("newer")
    assert builds() == 3
    (programs.programs_dir() / "upshift-load").unlink()
    assert builds() == 4
    monkeypatch.setenv("RUSTFLAGS", "-g")
    assert builds() == 5
    assert builds() == 5


def test_named_programs_are_taken_as_they_are(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(programs.PROGRAMS, str(tmp_path))
    machine = Machine()
    with pytest.raises(UsageError, match=r"has no upshift-load") as refused:
        programs.build_programs(machine, say=lambda _: None)  # type: ignore[arg-type]
    assert refused.value.hint
    leave_programs(tmp_path)
    assert programs.build_programs(machine, say=lambda _: None) == tmp_path  # type: ignore[arg-type]
    assert programs.programs_are_built() and machine.built == []
    (tmp_path / programs.CARD).unlink()
    with pytest.raises(UsageError, match=r"has no upshift-card"):
        programs.build_card(machine, say=lambda _: None)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("package", "build", "is_built"),
    [
        ("machinecard", programs.build_card, programs.card_is_built),
        ("hugetext", programs.build_huge_text, programs.huge_text_is_built),
    ],
)
def test_one_is_built_alone_unless_it_was_built_with_the_others(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    package: str,
    build: Callable[..., Path],
    is_built: Callable[[], bool],
) -> None:
    checkout = tmp_path / "checkout"
    (checkout / "crates").mkdir(parents=True)
    source = checkout / "crates" / "one.rs"
    source.write_text("first")
    monkeypatch.setattr(programs, "CHECKOUT", checkout)
    machine = Machine()

    def built() -> list[str]:
        before = len(machine.built)
        build(machine, say=lambda _: None).touch()
        return [word for command in machine.built[before:] for word in command.argv if word in (package, "--workspace")]

    assert built() == [package]
    assert built() == []
    assert not programs.programs_are_built()
    source.write_text("second")
    assert not is_built()
    programs.build_programs(machine, say=lambda _: None)  # type: ignore[arg-type]
    leave_programs(programs.programs_dir())
    assert is_built() and built() == []


@pytest.mark.parametrize("version", [None, "cargo 1.63.0", "nonsense"])
def test_a_missing_or_old_cargo_is_named_before_anything_is_built(version: str | None) -> None:
    machine = Machine(version)
    with pytest.raises(MissingTool) as caught:
        programs.build_programs(machine, say=lambda _: None)  # type: ignore[arg-type]
    assert "1.88" in caught.value.hint
    assert machine.built == []


def test_a_failed_build_is_an_error_with_cargos_words() -> None:
    with pytest.raises(UpshiftError, match="cargo build failed"):
        programs.build_programs(Machine(breaks=True), say=lambda _: None)  # type: ignore[arg-type]


@pytest.mark.parametrize("build", [programs.build_programs, programs.build_card, programs.build_huge_text])
def test_nothing_is_built_where_another_run_may_measure_with_it(cache: Path, build: Callable[..., Path]) -> None:
    """A second checkout with other sources shares the cache, and its programs replace the first one's."""
    machine = Machine()
    with another_run(cache), pytest.raises(CacheBusy, match=r"process 4711\) works in .* may use the programs") as caught:
        build(machine, say=lambda _: None)
    assert machine.built == [] and "UPSHIFT_CACHE" in caught.value.hint
    with exclusive(cache):
        build(machine, say=lambda _: None)
    assert len(machine.built) == 1
