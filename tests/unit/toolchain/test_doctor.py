from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from fake_tools import FakeShell, llvm, versions
from typer.testing import CliRunner

from upshift import control_groups
from upshift.cli import doctor as command
from upshift.needs import NEEDED_DISK_BYTES
from upshift.toolchain import doctor
from upshift.toolchain.doctor import Finding, examine
from upshift.toolchain.find import Places


class Perf:
    """A machine with perf, where only some events work."""

    def __init__(self, *, pmu: bool) -> None:
        self.pmu = pmu

    def __call__(self, argv: tuple[str, ...]) -> tuple[int, str] | None:
        if argv[:2] == ("perf", "stat"):
            return (
                0,
                "12345,,cycles:u,100,100.00,,\n" if self.pmu else "<not supported>,,cycles:u,0,100.00,,\n",
            )
        if argv[:2] == ("perf", "record"):
            return 0, ""
        if argv == ("perf", "--version"):
            return 0, "perf version 6.1.187\n"
        return versions(argv)


def by_name(root: Path, perf: Perf, disk_bytes: int = 10**9) -> dict[str, Finding]:
    found = examine(FakeShell(perf), disk_bytes=disk_bytes, places=Places(root=root, path=(root / "usr/bin",)))
    return {one.name: one for one in found}


def test_a_bare_machine_is_told_how_to_get_everything(tmp_path: Path) -> None:
    none = examine(FakeShell(lambda _: None), disk_bytes=10**9, places=Places(root=tmp_path, path=(tmp_path,)))
    missing = {one.name: one for one in none if one.state == "missing"}
    assert {"clang", "gcc", "icx", "lld", "bolt", "perf", "sysbench", "cmake"} <= set(missing)
    assert all(one.hint and one.allows for one in missing.values())
    assert "clang-22" in missing["clang"].hint


def test_what_works_is_found_with_its_version(tmp_path: Path) -> None:
    llvm(tmp_path, "22.1.8")
    found = by_name(tmp_path, Perf(pmu=True))
    assert found["clang"].version == found["bolt"].version == found["lld"].version == "22.1.8"
    assert found["perf"].version == "6.1.187"
    assert found["perf sampling"].state == found["hardware counters"].state == "found"


def test_an_old_cargo_is_named_with_the_version_to_install(tmp_path: Path) -> None:
    class OldCargo(Perf):
        def __call__(self, argv: tuple[str, ...]) -> tuple[int, str] | None:
            return (0, "cargo 1.63.0\n") if argv == ("cargo", "--version") else super().__call__(argv)

    cargo = by_name(tmp_path, OldCargo(pmu=False))["cargo"]
    assert (cargo.state, cargo.required) == ("missing", False)
    assert "Rust 1.88" in cargo.hint


def test_a_header_that_is_missing_makes_the_machine_not_ready(tmp_path: Path) -> None:
    class Packaged(Perf):
        def __call__(self, argv: tuple[str, ...]) -> tuple[int, str] | None:
            if argv[0] == "dpkg-query":
                return 0, "".join(f"ii :{name}\n" for name in argv[4:] if name != "libtirpc-dev")
            if argv[0] == "apt-cache":
                return 0, "".join(f"{name}:\n  Installed: (none)\n  Candidate: 1\n" for name in argv[2:])
            return super().__call__(argv)

    packages = by_name(tmp_path, Packaged(pmu=False))["packages"]
    assert (packages.state, packages.required) == ("missing", True)
    assert packages.hint == "run `sudo apt-get install --no-install-recommends libtirpc-dev`"


def test_a_virtual_machine_samples_by_the_clock_only(tmp_path: Path) -> None:
    found = by_name(tmp_path, Perf(pmu=False))
    assert found["perf sampling"].state == "found"
    assert found["hardware counters"].state == "missing"


