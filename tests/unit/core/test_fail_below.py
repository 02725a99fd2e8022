"""`--fail-below`: a job's exit code by the ratios of a result."""

from __future__ import annotations

import pytest

from upshift.cli.outcome import exit_code
from upshift.errors import UpshiftError
from upshift.measure.model import Comparison, Experiment, Load, Plan, Reached
from upshift.report.result import Result


def compared(low: float, high: float, arm: str = "optimised", metric: str = "qps", *, held_out: bool = False) -> Comparison:
    return Comparison.model_validate(
        {
            "workload": "w",
            "held_out": held_out,
            "connections": 8,
            "metric": metric,
            "arm": arm,
            "baseline": "plain",
            "ratio": (low + high) / 2,
            "ci_low": low,
            "ci_high": high,
            "confidence": 0.95,
            "trials": 6,
            "verdict": "inconclusive",
            "trials_needed": None,
        }
    )


def result_of(*comparisons: Comparison, loads: tuple[Load, ...] = (), reached: Reached | None = None) -> Result:
    """A result that holds these comparisons and nothing else."""
    measured = Plan(
        trials=6,
        rounds=1,
        slice_s=1,
        lead_s=0.3,
        warmup_s=1,
        seed=1,
        headline_connections=8,
        server_cpus=(0,),
        client_cpus=(1,),
        placement="",
    )
    experiment = Experiment(
        plan=measured,
        arms=(),
        baseline="plain",
        loads=loads,
        reached=reached,
        levels=(),
        comparisons=comparisons,
        confidence=0.95,
        steal_share=0.0,
        flags=(),
    )
    return Result.model_construct(experiment=experiment)


@pytest.mark.parametrize(
    ("comparisons", "fail_below", "margin", "code"),
    [
        ([compared(0.5, 0.6)], None, 0.0, 0),
        ([], None, 0.0, 0),
        ([compared(1.2, 1.3)], 1.1, 0.0, 0),
        ([compared(1.1, 1.3)], 1.1, 0.0, 0),
        ([compared(1.0, 1.05)], 1.1, 0.0, 3),
        ([compared(1.0, 1.3)], 1.1, 0.0, 4),
        ([compared(1.0, 1.3), compared(1.0, 1.05)], 1.1, 0.0, 3),
        ([compared(1.2, 1.3), compared(0.5, 0.6, held_out=True)], 1.1, 0.0, 0),
        ([compared(1.2, 1.3), compared(0.5, 0.6, arm="today")], 1.1, 0.0, 0),
        ([compared(1.2, 1.3), compared(0.5, 0.6, metric="latency_ms_p99")], 1.1, 0.0, 0),
        ([compared(0.985, 1.015)], 1.0, 0.0, 4),
        ([compared(0.985, 1.015)], 1.0, 0.02, 0),  # As fast as before, as far as the margin asks.
        ([compared(0.97, 1.03)], 1.0, 0.02, 4),
        ([compared(0.985, 0.995)], 1.0, 0.02, 0),
        ([compared(0.95, 0.99)], 1.0, 0.02, 3),
    ],
)
def test_fail_below(comparisons: list[Comparison], fail_below: float | None, margin: float, code: int) -> None:
    assert exit_code(result_of(*comparisons), fail_below, margin) == code


@pytest.mark.parametrize("comparisons", [(), (compared(1.2, 1.3, held_out=True),)])
def test_fail_below_with_nothing_to_judge_is_an_error(comparisons: tuple[Comparison, ...]) -> None:
    with pytest.raises(UpshiftError, match="nothing to judge"):
        exit_code(result_of(*comparisons), 1.0)


def test_fail_below_says_which_margin_would_pass(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(result_of(compared(0.912, 1.1)), 1.0) == 4
    assert "w at 8 connections may be below 1 (0.91 to 1.10 at 95 %): --margin 0.088 accepts it" in capsys.readouterr().err
    assert exit_code(result_of(compared(0.912, 1.1)), 1.0, 0.088) == 0
    assert exit_code(result_of(compared(0.7, 0.8)), 1.0) == 3
    assert "w at 8 connections is below 1 at 95 % (0.70 to 0.80)" in capsys.readouterr().err
    # One trial gives no limits: no margin that can be asked for accepts that.
    assert exit_code(result_of(compared(0.0, 1e9)), 1.0) == 4
    said = capsys.readouterr().err
    assert "w at 8 connections may be below 1" in said and "--margin" not in said


def test_fail_below_names_the_trials_that_its_own_limit_takes(capsys: pytest.CaptureFixture[str]) -> None:
    """Eleven trials would tell this ratio apart from 1, which is not what was asked."""
    wide = compared(0.98, 1.52).model_copy(update={"ratio": 1.22, "trials_needed": 11})
    assert exit_code(result_of(wide), 1.2, 0.02) == 4
    said = capsys.readouterr().err
    assert "about 11 trials" not in said and "a new run of about 257 trials would settle it" in said
    # Told apart from 1 already.
    assert exit_code(result_of(compared(1.05, 1.3).model_copy(update={"verdict": "faster"})), 1.1) == 4
    assert "would settle it" in capsys.readouterr().err
    # A ratio at a limit without a margin stays there, however often it is measured.
    assert exit_code(result_of(compared(1.0, 1.2).model_copy(update={"ratio": 1.1})), 1.1, 0.0) == 4
    assert "more trials than are practical" in capsys.readouterr().err


def test_a_training_load_without_figures_may_be_below(capsys: pytest.CaptureFixture[str]) -> None:
    """Queries of seconds end in no slice: their load has no comparison."""
    known = Load(workload="w", connections=8, held_out=False)
    slow, other = (Load(workload="slow", connections=1, held_out=held_out) for held_out in (False, True))
    assert exit_code(result_of(compared(1.2, 1.3), loads=(known, other)), 1.0) == 0
    assert capsys.readouterr().err == ""
    assert exit_code(result_of(compared(1.2, 1.3), loads=(known, slow)), 1.0) == 4
    assert "slow at 1 connection may be below 1: it gave no figures for both servers" in capsys.readouterr().err
    assert exit_code(result_of(compared(0.5, 0.6), loads=(known, slow)), 1.0) == 3


def test_trials_without_a_query_may_be_below(capsys: pytest.CaptureFixture[str]) -> None:
    """They may be the worst ones."""
    some = compared(1.2, 1.3).model_copy(update={"trials": 3})
    assert exit_code(result_of(some), 1.0) == 4
    said = capsys.readouterr().err
    assert "w at 8 connections may be below 1: in 3 of 6 trials one of the servers ended no query" in said
    assert exit_code(result_of(compared(0.5, 0.6).model_copy(update={"trials": 3})), 1.0) == 3
    more = Reached(asked=0.01, expected=0.01, reached=0.01, first_stage=6, trials=9)
    assert exit_code(result_of(compared(1.2, 1.3), reached=more), 1.0) == 4
    assert exit_code(result_of(compared(1.2, 1.3).model_copy(update={"trials": 9}), reached=more), 1.0) == 0
