"""`upshift study` on the small server: what is planted is found, what dies is left out, what changed is refused."""

from __future__ import annotations

import json
import math
import signal
import time
from pathlib import Path

import duckdb
import pytest
from conftest import SOURCE, Cli, Done, Run, workload

from upshift.study.result import StudyResult

pytestmark = pytest.mark.pipeline

LOADS = f"""
workloads = ["{workload("mix")}"]
connections = [2]
trials = 3
slice_s = 0.5
warmup_s = 1
card_s = 0
budget = "20m"
"""
PLANTED = f"""
source = "{SOURCE}"
design = "one-at-a-time"
confirm = 0
layouts = 3
{LOADS}
[base]
recipe = "plain"
build = {{ scope = "hot", flags = ["-DSMALL_WORK_B"] }}
[factors.more.on]
build = {{ flags = ["-DSMALL_WORK_A"] }}
[factors.less.on]
build = {{ flags = ["-USMALL_WORK_B"] }}
[factors.nothing.on]
build = {{ flags = ["-DSMALL_NOTHING"] }}
[factors.layout.on]
build = {{ flags = ["-falign-functions=256"] }}
"""

TRAINED = f"""
source = "{SOURCE}"
design = "steps"
confirm = 0
train_s = 2
{LOADS}
[base]
recipe = "max-clang"
[factors.more.on]
build = {{ flags = ["-DSMALL_WORK_A"] }}
[factors.nothing.on]
build = {{ flags = ["-DSMALL_NOTHING"] }}
"""


def run(upshift: Run, folder: Path, text: str, *more: str) -> Done:
    file = folder / "mine.toml"
    file.write_text(text)
    return upshift("study", str(file), "--json", "--no-install", *more)


def of_servers(plain: Path, factors: str, more: str = "confirm = 0.1") -> str:
    return f'{more}\n{LOADS}\n[base]\nbinary = "{plain}"\n{factors}'


def environment(name: str, **variables: str) -> str:
    return f"[factors.{name}.on.environment]\n" + "".join(f'{key} = "{value}"\n' for key, value in variables.items())


def test_planted_effects_are_named_rightly_by_instructions(cli: Cli, tmp_path: Path) -> None:
    """A flag that costs, one that saves, two that do nothing, one of them in other places, and two that do less together."""
    done = run(cli, tmp_path, PLANTED)
    assert done.code == 0, done.stderr
    result = StudyResult.model_validate_json(done.stdout)
    assert [(each.source, each.count) for each in result.variance] == [("layout", 3), ("block", result.plan.rounds)]
    assert math.fsum(each.share for each in result.variance) == pytest.approx(1) and result.variance[-1].log_sd > 0
    rows = {row.name: row for row in result.rows}
    assert rows["nothing"].same_as == "off" and rows["more"].same_as is None
    assert rows["layout"].same_as is None, "the same instructions in other places are another server"
    assert result.effects.factors[2].verdict == "equivalent"
    assert any("factor 'nothing' changes nothing" in warning for warning in result.warnings)
    found = result.by_instructions
    assert found is not None, result.instructions
    assert [(each.factor, each.verdict) for each in found.factors] == [
        ("more", "slower"),
        ("less", "faster"),
        ("nothing", "equivalent"),
        ("layout", "equivalent"),
    ]
    _same_work(result)
    (beyond,) = found.together
    # Both flags together: the work of A without B's, and without what the two cost beside each other.
    assert beyond.verdict == "faster"
    shares = [math.log(each.share.ratio) for each in found.factors if each.share]
    assert found.total and math.fsum(shares) == pytest.approx(math.log(found.total.ratio))


def _same_work(result: StudyResult) -> None:
    """What was counted is what session.cc plants: 3000 steps in the base, 15000 with `more`, 0 with `less`, 6000 with both."""
    assert result.instructions
    count = {each.arm: each.instructions_per_query for each in result.instructions.counts}
    nothing = count["less"]
    base = count["off"] - nothing
    assert (count["more"] - nothing) / base == pytest.approx(5, rel=0.01)
    assert (count["more+less+nothing+layout"] - nothing) / base == pytest.approx(2, rel=0.01)
    assert count["layout"] == pytest.approx(count["off"], rel=0.001)


def test_a_flag_that_changes_nothing_is_found_before_it_is_trained(cli: Cli, tmp_path: Path) -> None:
    done = run(cli, tmp_path, TRAINED)
    assert done.code == 0, done.stderr
    result = StudyResult.model_validate_json(done.stdout)
    assert [(row.name, row.same_as) for row in result.rows] == [("off", None), ("more", None), ("more+nothing", "more")]
    stages = [stage.name for stage in result.stages]
    assert (stages.count("train"), stages.count("alike"), stages.count("post-link")) == (2, 2, 2)


def test_settings_and_environment_need_no_build_and_leave_a_whole_run(cli: Cli, plain: Path, tmp_path: Path) -> None:
    factors = environment("arenas", MALLOC_ARENA_MAX="1") + '[factors.few.on.settings]\nmax-connections = "64"\n'
    done = run(cli, tmp_path, of_servers(plain, factors))
    assert done.code == 0, done.stderr
    result = StudyResult.model_validate_json(done.stdout)
    assert [row.name for row in result.rows] == ["off", "few", "arenas", "arenas+few"]
    assert result.rows[1].change.settings == {"max_connections": "64"}
    assert {(cell.row, cell.load.connections) for cell in result.cells} == {("few", 2), ("arenas", 2), ("arenas+few", 2)}
    folder = cli.runs()[-1]
    assert {"report.html", "result.json", "samples.parquet", "parts"} <= {file.name for file in folder.iterdir()}
    with duckdb.connect() as database:
        counted = f"SELECT arm, part, count(*) FROM '{folder / 'samples.parquet'}' WHERE NOT rejected GROUP BY ALL"
        arms = database.execute(counted).fetchall()
    assert ("off", "measure-1", 3 * result.plan.rounds) in arms
    again = cli("report", "--json")
    assert again.code == 0 and StudyResult.model_validate_json(again.stdout) == result
    assert "all together" in cli("report").stdout


