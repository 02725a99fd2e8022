from __future__ import annotations

import math

import pytest
from pydantic import ValidationError

from upshift.cli.amounts import parse_budget, parse_until
from upshift.errors import UsageError
from upshift.options import Options


def test_a_width_is_a_percentage() -> None:
    assert parse_until("1%") == 0.01
    assert parse_until("2.5%") == 0.025
    assert parse_until(None) is None


@pytest.mark.parametrize("text", ["1", "0%", "-1%", "51%", "one", "1 %", ""])
def test_another_width_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--until") as caught:
        parse_until(text)
    assert "1%" in caught.value.hint


def test_a_budget_is_a_time() -> None:
    assert [parse_budget(text) for text in ("90s", "10m", "2h", None)] == [90.0, 600.0, 7200.0, None]


@pytest.mark.parametrize("text", ["10", "0m", "10d", "m", "1.5h"])
def test_another_budget_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--budget"):
        parse_budget(text)


@pytest.mark.parametrize("name", ["train_s", "sample_s", "slice_s"])
def test_times_without_an_end_are_refused(name: str) -> None:
    with pytest.raises(ValidationError):
        Options.model_validate({name: math.inf})
