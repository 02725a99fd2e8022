"""Servers that exist already are measured: `upshift measure`."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest
from conftest import Cli, Done, Run, measuring, pairs, workload

from upshift.measure.model import Slice
from upshift.measure.samples import read_samples

pytestmark = pytest.mark.pipeline


@pytest.fixture
def without_cargo(tmp_path: Path) -> dict[str, str]:
    """The environment of an ``upshift`` that cannot build the program that measures the machine."""
    broken = tmp_path / "bin" / "cargo"
    broken.parent.mkdir()
    broken.write_text("#!/bin/sh\nexit 1\n")
    broken.chmod(0o755)
    return {"PATH": f"{broken.parent}:{os.environ['PATH']}"}


def test_servers_are_measured_against_the_first_of_them(
    cli: Cli, plain: Path, today: Path, without_cargo: dict[str, str], tmp_path: Path
) -> None:
    variant = tmp_path / "niced.toml"
    variant.write_text(f'binary = "{plain}"\nunder = ["nice", "-n", "5"]\n[environment]\nMALLOC_ARENA_MAX = "1"\n')
    arms = (f"plain={plain}", f"today={today}", str(variant))
    done = cli.measure(*arms, "--connections", "2,4", "--card-seconds", "5", env=without_cargo)
    assert done.code == 0, done.stderr
    result = done.result()
    assert [arm.name for arm in result.experiment.arms] == ["plain", "today", "niced"]
    niced = result.experiment.arms[-1]
    assert (niced.under, niced.environment) == (("nice", "-n", "5"), {"MALLOC_ARENA_MAX": "1"})
    assert pairs(result) == {("today", "plain"), ("niced", "plain")}
    qps = [one for one in result.comparisons if one.metric == "qps"]
    loads = {(one.arm, one.workload, one.connections, one.held_out) for one in qps}
    assert loads == {(arm, "mix", connections, False) for arm in ("today", "niced") for connections in (2, 4)}
    assert all(one.trials == 2 and 0 < one.ci_low < one.ratio < one.ci_high for one in qps)
    assert result.builds == () and result.package == ""
    # A machine that cannot be measured itself is a warning.
    assert result.card is None
    assert result.warnings == (
        "the machine card was not measured: there is no working cargo, which builds the programs in crates/",
    )
    run = cli.runs()[-1]
    assert {"samples.parquet", "report.html", "result.json", "commands.log"} <= {file.name for file in run.iterdir()}
    again = cli("report", "--json")
    assert again.result() == result


def test_a_pilot_chooses_the_lead_in_before_the_trials(cli: Cli, plain: Path, today: Path) -> None:
    narrow = ("--until", "50%", "--budget", "2m", "--trials", "2", "--rounds", "2", "--warmup-seconds", "1", "-c", "2")
    servers = (f"plain={plain}", f"today={today}", "--workload", workload("mix"))
    done = cli("measure", *servers, *narrow, "--card-seconds", "0", "--no-install", "--json")
    assert done.code == 0, done.stderr
    (chosen,) = done.result().experiment.lead_ins
    assert chosen.workload == "mix" and f"a lead-in of {chosen.lead_s:g} s for mix" in done.stderr
    run = cli.runs()[-1]
    assert (run / "samples.pilot.json").is_file()
    assert f"a lead-in of {chosen.lead_s:g} s for mix" in (run / "report.html").read_text()


def test_a_variant_is_measured_on_data_that_its_sql_has_changed(cli: Cli, plain: Path, tmp_path: Path) -> None:
    fix = tmp_path / "fix.sql"
    fix.write_text("CREATE TABLE extra (id INT, c TEXT)\nINSERT INTO extra VALUES (1, 'one')\n")
    variant = tmp_path / "more.toml"
    variant.write_text(f'binary = "{plain}"\nsql = ["fix.sql"]\n')

    def measured() -> Done:
        return cli.measure(f"plain={plain}", str(variant), "--connections", "2", "--trials", "1")

    done = measured()
    assert done.code == 0, done.stderr
    before, after = done.result().experiment.arms
    assert (before.sql, after.sql) == ((), (fix,))
    (template,) = (cli.cache / "stages").glob("changed-data-*/data/tables.dat")
    assert b"extra" in template.read_bytes()
    fix.write_text("INSERT INTO absent VALUES (1)\n")
    refused = measured()
    assert refused.code == 2 and "fix.sql: the server refuses it: ERR" in " ".join(refused.stderr.split())


QUICK_DUET = ("--duet", "--connections", "2", "--rounds", "2", "--lead-seconds", "0.3")
CPUS = sorted(os.sched_getaffinity(0))


def swapped(cli: Cli) -> bool:
    """Whether the samples of the last run are of two servers at the same time, each on either CPUs as often."""
    slices = read_samples(cli.runs()[-1] / "samples.parquet")
    times: dict[tuple[int, int], list[Slice]] = {}
    for each in slices:
        times.setdefault((each.trial, each.round), []).append(each)
    at_once = all(
        {each.arm for each in pair} == {"plain", "today"} and abs(pair[0].started_s - pair[1].started_s) < pair[0].wall_s / 2
        for pair in times.values()
    )
    seats = Counter((each.arm, each.seat) for each in slices)
    return at_once and len(times) == 4 and set(seats.values()) == {2} and len(seats) == 4


@pytest.mark.skipif(len(CPUS) < 2, reason="two servers need a CPU each")
def test_a_duet_is_measured_on_the_cpus_that_its_servers_name(cli: Cli, plain: Path, today: Path, tmp_path: Path) -> None:
    """Each server shares its CPU with its load here, so that two CPUs are enough."""
    for name, server, cpu in (("plain", plain, CPUS[0]), ("today", today, CPUS[1])):
        (tmp_path / f"{name}.toml").write_text(f'binary = "{server}"\nserver_cpus = [{cpu}]\nclient_cpus = [{cpu}]\n')
    arms = (str(tmp_path / "plain.toml"), str(tmp_path / "today.toml"))
    done = cli.measure(*arms, *QUICK_DUET)
    assert done.code == 0, done.stderr
    result = done.result()
    assert [seat.server_cpus for seat in result.experiment.plan.duet] == [(CPUS[0],), (CPUS[1],)]
    assert pairs(result) == {("today", "plain")}
    # User and system time are counted in ticks: in trials this short one of them can have none.
    exact = [one for one in result.comparisons if one.metric in ("qps", "total_cpu_us_per_query")]
    assert len(exact) == 2 and all(one.trials == 2 for one in exact)
    assert swapped(cli)
    page = (cli.runs()[-1] / "report.html").read_text()
    assert f"one on CPU {CPUS[0]} with its load on CPU {CPUS[0]} and the other on CPU {CPUS[1]} with its load" in page
    assert "They share CPUs" in page
    taken = tmp_path / "today.toml"
    taken.write_text(taken.read_text() + f'under = ["taskset", "--cpu-list", "{CPUS[0]}"]\n')
    refused = cli.measure(*arms, *QUICK_DUET)
    assert refused.code == 1
    assert "arm 'today': it runs on other CPUs than it was given" in " ".join(refused.stderr.split())


@pytest.mark.skipif(len(CPUS) < 4, reason="a duet that divides the CPUs by itself takes four, and this machine has fewer")
def test_a_duet_divides_the_cpus(cli: Cli, plain: Path, today: Path) -> None:
    done = cli.measure(f"plain={plain}", f"today={today}", *QUICK_DUET)
    assert done.code == 0, done.stderr
    plan = done.result().experiment.plan
    assert len(plan.duet) == 2 and set(plan.server_cpus).isdisjoint(plan.client_cpus)
    assert swapped(cli)


@pytest.mark.skipif(len(CPUS) >= 4, reason="this machine has the CPUs that a duet takes")
def test_a_duet_on_too_few_cpus_is_refused(cli: Cli, here: Run, plain: Path, today: Path) -> None:
    before = cli.runs()
    done = here(*measuring(f"plain={plain}", f"today={today}", *QUICK_DUET))
    assert done.code == 2 and cli.runs() == before
    said = " ".join(done.stderr.split())
    assert f"Upshift may use {len(CPUS)} CPU" in said and "hint: use a machine with four CPUs or more" in said


def test_a_server_that_does_not_run_is_refused_before_anything_is_measured(cli: Cli, plain: Path, tmp_path: Path) -> None:
    broken = tmp_path / "smallserver"
    broken.write_bytes(b"\x7fELF")
    broken.chmod(0o755)
    before = cli.runs()
    done = cli.measure(f"plain={plain}", f"today={broken}")
    assert done.code in (1, 2)
    assert str(broken) in done.stderr and "hint:" in done.stderr and "Traceback" not in done.stderr
    assert cli.runs() == before


def test_a_setting_that_the_server_refuses_is_told_with_the_arms_name(cli: Cli, plain: Path, tmp_path: Path) -> None:
    variant = tmp_path / "coloured.toml"
    variant.write_text(f'binary = "{plain}"\n[settings]\ncolour = "red"\n')
    done = cli.measure(f"plain={plain}", str(variant))
    assert done.code == 1
    said = " ".join(done.stderr.split())
    assert "arm 'coloured': the server did not start" in said and "colour" in said.partition("did not start")[2]
    assert "hint:" in said and "Traceback" not in said
