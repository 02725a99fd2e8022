"""How closely the executed code lies together: the fewest pages and cache lines that hold a share of the samples."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import numpy as np

from upshift.values import Value

PAGE_BYTES = 4096
LINE_BYTES = 64
SHARES = (0.90, 0.99)


class Spread(Value):
    """The fewest pages of 4 KiB and lines of 64 bytes that hold 90 and 99 % of the samples in the server's own code."""

    samples: int
    pages_90: int
    pages_99: int
    lines_90: int
    lines_99: int


def spreads(before: Mapping[int, int], after: Mapping[int, int], seed: int = 1) -> tuple[Spread, Spread]:
    """Of two servers' samples by address. More samples meet more lines: the larger set is thinned out to the smaller's size."""
    size = min(sum(before.values()), sum(after.values()))
    first, second = (_spread(_thinned(counts, size, seed)) for counts in (before, after))
    return first, second


def fewest(counts: Mapping[int, int], unit_bytes: int, share: float) -> int:
    """How many units of code hold at least ``share`` of the samples."""
    by_unit: Counter[int] = Counter()
    for address, count in counts.items():
        by_unit[address // unit_bytes] += count
    wanted, held = share * by_unit.total(), 0
    for number, (_unit, count) in enumerate(by_unit.most_common(), 1):
        held += count
        if held >= wanted:
            return number
    return 0


def _spread(counts: Mapping[int, int]) -> Spread:
    pages, lines = ([fewest(counts, unit, share) for share in SHARES] for unit in (PAGE_BYTES, LINE_BYTES))
    return Spread(samples=sum(counts.values()), pages_90=pages[0], pages_99=pages[1], lines_90=lines[0], lines_99=lines[1])


def _thinned(counts: Mapping[int, int], size: int, seed: int) -> Mapping[int, int]:
    addresses = sorted(counts)
    if not size:
        return {}
    kept = np.random.default_rng(seed).multivariate_hypergeometric([counts[each] for each in addresses], size)
    return {address: int(count) for address, count in zip(addresses, kept, strict=True) if count}
