"""The report on a terminal and as JSON; the command's options; what is measured for a finding."""

from __future__ import annotations

import contextlib
import io
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from cards import MACHINE, card
from examples import EXAMPLES
from in_process import Run, run_main
from rich.console import Console
from served import MARIADB, WELL, changed, table

from upshift import console, pipeline, plan
from upshift.card.model import Card, MachineCard
from upshift.check import gather, prove, session
from upshift.check.model import Facts, Report
from upshift.check.prove import find_binary, find_finding, told, variants_of
from upshift.check.rule import judge
from upshift.check.rules import RULES
from upshift.check.terminal import show
from upshift.cli import app as cli_app
from upshift.cli import outcome
from upshift.errors import UsageError
from upshift.measure.model import Comparison, Verdict

BAD = changed(
    variables={"innodb_checksum_algorithm": "none", "general_log": "ON", "innodb_stats_persistent_sample_pages": "2"},
    tables=tuple(table(f"old_{number}", engine="MyISAM") for number in range(30)),
    status={"uptime": "60"},
    unseen={"machine": "it runs elsewhere", "disk": "it runs elsewhere"},
).model_copy(update={"host": None})


def reported(facts: Facts) -> Report:
    return judge(facts, RULES, server="db:3306")


def printed(report: Report, width: int = 80) -> str:
    stream = io.StringIO()
    show(report, Console(file=stream, width=width, highlight=False, soft_wrap=True, emoji=False))
    return stream.getvalue()


def test_the_report_fits_80_columns_and_has_all_parts() -> None:
    text = printed(reported(BAD))
    assert max(map(len, text.splitlines())) <= 80
    lines = text.splitlines()
    assert lines[0] == "MySQL 9.7.4 at db:3306, on another machine, up 1 min 00 s"
    assert lines[2].startswith("ERROR checksums-off: ")
    flat = " ".join(text.split())
    assert "my.cnf innodb_checksum_algorithm = crc32 effect A damaged page" in flat
    assert "ALTER TABLE `shop`.`old_9` ENGINE=InnoDB;" in flat and "and 20 more" in flat and "old_10` ENGINE" not in flat
    assert "1 error, 2 warnings, 1 note" in flat
    assert "looked at and well" in flat and "not judged: it runs elsewhere" in flat and "not seen: machine" in flat
    assert "--prove checksums-off" in flat and "--prove myisam-tables" not in flat


@pytest.mark.parametrize("id", ["barriers-off", "text-small-pages", "joins-without-index"])
def test_what_is_pasted_is_on_one_line_however_narrow_the_terminal(id: str) -> None:
    report = reported(EXAMPLES[id].firing)
    (finding,) = report.findings
    (line,) = (*finding.shell, *finding.sql)
    assert len(line) > 60
    shown = [each for each in printed(report, 60).splitlines() if each.rstrip(";").endswith(line)]
    assert shown == [f"    {'shell' if finding.shell else 'SQL':<8}{line}{'' if finding.shell else ';'}"]


def test_nothing_found() -> None:
    assert "nothing found" in printed(reported(WELL))


def mysqld(base: Path, version: str = "9.7.4") -> Path:
    """A program that tells its version as MySQL's does."""
    program = base / "bin" / "mysqld"
    program.parent.mkdir(exist_ok=True)
    program.write_text(f"#!/bin/sh\necho '{program}  Ver {version} for Linux on x86_64 (Source distribution)'\n")
    program.chmod(0o755)
    return program


