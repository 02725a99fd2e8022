"""A proof: what the program said becomes parts and a verdict, bad input is refused before any work."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import typer
from fakes import FakeShell

from upshift.cli.app import app
from upshift.errors import UsageError
from upshift.prove import suites
from upshift.prove.model import Asked, Part, Proof
from upshift.prove.reading import compared, crashes, short_paths, stormed, switches
from upshift.prove.terminal import lines
from upshift.server import mtr
from upshift.server.kind import TestOutcome


def difference(*, steady: bool) -> dict[str, Any]:
    return {"what": "packet 1", "statement": "SELECT 1;", "script": "SELECT 2;\n", "steady": steady}


def test_a_difference_that_stock_has_with_itself_is_no_fault_of_the_patch() -> None:
    said = {"statements": 7, "wall_s": 2.0, "differences": [difference(steady=True), difference(steady=False)]}
    part = compared("random", said)
    assert part.wrong == ("packet 1\nSELECT 2;",)
    assert len(part.unsteady) == 1 and part.statements == 7


def test_a_connection_that_the_patched_server_alone_lost_is_wrong_each_time() -> None:
    lost = {**difference(steady=False), "what": "SHOW WARNINGS after it: the patched server's connection is lost: Broken pipe"}
    part = compared("random", {"statements": 7, "wall_s": 2.0, "differences": [lost]})
    assert len(part.wrong) == 1 and part.unsteady == ()


def test_a_short_path_that_no_statement_took_is_named() -> None:
    before = {"Questions": "1", "Ps_trim_used": "3", "Ps_idle_used": "5", "Ps_idle_fallbacks": "0"}
    after = {"Questions": "9", "Ps_trim_used": "7", "Ps_idle_used": "5", "Ps_idle_fallbacks": "2"}
    taken = short_paths({"Questions": "1"}, before, after)
    assert taken == {"Ps_idle_used": 0, "Ps_trim_used": 4}
    asked = Asked(stock=Path("/a"), patched=Path("/b"))
    told = list(lines(Proof(asked=asked, switches={}, short_paths=taken, parts=(), verdict="equal")))
    assert any("Ps_idle_used" in line and "Ps_trim_used" not in line for line in told)


def test_a_lost_server_and_a_crash_in_the_log_are_wrong() -> None:
    said = {"statements": 7, "wall_s": 2.0, "wrong": ["a row"], "lost": True}
    found = crashes("all is well\n2026-11-23T04:48:30Z UTC - mysqld got signal 11 ;\nbye\n")
    part = stormed("storm", said, *found)
    assert part.wrong == ("a row", "the server was lost", "2026-11-23T04:48:30Z UTC - mysqld got signal 11 ;")
    assert stormed("crash", {**said, "wrong": [], "lost": False}).wrong == ()


def test_the_switches_are_what_only_the_patched_server_has() -> None:
    stock = {"autocommit": "ON", "port": "3306"}
    assert switches(stock, {**stock, "ps_point_lookup": "OFF", "size": "5"}) == {"ps_point_lookup": "OFF"}


@pytest.mark.parametrize(("wrong", "verdict"), [((), "equal"), (("packet 3",), "different")])
def test_people_see_the_verdict_first(wrong: tuple[str, ...], verdict: Any) -> None:
    asked = Asked(stock=Path("/a"), patched=Path("/b"))
    part = Part(name="mix", statements=10, wall_s=1, wrong=wrong, detail={})
    told = list(lines(Proof(asked=asked, switches={}, parts=(part,), verdict=verdict)))
    assert told[0].startswith(f"{verdict}: /b against /a")
    assert any("packet 3" in line for line in told) == bool(wrong)


def build_folder(root: Path) -> Path:
    """The server in a folder that CMake made."""
    server = root / "tree" / "runtime_output_directory" / "stock"
    server.parent.mkdir(parents=True)
    server.touch()
    (root / "tree" / "CMakeCache.txt").write_text(f"A:B=C\nCMAKE_HOME_DIRECTORY:INTERNAL={root}\n")
    return server


def run(*arguments: str) -> None:
    typer.main.get_command(app).main(["patch", "prove", *arguments], standalone_mode=False)


def test_bad_input_is_refused_before_any_work(tmp_path: Path) -> None:
    server = tmp_path / "mysqld"
    server.touch()
    both = ("--stock", str(server), "--patched", str(server))
    built = build_folder(tmp_path)
    for arguments, message in (
        (("--stock", str(server), "--patched", str(tmp_path / "none")), "--patched: there is no"),
        ((*both, "--setting", "ON"), "NAME=VALUE"),
        ((*both, "--setting", "a_b=1", "--setting", "a-b=2"), "named twice"),
        ((*both, "--allow", str(tmp_path / "none.toml")), "--allow: there is no"),
        ((*both, "--keep", str(tmp_path)), "there already"),
        ((*both, "--mtr", "main"), "does not lie in the folder that it was built in"),
        ((*both, "--mtr", "main", "--mtr-source", str(tmp_path)), "does not lie in the folder that it was built in"),
        (("--stock", str(built), "--patched", str(server), "--mtr", "nosuite"), "MySQL has no tests nosuite"),
    ):
        with pytest.raises(UsageError, match=message):
            run(*arguments)


def test_a_dry_run_names_the_parts_and_starts_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    server = tmp_path / "mysqld"
    server.touch()
    run("--stock", str(server), "--patched", str(server), "--dry-run", "--minutes", "0", "--statements", "500", "--seed", "9")
    assert capsys.readouterr().out.splitlines() == ["mix: fixed statements", "random: 500 statements from seed 9"]


class _Mtr:
    """MTR with a server that fails main.ps when the switch is ON, and main.flaky once."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked: list[tuple[str, str, tuple[str, ...]]] = []
        self.logs: set[Path] = set()
        monkeypatch.setattr(mtr, "run_tests", self.run)

    def run(self, *given: Any, jobs: int, options: tuple[str, ...]) -> TestOutcome:
        bench, _source, _tree, server, tests = given
        self.logs.add(bench.log)
        first = not any(asked[2] == options for asked in self.asked)
        self.asked.append((server.name, tests, options))
        fails = {"main.ps"} if "--mysqld=--loose-a-switch=ON" in options and server.name == "patched" else set()
        if first and server.name == "patched":
            fails |= {"main.flaky"}
        names = {"main.ps", "main.flaky", "main.1st"} if tests == "main" else set(tests.split(","))
        passing = tuple(sorted(names - fails))
        return TestOutcome(run=len(names), passed=len(passing), failed=tuple(sorted(fails)), passing=passing)


def test_what_fails_on_the_patched_server_alone_is_wrong_and_what_passes_again_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = _Mtr(monkeypatch)
    asked = Asked(stock=build_folder(tmp_path), patched=tmp_path / "patched", suites=("main",))
    on, off, ps_on, ps_off = suites.parts(FakeShell({}), asked, ("a_switch",), tmp_path, say=lambda text: None)
    assert len(on.wrong) == 1 and "main.ps" in on.wrong[0] and "main.flaky" not in on.wrong[0]
    assert off.wrong == () and off.unsteady == ("main.flaky",) and off.statements == 3
    assert len(ps_on.wrong) == 1 and ps_off.wrong == ()
    assert "patched server alone" in on.wrong[0] and off.detail["tests"] == "main with all switches OFF"
    assert len(fake.logs) == 4
    protocols = {options[0] for _, _, options in fake.asked if len(options) == 2}
    assert protocols == {"--ps-protocol"}
