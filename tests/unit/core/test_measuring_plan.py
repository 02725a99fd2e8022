"""How servers are measured, as the options say it and the machine allows."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from upshift.measure.allocation import SHORT_SLICE_S, divided
from upshift.measure.quality import find_flags
from upshift.measure.schedule import loads_of
from upshift.options import Options
from upshift.resolve import measuring_plan


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two CPUs, and the default kind of server."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: {0, 1})
    monkeypatch.delenv("UPSHIFT_SERVER_KIND", raising=False)


@pytest.mark.parametrize(
    ("cpus", "server", "client"),
    [({0}, (0,), (0,)), ({0, 1}, (0,), (1,)), ({2, 3, 5, 7}, (2, 3, 5), (7,)), (set(range(8)), tuple(range(6)), (6, 7))],
)
def test_server_and_load_have_their_own_cpus(
    monkeypatch: pytest.MonkeyPatch, cpus: set[int], server: tuple[int, ...], client: tuple[int, ...]
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: cpus)
    made = measuring_plan(Options(trials=3))
    assert (made.server_cpus, made.client_cpus, made.trials) == (server, client, 3)


def test_turns_are_those_that_were_given_or_that_narrow_the_interval_most() -> None:
    asked = Options(until=0.01, budget_s=3600.0, connections=(8,))
    chosen = measuring_plan(asked)
    usual = measuring_plan(Options())
    assert chosen.rounds > usual.rounds == 2
    assert chosen.slice_s == SHORT_SLICE_S < usual.slice_s
    given = measuring_plan(asked.model_copy(update={"rounds": 4}))
    assert (given.rounds, given.slice_s) == (4, usual.slice_s)
    assert measuring_plan(asked.model_copy(update={"slice_s": 0.3})).slice_s == 0.3
    loads = loads_of(asked.workloads, asked.held_out, asked.connections)
    for more, arms in (({}, 2), ({"patches": ("all",)}, 3), ({"patches": ("all",), "baseline": Path("/bin/true")}, 4)):
        made = measuring_plan(asked.model_copy(update=more))
        assert made == divided(chosen, arms, loads, shorten=True)


def test_a_plan_knows_of_a_quota_below_its_cpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("upshift.resolve.least_quota_cpus", lambda: 1.5)
    made = measuring_plan(Options())
    (flag,) = find_flags([], made)
    assert flag.name == "cpu-quota" and "2 CPUs were measured under a quota of 1.5" in flag.message
    assert "--cpuset-cpus" in flag.hint
    assert find_flags([], made.model_copy(update={"quota_cpus": 2.0})) == ()
    assert "quota_cpus" not in made.model_copy(update={"quota_cpus": None}).model_dump()