@pytest.fixture
def upshift(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    """Runs the command on the server ``BAD``; exit code, stdout and stderr."""

    @contextlib.contextmanager
    def opened(_address: Any) -> Iterator[None]:
        yield None

    monkeypatch.setattr(session, "opened", opened)
    monkeypatch.setattr(gather, "read_facts", lambda _session, card: BAD)
    monkeypatch.setenv("UPSHIFT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HOME", str(tmp_path))

    def run(*arguments: str, server: str = "mysql://db") -> tuple[int, str, str]:
        return run_main(monkeypatch, capsys, "check", "--server", server, *arguments)

    return run


def test_json_is_the_report(upshift: Run) -> None:
    code, out, err = upshift("--json")
    told = json.loads(out)
    assert (code, err) == (0, "") and told["schema_version"] == 1
    assert Report.model_validate(told) == reported(BAD)


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ((), 0),
        (("--fail-on", "error"), 1),
        (("--fail-on", "error", "--ignore", "checksums-off"), 0),
        (("--fail-on", "warning", "--ignore", "checksums-off"), 1),
        (("--fail-on", "warning", "--only", "statistics-few-pages"), 0),
        (("--fail-on", "warning", "--only", "general-log-on"), 1),
    ],
)
def test_exit_codes(upshift: Run, arguments: tuple[str, ...], code: int) -> None:
    assert upshift(*arguments)[0] == code


def test_only_and_ignore(upshift: Run) -> None:
    told = json.loads(upshift("--json", "--only", "general-log-on", "--only", "checksums-off", "--ignore", "checksums-off")[1])
    assert [each["id"] for each in told["findings"]] == ["general-log-on"]
    assert len(told["ignored"]) == len(RULES) - 1 and not told["well"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--only", "checksum"), "did you mean checksums-off?"),
        (("--ignore", "xyzzy"), "docs/reference/check.md lists the rules"),
        (("--prove", "xyzzy"), "there is no rule 'xyzzy'"),
        (("--prove", "flush-method"), "the server is well there"),
        (("--prove", "redo-small"), "it was not judged: the counters cover 60 s"),
        (("--prove", "myisam-tables"), "cannot be proven"),
        (("--prove", "general-log-on"), "another machine"),
        (("--prove", "general-log-on", "--binary", "/no/such"), "is not an executable"),
        (("--prove", "general-log-on", "--connections", "many"), "--connections takes counts"),
        (("--prove", "general-log-on", "--until", "much"), "--until"),
        (("--fail-on", "note"), "'--fail-on'"),
        (("--until", "1%"), "--until belongs to --prove"),
        (("--dry-run",), "--dry-run belongs to --prove"),
        (("--trials", "6"), "--trials belongs to --prove"),
        (("-c", "64"), "--connections belongs to --prove"),
        (("--slice-seconds", "1"), "--slice-seconds belongs to --prove"),
        (("--no-install",), "--no-install belongs to --prove"),
        (("--prove", "general-log-on", "--fail-on", "error"), "--fail-on does nothing beside --prove"),
        (("--prove", "general-log-on", "--ignore", "general-log-on"), "--ignore does nothing beside --prove"),
    ],
)
def test_what_cannot_be_meant(upshift: Run, arguments: tuple[str, ...], said: str) -> None:
    code, out, err = upshift(*arguments)
    assert code == 2 and said in err and not out and "Traceback" not in err


@pytest.mark.parametrize(
    ("text", "said"), [(None, "cannot be read"), ("{}", "is not a machine card: machine: this key is missing")]
)
def test_a_card_that_is_none(upshift: Run, tmp_path: Path, text: str | None, said: str) -> None:
    file = tmp_path / "card.json"
    if text:
        file.write_text(text)
    code, out, err = upshift("--card", str(file))
    assert code == 2 and said in err and "upshift card --json" in err and not out


