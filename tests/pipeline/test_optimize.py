"""The main job end to end: real clang, real profiles, real BOLT, real measuring, on the small server."""

from __future__ import annotations

import json
import subprocess
import tarfile
from pathlib import Path

import pytest
from conftest import SOURCE, TRAINED, Cli, pairs, workload

from upshift.build.model import Build
from upshift.build.recipe import find_recipe
from upshift.cli.outcome import INCONCLUSIVE
from upshift.errors import MissingTool
from upshift.paths import CHECKOUT
from upshift.profile.model import HotSet
from upshift.report.result import Result
from upshift.run.directory import RunDirectory
from upshift.shell import SystemShell
from upshift.stages.names import all_stages
from upshift.toolchain.perf import sampling_event

pytestmark = pytest.mark.pipeline

MIX = ("--source", str(SOURCE), "--workload", workload("mix"), "--no-install")


@pytest.fixture(scope="module")
def full(cli: Cli) -> Result:
    done = cli.optimize("--trials", "2", "--explain-seconds", "4")
    assert done.code == 0, done.stderr
    return done.result()


def test_every_stage_ran_in_order(full: Result) -> None:
    assert tuple(stage.name for stage in full.stages) == all_stages("full", find_recipe("max-clang"))[:-1]
    assert all(stage.cpu_s > 0 for stage in full.stages if "build" in stage.name)


def test_without_mysql_there_is_nothing_to_check(full: Result) -> None:
    assert (
        full.check and full.check.report is None and full.check.why_none == "the server is no MySQL: there is nothing to check"
    )


def test_only_what_runs_was_rebuilt(full: Result) -> None:
    assert full.hot_set is not None
    assert full.hot_set.objects < full.hot_set.all_objects
    assert full.hot_set.coverage >= 0.99
    assert not any("admin" in name for name, _share in full.hot_set.top)
    plain, optimised = full.builds
    assert optimised.objects == full.hot_set.objects < plain.objects
    assert optimised.profile.startswith("ir ")
    assert optimised.post_link.startswith("bolt ")


def test_the_server_was_verified_and_kept_its_hardening(full: Result) -> None:
    assert full.verify is not None
    assert full.verify.tests_passed == full.verify.tests_run > 0
    hardening = {name: (before, after) for name, before, after in full.verify.hardening}
    assert hardening["PIE"] == ("yes", "yes")
    assert hardening["NX stack"] == ("yes", "yes")


def test_training_and_held_out_workloads_were_compared(full: Result) -> None:
    # Two trials of a second on a busy machine may say anything: test_instructions.py asks for the gain.
    for metric in ("qps", "user_cpu_us_per_query"):
        found = {(one.workload, one.held_out): one for one in full.comparisons if one.metric == metric}
        assert set(found) == {("mix", False), ("scan", True)}
        for one in found.values():
            assert 0 < one.ci_low < one.ratio < one.ci_high
            assert (one.arm, one.baseline, one.trials) == ("optimised", "plain", 2)


def test_the_gain_was_explained_in_brief(full: Result, cli: Cli) -> None:
    run = next(path for path in cli.runs() if path.name == full.run)
    if full.explanation is None:
        shell = SystemShell()
        try:
            sampling_event(shell)
        except MissingTool as refused:
            assert any(refused.message in warning for warning in full.warnings)
            pytest.skip(refused.message)
        finally:
            shell.close()
    assert full.explanation is not None, full.warnings
    (load,) = full.explanation.loads
    assert (load.workload, load.before.server, load.after.server) == ("mix", "plain", "optimised")
    assert load.rows and not load.code and not load.system_calls
    assert load.before.instructions_per_query, full.instructions
    assert (run / "explanation.html").stat().st_size > 0


def test_the_run_left_what_it_promises(full: Result, cli: Cli) -> None:
    run = next(path for path in cli.runs() if path.name == full.run)
    for name in ("report.html", "result.json", "samples.parquet", "commands.log", "manifest.json"):
        assert (run / name).stat().st_size > 0
    with tarfile.open(full.package) as package:
        assert any(name.endswith("/lib/plugin/libsmallextra.so") for name in package.getnames())
    assert "-fprofile-use=" in next(cli.cache.glob("stages/optimised-build-*/build.ninja")).read_text()


