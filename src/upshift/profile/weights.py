"""A workload's weight is its share of the server's work, however long or fast its training was.

A training's counts are multiplied by weight / (CPU time per query x queries). Both factors come from the training itself: the
product is the server's CPU time under the load, which ``upshift.profile.training`` reads from the kernel. Each
workload's counts then add up to what the server does in ``weight`` seconds of that work.
"""

from __future__ import annotations

from collections.abc import Sequence

# The tools that merge counts take whole factors. The smallest one is this: rounding moves no share by more than 0.5 %.
_SMALLEST = 100
# Counts are 64 bits, and busy loops leave some of 10^11.
_LARGEST = 1_000_000


def whole_factors(shares: Sequence[float]) -> list[int]:
    """Whole factors in the proportions of ``shares``; 1 for all when they are equal, so that counts stay as they are."""
    if not shares:
        return []
    if max(shares) == min(shares):
        return [1] * len(shares)
    scale = min(_SMALLEST / min(shares), _LARGEST / max(shares))
    return [max(1, round(scale * share)) for share in shares]
