"""What a user asked for, parsed once at the edge."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal, get_args

from pydantic import AfterValidator, BeforeValidator, FiniteFloat

from upshift.card.program import LEAST_S, MOST_S
from upshift.explain.recording import SHORTEST_S
from upshift.package.service import Part
from upshift.paths import paths_of
from upshift.toml import own_file
from upshift.toolchain.model import Family
from upshift.values import Value

Level = Literal["quick", "full"]

LEAD_S = 0.3
"""The lead-in of a slice where nobody chose one."""
SLICE_S = 0.4
"""What a turn's slice lasts where nobody chose it. With ``LEAD_S``, the turns of two arms in two rounds are a load of four
seconds: drivers take whole ones.
"""


def _absolute(path: str | None) -> str | None:
    """A run that is resumed in another folder must find the same files. Raises UsageError for what cannot be a path."""
    if path in (None, "apt"):
        return path
    with paths_of(path):
        return str(Path(path).expanduser().resolve())


def _resolved(path: Path | None) -> Path | None:
    """The same for a path that may be left out."""
    if path is None:
        return None
    with paths_of(str(path)):
        return path.resolve()


def _absolute_file(name: str | None) -> str | None:
    """The same for a file of the user's own; one that is shipped keeps its name."""
    return str(own_file(name) or name) if name else name


Named = Annotated[str, AfterValidator(_absolute_file)]
"""A workload that is shipped, by its name, or the path of a file."""


def _card_seconds(seconds: float) -> float:
    if seconds and not LEAST_S <= seconds <= MOST_S:
        raise ValueError(f"--card-seconds takes {LEAST_S:g} to {MOST_S:g}, or 0 for no card")
    return seconds


def _explain_seconds(seconds: float) -> float:
    if seconds and seconds < SHORTEST_S:
        raise ValueError(f"--explain-seconds takes {SHORTEST_S:g} or more, or 0 for no explanation")
    return seconds


def _parts(parts: Sequence[str]) -> Sequence[str]:
    known = get_args(Part)
    if unknown := [each for each in parts if each not in known]:
        raise ValueError(f"--service takes {', '.join(known)}, not '{unknown[0]}'")
    return parts


class Options(Value):
    """The options of ``upshift optimize``; a run keeps them in its manifest, and ``--resume`` takes them from there."""

    source: Annotated[str | None, AfterValidator(_absolute)] = None
    level: Level = "full"
    toolchain: Family | None = None
    """None: the recipe's, or clang."""
    scope: Literal["hot", "all"] | None = None
    """None: what the recipe says."""
    recipe: Annotated[str | None, AfterValidator(_absolute_file)] = None
    """None: the level's and the toolchain's own."""
    patches: tuple[str, ...] = ()
    """Empty: those of the recipe."""
    workloads: tuple[Named, ...] = ("oltp_read_write", "oltp_read_only", "oltp_point_select")
    held_out: tuple[Named, ...] = ("oltp_write_only", "select_random_ranges")
    baseline: Annotated[Path | None, AfterValidator(_resolved)] = None
    server: str | None = None
    """Of the server to check first; None: what ``defaults_file`` says."""
    defaults_file: Annotated[Path | None, AfterValidator(_resolved)] = None
    verify: str = "short"
    connections: tuple[int, ...] = (1, 8)
    trials: int = 6
    rounds: int | None = None
    """None: ``ROUNDS``, or with ``until`` those that narrow the interval most."""
    slice_s: FiniteFloat | None = None
    """None: ``SLICE_S``, or with ``until`` and without ``rounds`` a short one."""
    lead_s: FiniteFloat | None = None
    """None: ``LEAD_S``, or what a pilot chooses with ``until``."""
    until: float | None = None
    budget_s: float | None = None
    warmup_s: FiniteFloat = 4.0
    """Of load after each start, on all servers at once, shared by the workloads."""
    speed_probe: bool = False
    """Figures are those at the usual speed of the servers' CPUs, by a probe that runs on them."""
    duet: bool = False
    """Two servers are loaded at the same time, and do not take turns."""
    train_s: FiniteFloat = 20.0
    sample_s: FiniteFloat = 12.0
    card_s: Annotated[float, AfterValidator(_card_seconds)] = 10.0
    """For the machine card; 0: none."""
    explain_s: Annotated[float, AfterValidator(_explain_seconds)] = 4.0
    """Sampled of each server to explain the headline's load; 0: no explanation."""
    service: Annotated[tuple[Part, ...], BeforeValidator(_parts)] = ()
    """What the package's drop-in for systemd turns on."""
    jobs: int = 0
    """0: one for each CPU, fewer when memory would not hold them."""
