"""What a plan expects of this machine: what the last study like it saw there, or else what a quiet machine had."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, Final

import pytest
from example_study import part, result, two_factors

from upshift.measure.noise import CALM
from upshift.measure.placement import Seat
from upshift.measure.variance import Component
from upshift.run.directory import Manifest, RunDirectory
from upshift.study.store import last_noise

METRIC: Final = "total_cpu_us_per_query"


def kept(minute: int, start_log_sd: float, duet: tuple[Seat, ...] = (), **changes: Any) -> str:
    """A finished study with slices of 2 s, each later one newer; its run's name."""
    seen = tuple(
        Component(source=source, log_sd=log_sd, count=2, share=0.5)
        for source, log_sd in (("start", start_log_sd), ("block", 0.05))
    )
    found = result(two_factors(), (part({"off": 20.0, "a": 19.0, "b": 22.0, "a+b": 20.9}),), variance=seen)
    found = found.model_copy(update={"plan": found.plan.model_copy(update={"slice_s": 2.0, "duet": duet}), **changes})
    started_at = f"2026-11-22T12:{minute:02d}:00+00:00"
    manifest = Manifest(command=("upshift", "study"), options={}, started_at=started_at, upshift_version="0")
    run = RunDirectory.create("study", manifest)
    (run.path / "result.json").write_text(found.model_dump_json())
    return run.name


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("UPSHIFT_CACHE", str(tmp_path))


def test_the_newest_study_like_it_says_what_to_expect() -> None:
    kept(1, 0.09)
    newest = kept(2, 0.03)
    found = last_noise(METRIC, {"reads", "others"})
    assert (found.run, found.start_log_sd) == (newest, 0.03)
    # Four blocks of half a second are a slice: each spreads by twice as much.
    assert math.isclose(found.pair_log_sd, 0.1)


def test_a_study_of_other_figures_or_another_machine_says_nothing() -> None:
    example = result(two_factors(), (part({"off": 20.0, "a": 19.0, "b": 22.0, "a+b": 20.9}),))
    kept(1, 0.03, metric="qps")
    kept(2, 0.03, machine=example.machine.model_copy(update={"cpus": 96}))
    kept(3, 0.03, variance=())
    assert last_noise(METRIC, {"reads"}) == CALM
    kept(4, 0.03)
    assert last_noise(METRIC, {"others"}) == CALM and last_noise(METRIC, {"reads"}) != CALM


def test_the_noise_of_a_duet_is_that_of_duets() -> None:
    in_turns = kept(1, 0.09)
    seats = (Seat(server_cpus=(0,), client_cpus=(1,)), Seat(server_cpus=(2,), client_cpus=(3,)))
    in_duet = kept(2, 0.03, duet=seats)
    assert last_noise(METRIC, {"reads"}).run == in_turns
    assert last_noise(METRIC, {"reads"}, duet=True).run == in_duet


def test_a_damaged_result_is_passed_over() -> None:
    older = kept(1, 0.03)
    manifest = Manifest(command=("upshift", "study"), options={}, started_at="2026-11-22T12:30:00+00:00", upshift_version="0")
    (RunDirectory.create("study", manifest).path / "result.json").write_text("{")
    assert last_noise(METRIC, {"reads"}).run == older
