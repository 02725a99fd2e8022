"""Thresholds come from one table, and from NAME=VALUE."""

from __future__ import annotations

import pytest

from upshift.errors import UsageError
from upshift.stack.suspects.thresholds import THRESHOLDS, read_thresholds


def test_what_is_given_counts_and_the_table_otherwise() -> None:
    thresholds = read_thresholds(["C1.share=0.5", "C2.executions=7"])
    assert (thresholds["C1.share"], thresholds["C2.executions"]) == (0.5, 7)
    assert thresholds["C5.share"] == THRESHOLDS["C5.share"].value


@pytest.mark.parametrize("given", ["C1.sharp=1", "C1.share", "C1.share=", "C1.share=x", "C1.share=-1", "C1.share=nan", "=1"])
def test_what_is_no_threshold_is_refused_with_a_hint(given: str) -> None:
    with pytest.raises(UsageError) as refused:
        read_thresholds([given])
    assert "C1.share" in refused.value.hint or "report.share" in refused.value.hint