def test_an_old_or_a_halved_compiler_is_called_that(tmp_path: Path) -> None:
    llvm(tmp_path, "13.0.0")
    old = by_name(tmp_path, Perf(pmu=False))["clang"]
    assert (old.state, old.version) == ("too old", "13.0.0")
    assert "needed 14" in old.hint
    llvm(tmp_path / "other", "22.1.8", without=("ld.lld",))
    assert "lacks lld" in by_name(tmp_path / "other", Perf(pmu=False))["clang"].hint


def test_too_little_memory_and_disk_are_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_MEMORY_NEEDED_GIB", 10**6)
    monkeypatch.setenv("UPSHIFT_NEEDED_MEMORY_BYTES", "0")
    monkeypatch.setenv("UPSHIFT_CACHE", str(tmp_path / "not" / "yet" / "there"))
    found = by_name(tmp_path, Perf(pmu=False), disk_bytes=10**18)
    assert found["memory"].state == found["disk"].state == "too small"
    assert "UPSHIFT_CACHE" in found["disk"].hint
    assert str(tmp_path) in found["disk"].version


@pytest.mark.parametrize(("free_bytes", "required"), [(2_900_000_000, True), (3_100_000_000, False)])
def test_a_machine_on_which_optimize_refuses_for_memory_is_not_ready(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free_bytes: int, required: bool
) -> None:
    """Where perf samples, too."""
    monkeypatch.delenv("UPSHIFT_NEEDED_MEMORY_BYTES", raising=False)
    monkeypatch.setattr(control_groups, "memory_total_bytes", lambda: 4 * 1024**3)
    monkeypatch.setattr(control_groups, "memory_available_bytes", lambda: free_bytes)
    memory = by_name(tmp_path, Perf(pmu=True))["memory"]
    assert (memory.state, memory.required) == ("too small", required)
    if required:
        assert memory.version == "4.0 GiB, 2.9 GB of it free" and memory.hint.startswith("3 GB must be free")
        monkeypatch.setenv("UPSHIFT_NEEDED_MEMORY_BYTES", "2000000000")
        assert not by_name(tmp_path, Perf(pmu=True))["memory"].required


def finding(name: str, **changes: object) -> Finding:
    row = {"name": name, "state": "found", "version": "1", "hint": "", "allows": "x", "required": True}
    return Finding.model_validate({**row, **changes})


def run(monkeypatch: pytest.MonkeyPatch, findings: list[Finding], *arguments: str) -> tuple[int, str]:
    def examine(_shell: object, *, disk_bytes: int) -> tuple[Finding, ...]:
        assert disk_bytes >= NEEDED_DISK_BYTES  # as `optimize` says
        return tuple(findings)

    monkeypatch.setattr(doctor, "examine", examine)
    app = typer.Typer()
    app.command()(command.doctor)
    done = CliRunner().invoke(app, list(arguments))
    return done.exit_code, done.stdout


def test_json_says_ready_and_the_exit_code_agrees(monkeypatch: pytest.MonkeyPatch) -> None:
    optional = finding("icx", state="missing", required=False, hint="buy")
    code, stdout = run(monkeypatch, [finding("clang"), optional], "--json")
    assert code == 0
    assert json.loads(stdout)["ready"] is True
    code, stdout = run(monkeypatch, [finding("clang", state="too old", hint="newer")], "--json")
    assert code == 1
    assert json.loads(stdout)["findings"][0]["state"] == "too old"


def test_the_table_names_what_is_lacking_and_marks_what_is_optional(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [
        finding("sysbench", state="missing", hint="install sysbench"),
        finding("icx", state="missing", required=False),
    ]
    code, stdout = run(monkeypatch, rows)
    assert code == 1
    assert "Not ready: sysbench." in stdout
    assert "hint: install sysbench" in stdout
    assert "missing, optional" in stdout


def test_the_list_fits_80_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    long = finding("hardware counters", state="missing", required=False, version="", hint="take it " * 30, allows="word " * 40)
    _, stdout = run(monkeypatch, [long, finding("cpu", version="2 x Some Processor With A Name @ 2.20GHz")])
    assert max(map(len, stdout.splitlines())) <= 80
    assert stdout.startswith("hardware counters  missing, optional\n    For word word")
