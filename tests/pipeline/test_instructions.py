"""Instructions are counted to the query by valgrind: a busy machine changes nothing."""

from __future__ import annotations

import shutil
import tarfile
from pathlib import Path

import pytest
from conftest import SOURCE, Cli, workload

from upshift.archive import unpack
from upshift.instructions.model import Instructions

pytestmark = pytest.mark.pipeline

EXECUTE = "int64_t execute(const Statement& statement, Database& database, Arena& arena, std::string& out) {\n"
# Once a statement: a thousand times round a loop of two instructions, behind the one that loads its counter.
SPIN = '    asm volatile("mov $1000, %%ecx\\n1: dec %%ecx\\n jnz 1b" ::: "rcx", "cc");\n'
PLANTED = 2001
ROUND_IT = 4
"""What the compiler may need to keep the register, and to call the function rather than to inline it."""


BY_VALGRIND = {"UPSHIFT_PERF": "off"}
"""To the instruction: a processor's counters see interrupts, too."""


def counted(cli: Cli, *arguments: str) -> Instructions:
    done = cli("count", *arguments, "--json", "--no-install", env=BY_VALGRIND)
    assert done.code == 0, done.stderr
    found = done.json()
    assert found.pop("schema_version") == 1
    return Instructions.model_validate(found)


def per_query(found: Instructions, arm: str) -> float:
    (one,) = (each.instructions_per_query for each in found.counts if each.arm == arm)
    return one


def test_a_workload_that_cannot_be_counted_is_refused_before_its_data_are_filled(cli: Cli, plain: Path, tmp_path: Path) -> None:
    own = tmp_path / "own.toml"
    own.write_text(Path(workload("point")).read_text().partition("[fixed]")[0])
    done = cli("count", f"plain={plain}", "--workload", str(own), "--no-install", env=BY_VALGRIND)
    assert done.code == 2 and "no workload has a [fixed] command: own" in done.stderr
    assert "data" not in done.stderr


def test_the_new_server_needs_fewer_instructions(cli: Cli, plain: Path, tmp_path: Path) -> None:
    done = cli.optimize()
    assert done.code == 0, done.stderr
    with tarfile.open(done.result().package) as package:
        unpack(package, tmp_path)
    (installed,) = tmp_path.glob("*/bin/smallserver")
    reported = done.result().instructions
    assert reported is not None and reported.not_counted == ()
    ratio = next(each.ratio for each in reported.ratios if (each.arm, each.workload) == ("optimised", "mix"))
    assert ratio < 0.9
    again = counted(cli, f"plain={plain}", f"optimised={installed}", "--workload", workload("mix"))
    within = 0.002 if reported.source == "callgrind" else 0.02
    assert again.ratios[0].ratio == pytest.approx(ratio, abs=within), "in another folder, with other data, beside others"


@pytest.fixture(scope="module")
def planted(cli: Cli, plain: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """Two servers by their names: the second does the loop for each statement."""
    source = tmp_path_factory.mktemp("planted") / "slower"
    shutil.copytree(SOURCE, source)
    file = source / "sql" / "executor.cc"
    text = file.read_text()
    assert EXECUTE in text
    file.write_text(text.replace(EXECUTE, EXECUTE + SPIN))
    built = cli("build", "plain", "--source", str(source), "--no-install", "--workload", workload("mix"))
    assert built.code == 0, built.stderr
    return f"plain={plain}", f"slower={built.stdout.strip()}"


def test_a_planted_difference_is_found_to_the_instruction(cli: Cli, planted: tuple[str, str]) -> None:
    found = counted(cli, *planted, "--workload", workload("point"))
    assert per_query(found, "slower") - per_query(found, "plain") == pytest.approx(PLANTED, abs=ROUND_IT)


def test_servers_that_bolt_instruments_find_it_as_well(cli: Cli, planted: tuple[str, str]) -> None:
    found = counted(cli, *planted, "--workload", workload("point"), "--by", "bolt")
    assert (found.source, found.not_counted) == ("bolt", ())
    assert per_query(found, "slower") - per_query(found, "plain") == pytest.approx(PLANTED, abs=ROUND_IT)
    branches = {each.arm: each.taken_branches_per_query or 0.0 for each in found.counts}
    assert branches["slower"] - branches["plain"] == pytest.approx(PLANTED / 2, abs=ROUND_IT), "one a round"
    by_valgrind = counted(cli, *planted, "--workload", workload("point"))
    # Valgrind counts the libraries, too.
    assert 0.7 < per_query(found, "plain") / per_query(by_valgrind, "plain") < 1
