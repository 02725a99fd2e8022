"""A run names the servers that are explained, and what they were measured under."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from example import example, measured_only

from upshift.errors import UsageError
from upshift.explain.door import asked
from upshift.paths import shipped
from upshift.report.result import Result
from upshift.report.store import save_result
from upshift.run.directory import Manifest, RunDirectory
from upshift.server.kind import Program
from upshift.server.mysql_settings import SETTINGS


@pytest.fixture(autouse=True)
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UPSHIFT_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def server(tmp_path: Path) -> Path:
    (tmp_path / "mysqld").touch()
    return tmp_path / "mysqld"


def finished(result: Result, **options: Any) -> RunDirectory:
    manifest = Manifest(
        command=("upshift", "optimize"), options=options, started_at="2026-11-21T05:15:00+00:00", upshift_version="0.1.0"
    )
    run = RunDirectory.create("optimize", manifest)
    save_result(result, run.path)
    return run


def with_binary(result: Result, binary: Path) -> Result:
    arms = tuple(arm.model_copy(update={"program": Program(kind="mysql", binary=binary)}) for arm in result.experiment.arms)
    return result.model_copy(update={"experiment": result.experiment.model_copy(update={"arms": arms})})


def test_a_run_names_its_plain_and_its_optimised_server_and_its_loads(server: Path) -> None:
    result = with_binary(example(third_arm=True), server)
    run = finished(result, workloads=["oltp_read_write"])
    found = asked([run.name])
    assert (found.before.name, found.after.name) == (result.experiment.baseline, "optimised")
    assert found.connections == result.experiment.plan.headline_connections
    assert set(found.workloads) == {load.workload for load in result.experiment.loads if not load.held_out}


def test_a_run_with_patches_names_two_servers_of_the_same_source(server: Path) -> None:
    result = with_binary(example(third_arm=True), server)
    plain, optimised, other = result.experiment.arms
    arms = (plain, other.model_copy(update={"name": "patched"}), optimised)
    patched = result.model_copy(update={"experiment": result.experiment.model_copy(update={"arms": arms})})
    found = asked([finished(patched).name])
    assert (found.before.name, found.after.name) == ("patched", "optimised")


def test_a_run_that_measured_one_server_has_nothing_to_explain(server: Path) -> None:
    result = with_binary(example(), server)
    alone = result.experiment.model_copy(update={"arms": result.experiment.arms[:1]})
    run = finished(result.model_copy(update={"experiment": alone}))
    with pytest.raises(UsageError, match="measured one server"):
        asked([run.name])


def test_a_run_whose_workload_was_a_file_names_the_file(server: Path) -> None:
    result = with_binary(example(), server)
    name = next(load.workload for load in result.experiment.loads if not load.held_out)
    run = finished(result, workloads=[f"/home/me/{name}.toml"])
    assert f"/home/me/{name}.toml" in asked([run.name]).workloads


def test_a_file_that_names_its_workload_is_found_by_that_name(server: Path, tmp_path: Path) -> None:
    result = with_binary(example(), server)
    name = next(load.workload for load in result.experiment.loads if not load.held_out)
    file = tmp_path / "mine.toml"
    file.write_text(f'name = "{name}"\n' + (shipped("workloads") / "oltp_read_write.toml").read_text())
    run = finished(result, workloads=[str(file)])
    assert str(file) in asked([run.name]).workloads and name not in asked([run.name]).workloads


def test_a_workload_that_is_named_has_its_own_settings_in_place_of_the_runs(server: Path, tmp_path: Path) -> None:
    text = (shipped("workloads") / "oltp_read_write.toml").read_text()
    asks = {
        "run": 'sync_binlog = "1"',
        "held": 'query_alloc_block_size = "8192"',
        "other": 'innodb_flush_log_at_trx_commit = "1"',
    }
    for name, setting in asks.items():
        (tmp_path / f"{name}.toml").write_text(f"{text}\n[settings]\n{setting}\n")
    run_with = {**SETTINGS, "sync_binlog": "1", "query_alloc_block_size": "8192"}
    result = with_binary(example(), server)
    plain, optimised = (arm.model_copy(update={"settings": run_with}) for arm in result.experiment.arms)
    own = {"innodb_buffer_pool_size": "2G", "sync_binlog": "0"}
    optimised = optimised.model_copy(update={"settings": {**run_with, **own}})
    measured = result.experiment.model_copy(update={"arms": (plain, optimised)})
    files = {name: str(tmp_path / f"{name}.toml") for name in asks}
    run = finished(result.model_copy(update={"experiment": measured}), workloads=[files["run"]], held_out=[files["held"]])

    # As it was measured, without another workload.
    assert asked([run.name]).before.settings == run_with
    found = asked([run.name], [files["other"]])
    assert found.workloads == (files["other"],)
    assert found.before.settings == {} and found.after.settings == own
    (tmp_path / "held.toml").unlink()
    assert asked([run.name], [files["other"]]).before.settings == {"query_alloc_block_size": "8192"}


def test_a_run_whose_servers_are_gone_is_refused(tmp_path: Path) -> None:
    run = finished(with_binary(measured_only(), tmp_path / "gone"))
    with pytest.raises(UsageError, match=f"file {tmp_path}/gone of run {run.name} is gone"):
        asked(["last"])
