"""The last run on this machine says what noise to expect, or a quiet machine's does."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from example import example
from fake_bench import READS, one_slice, plan

from upshift.measure.model import Slice
from upshift.measure.noise import CALM
from upshift.measure.samples import Samples
from upshift.report.noise import last_noise
from upshift.report.store import save_result
from upshift.run.directory import Manifest, RunDirectory


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Of a machine that is the example's."""
    monkeypatch.setenv("UPSHIFT_CACHE", str(tmp_path))
    monkeypatch.setattr("upshift.report.noise.describe_machine", lambda: example().machine)


def slices(trials: int) -> list[Slice]:
    """Two servers, two turns of 2 s each a trial: starts spread by 3 %, turns by 1 %."""
    chance = np.random.default_rng(2)
    found = []
    for trial in range(trials):
        start = chance.normal(0, 0.03)
        for number in range(2):
            faster = math.exp(start + chance.normal(0, 0.01))
            found += [
                one_slice(trial=trial, round=number, arm="plain", queries=1_000_000),
                one_slice(trial=trial, round=number, arm="pgo", queries=round(1_000_000 * faster)),
            ]
    return found


def manifest(minute: int, verb: str) -> Manifest:
    started_at = f"2026-11-22T12:{minute:02d}:00+00:00"
    return Manifest(command=("upshift", verb), options={}, started_at=started_at, upshift_version="0")


def kept(minute: int, verb: str, measured: list[Slice], **changes: Any) -> str:
    """A finished run with slices of 2 s, each later one newer; its name."""
    result = example()
    experiment = result.experiment.model_copy(update={"plan": plan(slice_s=2.0)})
    run = RunDirectory.create(verb, manifest(minute, verb))
    save_result(result.model_copy(update={"experiment": experiment, **changes}), run.path)
    samples = Samples(run.path / "samples.parquet", "an experiment")
    samples.open((), 0)
    for each in measured:
        samples.add(each)
    samples.finish()
    return run.name


def test_the_last_run_on_this_machine_says_what_to_expect() -> None:
    assert last_noise({READS.workload}) == CALM
    kept(1, "measure", slices(400))
    newest = kept(2, "optimize", slices(400))
    found = last_noise({READS.workload, "others"})
    assert found.run == newest
    assert found.start_log_sd == pytest.approx(0.03, rel=0.1)
    # Four blocks of half a second are a slice: each spreads by twice as much.
    assert found.pair_log_sd == pytest.approx(0.02, rel=0.1)
    assert last_noise({"others"}) == CALM


def test_runs_that_say_nothing_are_passed_over() -> None:
    here = example().machine
    whole = kept(1, "measure", slices(5))
    kept(2, "measure", slices(5), machine=here.model_copy(update={"cpus": 96}))
    kept(3, "measure", slices(2))
    kept(4, "measure", [each for each in slices(5) if each.arm == "plain"])
    kept(5, "explain", slices(5))
    (RunDirectory.create("measure", manifest(6, "measure")).path / "result.json").write_text("{")
    assert last_noise({READS.workload}).run == whole


def test_a_trial_that_one_server_did_not_end_is_left_out() -> None:
    ended = kept(1, "measure", slices(5))
    before = last_noise({READS.workload})
    cut = [each for each in slices(6) if each.trial < 5 or each.arm == "plain"]
    kept(2, "measure", cut)
    assert last_noise({READS.workload}).start_log_sd == before.start_log_sd and before.run == ended


def test_a_run_whose_servers_never_ended_a_query_in_the_same_turn_is_passed_over() -> None:
    """It must not promise an interval of no width."""
    whole = kept(1, "measure", slices(5))
    apart = [
        one_slice(trial=trial, round=number, arm=arm, queries=queries)
        for trial in range(5)
        for number, ended in enumerate(((3, 0), (0, 3)))
        for arm, queries in zip(("plain", "pgo"), ended, strict=True)
    ]
    kept(2, "measure", apart)
    assert last_noise({READS.workload}).run == whole
