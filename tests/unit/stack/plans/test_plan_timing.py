"""Times in turns: the order, the interval, and how often a server beside itself is called another engine."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator

import pytest

from upshift.stack.plans.asked import Asked
from upshift.stack.plans.model import Node, Plan
from upshift.stack.plans.rules import judged
from upshift.stack.plans.statements import NotExplained
from upshift.stack.plans.timing import Turns, take_turns, timings
from upshift.stack.suspects.model import Finding
from upshift.stack.suspects.thresholds import Thresholds

ROUNDS, STATEMENTS, COMPARISONS = 5, 20, 400
ONE_IN_TWENTY = COMPARISONS / 20
LUCK = 2.33 * math.sqrt(ONE_IN_TWENTY * 0.95)
"""What one in twenty goes beyond in one of a hundred tries."""
ANY_RATIO = Thresholds(changed={"E1.times": 1.0})
"""The interval alone decides."""


def machine(seed: int, *, drift: float = 0.0, noise: float = 0.05, spikes: float = 0.1) -> Callable[[float], float]:
    """A machine on which an execution of so many milliseconds takes what it takes: it drifts, wanders, and is disturbed."""
    chance = random.Random(seed)
    moments: Iterator[int] = iter(range(10**9))
    mood = 0.0

    def taken(ms: float) -> float:
        nonlocal mood
        mood += chance.gauss(0, noise / 4)
        disturbed = chance.expovariate(2) if chance.random() < spikes else 0.0
        return ms * math.exp(drift * next(moments) + mood + chance.gauss(0, noise) + disturbed)

    return taken


def turns(seed: int, a_ms: float = 5.0, b_ms: float = 5.0, **kind: float) -> Turns:
    taken = machine(seed, **kind)
    return take_turns("server", lambda: taken(a_ms), lambda: taken(b_ms), ROUNDS)


def named(every: dict[str, Turns], thresholds: Thresholds) -> list[str]:
    """The statements of which an engine is named."""
    node = Node(operation="access", alias="t", access="full_scan", actual_read=1000, actual_rows=1000, loops=1)
    plan = Plan(family="mariadb", tree=node, executed=True)
    asked = tuple(
        Asked(statement=name, text=name, share=1 / len(every), plan=plan, other=plan, timing=timing)
        for name, timing in timings(every).items()
    )
    found = next((each for each in judged(asked, thresholds) if each.suspect == "E1"), None)
    return [each.statement for each in found.statements] if isinstance(found, Finding) else []


def test_servers_take_turns_a_b_b_a() -> None:
    order: list[str] = []

    def on(server: str) -> float:
        order.append(server)
        return 100.0 + len(order)

    taken = take_turns("client", lambda: on("A"), lambda: on("B"), 2)
    assert "".join(order) == "ABBAABBA"
    assert (taken.clock, taken.a_ms, taken.b_ms) == ("client", (101, 104, 105, 108), (102, 103, 106, 107))
    assert taken.logs == pytest.approx([math.log(102 / 101 * 103 / 104) / 2, math.log(106 / 105 * 107 / 108) / 2])


@pytest.mark.parametrize(
    ("executions", "order", "least"),
    [
        ([3.0, 2.0, 4.0, 2.5, 9.0], "AAAAA", 2.0),
        ([12.0, 7.0, 1.0], "AAA", 1.0),
        ([25.0], "A", 25.0),
        ([19.0, 18.0], "AA", 18.0),
    ],
)
def test_a_turn_is_the_least_of_a_few_executions(executions: list[float], order: str, least: float) -> None:
    left, seen = iter(executions * 2), []

    def on_a() -> float:
        seen.append("A")
        return next(left)

    taken = take_turns("server", on_a, lambda: seen.append("B") or 50.0, 1)  # type: ignore[func-returns-value]
    assert "".join(seen) == f"{order}BB{order}" and taken.a_ms == (least, least)


def test_a_drift_meets_both_alike() -> None:
    """Three percent slower with each execution; one server after the other would differ by a third."""
    drifting = turns(1, 50.0, 50.0, drift=0.03, noise=0.0, spikes=0.0)
    assert drifting.logs == pytest.approx([0.0] * ROUNDS)
    every = sorted((*drifting.a_ms, *drifting.b_ms))
    one_by_one = Turns("server", tuple(every[: 2 * ROUNDS]), tuple(every[2 * ROUNDS :]))
    assert timings({"x": one_by_one})["x"].ratio == pytest.approx(math.exp(0.03 * 2 * ROUNDS))
    assert named({"x": drifting}, ANY_RATIO) == [] and named({"x": one_by_one}, Thresholds()) == ["x"]


def test_the_ratio_is_b_over_a_with_its_interval() -> None:
    (timing,) = timings({"x": turns(3, 2.0, 3.0, noise=0.02, spikes=0.0)}).values()
    assert timing.ci_low < timing.ratio < timing.ci_high and 1.4 < timing.ratio < 1.6
    assert (timing.rounds, timing.confidence) == (ROUNDS, 0.95)
    assert timing.b_ms / timing.a_ms == pytest.approx(timing.ratio, rel=0.1)


def test_one_round_has_no_interval() -> None:
    taken = take_turns("server", lambda: 1.0, lambda: 9.0, 1)
    (timing,) = timings({"x": taken}).values()
    assert timing.ratio == pytest.approx(9) and timing.ci_low == 0 and timing.ci_high >= 1e9
    assert named({"x": taken}, Thresholds()) == []


def test_what_takes_no_time_has_no_ratio() -> None:
    with pytest.raises(NotExplained, match="less time than the server's clock shows"):
        take_turns("server", lambda: 0.0, lambda: 0.1, 2)


@pytest.mark.parametrize("kind", [{}, {"drift": 0.01}, {"noise": 0.3}, {"spikes": 0.5}, {"spikes": 0.0}])
def test_a_server_beside_itself_is_no_other_engine(kind: dict[str, float]) -> None:
    """Of comparisons of 20 statements, at most one in twenty names any; one in twenty, but for luck, by the interval alone."""
    by_interval = by_ratio = 0
    for comparison in range(COMPARISONS):
        every = {f"{number}": turns(comparison * STATEMENTS + number, **kind) for number in range(STATEMENTS)}
        by_interval += bool(named(every, ANY_RATIO))
        by_ratio += bool(named(every, Thresholds()))
    assert by_ratio <= ONE_IN_TWENTY
    assert by_ratio <= by_interval <= ONE_IN_TWENTY + LUCK


@pytest.mark.parametrize(("a_ms", "b_ms", "slow"), [(5.0, 8.0, "B"), (8.0, 5.0, "A")])
def test_a_slower_engine_is_named(a_ms: float, b_ms: float, slow: str) -> None:
    """Of 100 comparisons with one such statement among twenty, nine in ten name it."""
    right = 0
    for comparison in range(100):
        every = {f"{number}": turns(comparison * STATEMENTS + number, spikes=0.0) for number in range(STATEMENTS)}
        every["slow"] = turns(10**6 + comparison, a_ms, b_ms, spikes=0.0)
        right += "slow" in named(every, Thresholds())
        assert (timings(every)["slow"].ratio > 1) is (slow == "B")
    assert right >= 90
