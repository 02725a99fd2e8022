"""The most that options and files take of a number: more is a slip of the hand, and overflows somewhere."""

from __future__ import annotations

MOST_TRIALS = 1000
"""Of one experiment, and the most that is worked out for another."""
MOST_ROUNDS = 10_000
MOST_CONNECTIONS = 100_000
MOST_SECONDS = 86_400
"""Of one load, sample or training."""
MOST_BUDGET_S = 3_600_000
"""For all trials: a thousand hours."""