def test_a_server_that_dies_in_the_middle_is_left_out_and_the_rest_goes_on(cli: Cli, plain: Path, tmp_path: Path) -> None:
    factors = environment("arenas", MALLOC_ARENA_MAX="1") + environment("broken", SMALLSERVER_FAULT="crash")
    done = run(cli, tmp_path, of_servers(plain, factors, "confirm = 0"))
    assert done.code == 0, done.stderr
    result = StudyResult.model_validate_json(done.stdout)
    died = {row.name for row in result.rows if row.died}
    assert died == {"broken", "arenas+broken"}
    assert {cell.row for cell in result.cells} == {"arenas"}
    assert sum("left out" in warning for warning in result.warnings) == 2
    parts = cli.runs()[-1] / "parts"
    assert [file.name for file in parts.iterdir()] == ["measure-1.parquet"], "no attempt was put aside"
    measured = (parts / "measure-1.parquet").read_bytes()
    again = cli("study", str(tmp_path / "mine.toml"), "--json", "--no-install", "--resume", "last")
    assert again.code == 0, again.stderr
    assert StudyResult.model_validate_json(again.stdout).cells == result.cells
    assert (parts / "measure-1.parquet").read_bytes() == measured


@pytest.mark.parametrize(
    ("factor", "message"),
    [
        ('[factors.colour.on.settings]\ncolour = "red"\n', "row 'colour' is impossible"),
        (environment("broken", SMALLSERVER_FAULT="no-start"), "row 'broken' is impossible"),
        ("[factors.dull.on]\n", "factor 'dull' changes nothing"),
        ('[factors.tier.on.tier]\nsize = "900T"\n', "a tier of 900T"),
    ],
)
def test_an_impossible_study_ends_before_anything_is_measured(
    cli: Cli, plain: Path, tmp_path: Path, factor: str, message: str
) -> None:
    done = run(cli, tmp_path, of_servers(plain, factor))
    assert done.code in (1, 2)
    assert message in done.stderr and "hint:" in done.stderr and "Traceback" not in done.stderr
    assert not list(cli.runs()[-1].glob("parts/*.parquet"))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("confirm", 'design = "grid"\nrows = [["lag"]]\nconfirm', "unknown factor 'lag'"),
        ("confirm", 'design = "grid"\nrows = [["arenas=many"]]\nconfirm', "factor 'arenas' has no level 'many'"),
        ("trials = 3", "trials = 500", "the design is too large for its budget"),
    ],
)
def test_a_study_that_cannot_be_planned_begins_no_run(
    cli: Cli, here: Run, plain: Path, tmp_path: Path, old: str, new: str, message: str
) -> None:
    before = cli.runs()
    done = run(here, tmp_path, of_servers(plain, environment("arenas", MALLOC_ARENA_MAX="1")).replace(old, new, 1))
    said = " ".join(done.stderr.split())
    assert done.code == 2 and message in said and "hint:" in said and "Traceback" not in said
    assert cli.runs() == before


def test_a_study_goes_on_where_it_was_stopped_unless_it_has_changed(cli: Cli, plain: Path, tmp_path: Path) -> None:
    text = of_servers(plain, environment("arenas", MALLOC_ARENA_MAX="1"), "confirm = 0")
    file = tmp_path / "mine.toml"
    file.write_text(text)
    process = cli.start("study", str(file), "--json", "--no-install", "--budget", "10m")
    deadline = time.monotonic() + 120
    partial = "parts/measure-1.partial.jsonl"
    while not any((run / partial).is_file() and (run / partial).read_text().count("\n") > 3 for run in cli.runs()[-1:]):
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    _out, err = process.communicate(timeout=60)
    assert process.returncode == 130 and "--resume" in err
    file.write_text(text.replace('MALLOC_ARENA_MAX = "1"', 'MALLOC_ARENA_MAX = "2"'))
    changed = cli("study", str(file), "--json", "--no-install", "--resume", "last")
    assert changed.code == 2 and "the study has changed since the run began: factors" in changed.stderr
    file.write_text(text)
    other = cli("study", str(file), "--json", "--no-install", "--resume", "last", "--budget", "11m")
    assert other.code == 2 and "the study has changed since the run began: budget" in other.stderr
    done = cli("study", str(file), "--json", "--no-install", "--resume", "last")
    assert done.code == 0, done.stderr
    result = StudyResult.model_validate_json(done.stdout)
    assert result.run == cli.runs()[-1].name and len(result.cells) == 1


def test_a_dry_run_shows_the_design_and_does_nothing(cli: Cli, tmp_path: Path) -> None:
    before = cli.runs()
    done = run(cli, tmp_path, PLANTED, "--dry-run")
    assert done.code == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["rows"] == ["off", "more", "less", "nothing", "layout", "more+less+nothing+layout"]
    by_budget = PLANTED.replace("trials = 3", "")
    trials = [
        json.loads(run(cli, tmp_path, by_budget, "--dry-run", *more).stdout)["trials"] for more in ((), ("--budget", "10m"))
    ]
    assert trials[0] > trials[1]
    refused = run(cli, tmp_path, PLANTED, "--dry-run", "--budget", "soon")
    assert refused.code == 2 and "--budget takes a number and a unit, up to 1000h, not 'soon'" in refused.stderr
    assert cli.runs() == before