@pytest.fixture(scope="module")
def second(full: Result, cli: Cli, today: Path) -> Result:
    """The same again, beside the server of today."""
    done = cli.optimize("--trials", "2", "--fail-below", "1e-300", "--baseline", str(today))
    assert done.code == 0, done.stderr
    return done.result()


def test_a_second_run_keeps_builds_but_measures_anew(second: Result) -> None:
    cached = {stage.name: stage.cached for stage in second.stages}
    assert cached["plain build"] and cached["train"] and cached["optimised build"] and cached["post-link"]
    assert not cached["measure"]


def test_the_server_of_today_is_a_further_arm(second: Result) -> None:
    assert [arm.name for arm in second.experiment.arms] == ["plain", "optimised", "baseline"]
    assert {("optimised", "plain"), ("optimised", "baseline")} <= pairs(second)
    held_out = [one for one in second.comparisons if one.held_out and one.baseline == "baseline" and one.metric == "qps"]
    assert [(one.workload, one.arm) for one in held_out if one.arm == "optimised"] == [("scan", "optimised")]


def test_report_and_runs_read_what_was_written(full: Result, cli: Cli) -> None:
    again = cli("report", full.run, "--json")
    assert again.code == 0
    assert again.json()["comparisons"] == full.model_dump(mode="json")["comparisons"]
    names = [run["name"] for run in cli("runs", "--json").json()["runs"]]
    assert full.run in names
    assert names == sorted(names, reverse=True)


def test_quick_is_bolt_on_the_plain_build(full: Result, cli: Cli) -> None:
    done = cli.optimize("--level", "quick", "--fail-below", "1000")
    # Of one trial there is no interval.
    assert done.code == INCONCLUSIVE, done.stderr
    result = done.result()
    assert tuple(stage.name for stage in result.stages) == all_stages("quick", find_recipe("max-clang"))[:-1]
    assert result.builds[1].post_link.startswith("bolt ")
    assert result.builds[1].profile == ""


def test_the_whole_tree_can_be_rebuilt(full: Result, cli: Cli, tmp_path: Path) -> None:
    recipe = tmp_path / "whole.toml"
    hot = (CHECKOUT / "recipes" / "max-clang.toml").read_text()
    recipe.write_text(hot.replace('scope = "hot"', 'scope = "all"'))
    done = cli("build", str(recipe), *MIX, *TRAINED, "--json")
    assert done.code == 0, done.stderr
    built = Build.model_validate_json(done.stdout)
    assert (built.recipe.scope, built.objects) == ("all", full.builds[0].objects)


def test_the_hot_set_can_be_found_without_perf(full: Result, cli: Cli) -> None:
    done = cli("train", *MIX, *TRAINED, env={"UPSHIFT_PERF": "off"})
    assert done.code == 0, done.stderr
    (found,) = (name for name in RunDirectory(cli.runs()[-1]).uses() if name.startswith("hot-set-"))
    hot_set = HotSet.model_validate(json.loads((cli.cache / "stages" / found / "stage.json").read_text())["output"])
    assert hot_set.method == "bolt"
    assert len(hot_set.objects) < hot_set.all_objects


def test_a_profile_can_be_context_sensitive(full: Result, cli: Cli) -> None:
    recipe = str(CHECKOUT / "studies" / "recipes" / "cs.toml")
    built = cli("build", recipe, *MIX, *TRAINED)
    assert built.code == 0, built.stderr
    compiled = next(cli.cache.glob("stages/second-instrumented-build-*/build.ninja")).read_text()
    assert "-fcs-profile-generate=" in compiled and "-fprofile-use=" in compiled and "-flto=thin" in compiled
    server = Path(built.stdout.strip())
    assert server.parent.name.startswith("post-link-")
    sections = subprocess.run(["readelf", "-SW", server], capture_output=True, text=True, check=True).stdout
    assert ".text.cold" in sections and "__llvm_prf_cnts" not in sections


def test_train_prints_a_profile_and_build_a_server(full: Result, cli: Cli) -> None:
    trained = cli("train", *MIX, *TRAINED)
    assert trained.code == 0, trained.stderr
    assert Path(trained.stdout.strip()).suffix == ".profdata"
    built = cli("build", "plain", *MIX)
    assert built.code == 0, built.stderr
    server = Path(built.stdout.strip())
    assert server.name == "smallserver"
