"""Studies on a machine that is made up: true effects, luck of starts and layouts, noise as real runs show it."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from upshift.study.designs import Design, Factor

SPREADS = json.loads((Path(__file__).parents[1] / "measure" / "spread.json").read_text())


def factors(count: int) -> list[Factor]:
    return [Factor(name=letter, levels=("off", "on")) for letter in "ABCDEFGHIJKLMNO"[:count]]


def truth(design: Design, effects: Sequence[float], pairs: Mapping[tuple[int, int], float] = {}) -> np.ndarray:
    """The logarithm of the metric in each row."""
    rows = np.array(design.rows)
    alone = rows @ np.log1p(effects)
    return np.asarray(
        alone + sum((math.log1p(e) * rows[:, i] * rows[:, j] for (i, j), e in pairs.items()), np.zeros(len(rows)))
    )


def simulate(
    chance: np.random.Generator,
    true: np.ndarray,
    *,
    trials: int,
    blocks: int = 24,
    machine: str = "calm",
    layout_sd: float = 0.0,
    fresh_layouts: bool = True,
) -> np.ndarray:
    """Logarithms by trial and row. A trial starts each server once and measures ``blocks`` of it: a start's luck stays for the
    trial, a block's is its own. A server's layout is drawn for each trial, or once for all of them.
    """
    rows, spread = len(true), SPREADS[machine]
    # spread.json has the standard deviation of a ratio of two servers.
    start_sd = spread["start_log_sd"] / math.sqrt(2)
    noise_sd = spread["pair_log_sd"] / math.sqrt(2 * blocks)
    mood = chance.normal(0, 0.1, (trials, 1))
    layouts = chance.normal(0, layout_sd, (trials if fresh_layouts else 1, rows))
    luck = chance.normal(0, start_sd, (trials, rows)) + chance.normal(0, noise_sd, (trials, rows))
    return np.asarray(true + mood + layouts + luck)


def in_groups(
    chance: np.random.Generator, true: np.ndarray, groups: Sequence[Sequence[int]], *, trials: int, blocks: int = 24
) -> np.ndarray:
    """Each row's logarithm less that of all off, the first row, of which each group (rows by number) has a start of its own."""
    found = np.zeros((trials, len(true)))
    for group in groups:
        members = [0, *group]
        values = simulate(chance, true[members], trials=trials, blocks=blocks)
        found[:, group] = values[:, 1:] - values[:, :1]
    return found
