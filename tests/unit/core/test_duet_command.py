"""`--duet` on machines of some CPUs: what is planned, shown and refused."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from upshift import resolve
from upshift.cli import app
from upshift.errors import UsageError
from upshift.measure.model import Plan
from upshift.measure.placement import Position, Seat
from upshift.measure.variant import Surroundings
from upshift.options import Options
from upshift.resolve import measuring_plan
from upshift.server.mysql import KIND
from upshift.study.file import read_study
from upshift.study.plan import StudyPlan, make_plan

TWO = ("a=/bin/true", "b=/bin/echo")


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Makes this machine one of so many cores."""

    def has(count: int) -> None:
        monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: set(range(count)))
        monkeypatch.setattr(resolve, "read_topology", lambda: {cpu: Position(0, (cpu,)) for cpu in range(count)})

    has(4)
    return has


def upshift(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> Any:
    monkeypatch.setattr(sys, "argv", ["upshift", *arguments])
    with pytest.raises(SystemExit) as end:
        app.main()
    return end.value.code or 0


def test_the_plan_of_a_duet_has_all_cpus_and_how_they_are_divided(machine: Callable[[int], None]) -> None:
    machine(8)
    made = measuring_plan(Options(duet=True))
    one = Seat(server_cpus=(0, 1, 2), client_cpus=(3,))
    assert made.duet == (one, Seat(server_cpus=(4, 5, 6), client_cpus=(7,))) and made.seat == one
    assert (made.server_cpus, made.client_cpus) == ((0, 1, 2, 4, 5, 6), (3, 7))
    in_turns = measuring_plan(Options())
    assert in_turns.duet == () and in_turns.seat == Seat(server_cpus=(0, 1, 2, 3, 4, 5), client_cpus=(6, 7))


def test_a_plan_without_a_duet_is_written_as_older_versions_wrote_it(machine: Callable[[int], None]) -> None:
    in_turns, duet = (measuring_plan(Options(duet=each)) for each in (False, True))
    assert "duet" not in in_turns.model_dump() and Plan.model_validate_json(in_turns.model_dump_json()) == in_turns
    assert len(duet.model_dump()["duet"]) == 2 and Plan.model_validate_json(duet.model_dump_json()) == duet


def test_variants_that_name_their_cpus_are_a_duet_on_those(machine: Callable[[int], None]) -> None:
    machine(2)
    arms = [Surroundings(server_cpus=(cpu,), client_cpus=(cpu,)) for cpu in (0, 1)]
    assert measuring_plan(Options(duet=True), arms).duet[1] == Seat(server_cpus=(1,), client_cpus=(1,))
    assert measuring_plan(Options(), arms).duet == ()


@pytest.mark.parametrize("command", [("measure", *TWO), ("optimize",)])
def test_fewer_than_four_cpus_are_refused_before_any_work(
    machine: Callable[[int], None],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    command: tuple[str, ...],
) -> None:
    machine(3)
    monkeypatch.setenv("UPSHIFT_CACHE", str(tmp_path / "cache"))
    assert upshift(monkeypatch, *command, "--duet", "--dry-run") == 2
    said = capsys.readouterr()
    assert "with two CPUs or more each, and Upshift may use 3 CPUs here" in said.err and "hint:" in said.err
    assert said.out == "" and not (tmp_path / "cache").exists()


@pytest.mark.parametrize("command", [("measure", *TWO), ("optimize",)])
def test_a_dry_run_says_that_it_would_be_a_duet_and_where(
    machine: Callable[[int], None],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    command: tuple[str, ...],
) -> None:
    def shown(*more: str) -> str:
        assert upshift(monkeypatch, *command, "--dry-run", *more) == 0
        return capsys.readouterr().out

    said = " ".join(shown("--duet").split())
    assert "A duet: both servers are loaded at the same time" in said
    assert "one on CPU 0 with its load on CPU 1 and the other on CPU 2 with its load on CPU 3" in said
    assert "A duet" not in shown()

    def measuring_s(*more: str) -> float:
        stages = json.loads(shown("--json", *more))["stages"]
        return next(float(each["wall_s"]) for each in stages if each["name"] == "measure")

    assert measuring_s("--duet") < measuring_s()


STUDY = """
budget = "2h"
duet = true
workloads = ["oltp_read_only"]
[base]
binary = "mysqld"
[factors.log.lazy]
settings = { innodb_flush_log_at_trx_commit = "2" }
[factors.spin.none]
settings = { innodb_spin_wait_delay = "0" }
"""


def planned(folder: Path, text: str) -> StudyPlan:
    (folder / "mysqld").touch(mode=0o755)
    (folder / "mine.toml").write_text(text)
    study = read_study(folder / "mine.toml")
    return make_plan(study, KIND, measuring_plan(study.options()), {})


def test_a_study_measures_each_row_at_the_same_time_as_the_first(machine: Callable[[int], None], tmp_path: Path) -> None:
    assert planned(tmp_path, STUDY).arms_at_once == 2
    assert planned(tmp_path, STUDY.replace("true", "false")).arms_at_once == 4


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("duet = true", "duet = true\nrounds = 3", "3 turns are no even number"),
        ("[base]", "[base]\nserver_cpus = [0]", "row 'off' names its CPUs, and a duet swaps the CPUs of its servers"),
        ("[factors.spin.none]", "[factors.spin.none]\nclient_cpus = [1]", "row 'spin' names its CPUs"),
        ("duet = true", 'duet = "yes, please"', "duet"),
    ],
)
def test_a_study_that_makes_no_duet_is_refused(
    machine: Callable[[int], None], tmp_path: Path, old: str, new: str, message: str
) -> None:
    with pytest.raises(UsageError, match=message) as refused:
        planned(tmp_path, STUDY.replace(old, new))
    assert refused.value.hint


def test_a_study_says_in_its_dry_run_that_it_is_a_duet(
    machine: Callable[[int], None], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    planned(tmp_path, STUDY)
    assert upshift(monkeypatch, "study", str(tmp_path / "mine.toml"), "--dry-run") == 0
    assert "A duet: both servers are loaded at the same time" in " ".join(capsys.readouterr().out.split())
    assert upshift(monkeypatch, "study", str(tmp_path / "mine.toml"), "--dry-run", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert told["duet"][1] == {"server_cpus": [2], "client_cpus": [3]} and told["arms_at_once"] == 2