def test_a_card_is_among_the_facts(upshift: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "card.json"
    file.write_text(MachineCard(machine=MACHINE, card=card()).model_dump_json())
    named: list[Any] = []

    def read_facts(_session: Any, *, card: Card) -> Facts:
        named.append(card)
        return BAD

    monkeypatch.setattr(gather, "read_facts", read_facts)
    assert upshift("--card", str(file))[0] == 0
    assert named == [card()]


def test_postgresql_is_refused_with_a_hint(upshift: Run) -> None:
    code, _out, err = upshift(server="postgres://db")
    assert code == 2 and "not PostgreSQL" in err and "hint: " in err


def test_a_server_that_is_not_there_is_exit_code_1(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["upshift", "check", "--server", "mysql://me@/?socket=/no/such/socket"])
    with pytest.raises(SystemExit) as end:
        cli_app.main()
    assert end.value.code == 1
    assert "ERROR no server answers at /no/such/socket" in capsys.readouterr().err


def test_a_finding_is_measured_as_two_variants(upshift: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    measured: list[Any] = []

    def measure_variants(_lab: Any, measuring: Any, variants: Any) -> Any:
        measured.extend((measuring, variants))
        return SimpleNamespace(experiment=SimpleNamespace(comparisons=()))

    # A script is refused, and this program does not tell a server's version.
    monkeypatch.setattr(prove, "_version", lambda _program: BAD.version)
    monkeypatch.setattr(plan, "refuse_unstartable", len)
    monkeypatch.setattr(plan, "prepare_measuring", lambda options, variants, **_named: options)
    monkeypatch.setattr(pipeline, "measure_variants", measure_variants)
    monkeypatch.setattr(outcome, "show_outcome", lambda result, run, as_json: console.result("measured"))
    code, out, err = upshift("--prove", "general-log-on", "--binary", "/bin/true", "-c", "4", "--trials", "2")
    assert code == 0 and out == "measured\n", err
    options, (now, fixed) = measured
    assert (options.workloads, options.connections, options.trials, options.held_out) == (("oltp_read_write",), (4,), 2, ())
    assert (now.name, dict(now.settings)) == ("now", {"general_log": "ON"})
    assert (fixed.name, dict(fixed.settings)) == ("fixed", {"general_log": "OFF"})
    assert now.program == fixed.program and now.program.binary == Path("/bin/true").resolve()
    assert "general_log=ON" in err and "general_log=OFF" in err


@pytest.mark.parametrize(
    ("verdict", "said"),
    [
        ("faster", "proven here, the fix is faster"),
        ("slower", "the fix costs throughput here"),
        ("equivalent", "no difference here"),
        ("inconclusive", "not settled here"),
    ],
)
def test_what_was_measured_is_said_of_the_finding(verdict: Verdict, said: str) -> None:
    compared = Comparison.model_construct(
        workload="oltp_read_write", connections=8, metric="qps", arm="fixed", ratio=1.1, ci_low=1.05, ci_high=1.15
    ).model_copy(update={"confidence": 0.95, "verdict": verdict})
    other = compared.model_copy(update={"metric": "latency_ms_p99"})
    (line,) = told("general-log-on", (other, compared))
    assert line == f"general-log-on: {said} (oltp_read_write at 8 connections: 1.10x, 1.05 to 1.15 at 95 %)"


def test_a_dry_run_measures_nothing(upshift: Run, tmp_path: Path) -> None:
    named = ("--binary", str(mysqld(tmp_path)))
    code, out, _err = upshift("--prove", "general-log-on", *named, "--dry-run", "--json")
    told = json.loads(out)
    assert code == 0 and told["dry_run"] and told["stages"][0]["name"] == "data"


def test_settings_that_are_no_variables_are_measured_too() -> None:
    facts = changed(instruments=300, variables={"plugin_dir": "/usr/lib", "lc_messages_dir": "/no/such"})
    now, fixed = variants_of(find_finding(reported(facts), "instruments-many"), facts, Path("/bin/true"))
    assert now.settings == {"performance_schema_instrument": "wait/synch/%=ON"}
    assert fixed.settings == {"performance_schema_instrument": "wait/synch/%=OFF"}
    assert now.program.options == ("--plugin-dir=/usr/lib",)


@pytest.mark.parametrize(
    ("id", "beside"),
    [
        ("tmp-table-pair", {"tmp_table_size": "268435456", "internal_tmp_mem_storage_engine": "MEMORY"}),
        ("slow-log-all", {"slow_query_log": "ON"}),
        ("tmp-tables-on-disk", {"internal_tmp_mem_storage_engine": "TempTable"}),
    ],
)
def test_both_servers_have_what_the_fix_needs_to_show(id: str, beside: Mapping[str, str]) -> None:
    """The laboratory's own server has no slow log, and another engine for temporary tables: there the fix changed nothing."""
    facts = EXAMPLES[id].firing
    found = find_finding(reported(facts), id)
    assert found.settings_beside == beside
    now, fixed = variants_of(found, facts, Path("/bin/true"))
    assert beside.items() <= now.settings.items() and beside.items() <= fixed.settings.items()
    assert now.settings != fixed.settings


def test_an_option_that_the_server_shows_under_another_name_is_measured_as_it_is() -> None:
    named = {name: value for name, value in MARIADB.variables.items() if name != "transaction_isolation"}
    facts = MARIADB.model_copy(update={"variables": {**named, "tx_isolation": "SERIALIZABLE"}})
    (found,) = (each for each in reported(facts).findings if each.id == "isolation-serializable")
    now, fixed = variants_of(found, facts, Path("/bin/true"))
    assert now.settings == {"transaction_isolation": "SERIALIZABLE"}
    assert fixed.settings == {"transaction_isolation": "REPEATABLE-READ"}


def test_the_running_servers_program_is_found(tmp_path: Path) -> None:
    program = mysqld(tmp_path)
    assert find_binary(changed(host={"program": str(program)}), None) == program
    moved = changed(host={"program": "/no/such (deleted)"}, variables={"basedir": str(tmp_path)})
    assert find_binary(moved, None) == program
    with pytest.raises(UsageError, match="no server's program below"):
        find_binary(changed(variables={"basedir": "/no/such"}), None)


@pytest.mark.parametrize(
    ("server", "said"),
    [
        (MARIADB, "this server is MariaDB"),
        (changed(version=(8, 0, 29), version_text="MySQL 8.0.29"), "this server is MySQL 8.0.29"),
        (changed(version=(8, 0, 30), version_text="MySQL 8.0.30"), ""),
    ],
)
def test_a_fix_is_measured_on_servers_that_upshift_starts(
    upshift: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, server: Facts, said: str
) -> None:
    server = changed(server, variables={"general_log": "ON"})
    (finding,) = (each for each in reported(server).findings if each.id == "general-log-on")
    assert finding.provable is (not said)
    assert ("--prove general-log-on" in printed(reported(server))) is (not said)
    monkeypatch.setattr(gather, "read_facts", lambda _session, card: server)
    named = ("--binary", str(mysqld(tmp_path, "8.0.30")))
    code, _out, err = upshift("--prove", "general-log-on", *named, "--dry-run")
    assert code == (2 if said else 0) and said in " ".join(err.split())


@pytest.mark.parametrize("version", ["9.7.3", "8.4.6-6", "10.11.14-MariaDB"])
def test_a_program_of_another_version_is_not_measured(tmp_path: Path, version: str) -> None:
    """It lies where the server's does in a container, or took its place in an upgrade."""
    program = mysqld(tmp_path, version)
    facts, numbers = changed(host={"program": str(program)}), version.partition("-")[0]
    for named in (None, program):
        with pytest.raises(UsageError, match=f"is MySQL {numbers}, and the server is MySQL 9.7.4") as refused:
            find_binary(facts, named)
        assert "--binary" in (refused.value.hint or "")
    assert find_binary(facts.model_copy(update={"version": tuple(map(int, numbers.split(".")))}), None) == program


def test_a_program_that_does_not_start_is_not_measured(tmp_path: Path) -> None:
    (program := mysqld(tmp_path)).write_text("no program")
    for each in (program, Path("/bin/false")):
        with pytest.raises(UsageError, match="does not tell its version, and the server is MySQL"):
            find_binary(changed(), each)
