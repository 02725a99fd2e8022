"""The words of an experiment, and the shape of its results."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from upshift.server.kind import Program
from upshift.values import Value

Metric = Literal["qps", "latency_ms_p99", "user_cpu_us_per_query", "system_cpu_us_per_query"]
Verdict = Literal["faster", "slower", "equivalent", "inconclusive"]


BASELINE = "baseline"
"""The name of the arm of ``--baseline``: the server that the user runs today."""


class Arm(Value):
    """One server in an experiment: a program with its configuration and environment.

    The environment is where a preloaded library or an allocator comes in.
    """

    name: str
    program: Program
    settings: Mapping[str, str] = {}
    environment: Mapping[str, str] = {}


class Load(Value):
    """A workload at a number of client threads, and whether the profile was trained without it."""

    workload: str
    threads: int
    held_out: bool


class Plan(Value):
    """How long and how often is measured."""

    trials: int
    """Server starts of each arm: the unit of replication."""
    rounds: int
    """Slices of each arm and load within a trial."""
    slice_s: float
    warmup_s: float
    """Load on each arm after its start, before the first slice counts."""
    seed: int
    server_cpus: tuple[int, ...]
    client_cpus: tuple[int, ...]


class Slice(Value):
    """One short measured load on one trial of one arm: a raw sample, a row of ``samples.parquet``."""

    trial: int
    round: int
    arm: str
    workload: str
    held_out: bool
    threads: int
    started_s: float
    """Since the start of the experiment."""
    wall_s: float
    queries: int
    user_cpu_s: float
    """Of the server process, in user mode, from the kernel."""
    system_cpu_s: float
    client_cpu_s: float
    """Of the load's driver, scaled to the slice from the whole load, which is a little longer."""
    errors: int
    """Of the whole load, as the latencies are. A latency is None when the driver reports none."""
    latency_ms_p50: float | None
    latency_ms_p95: float | None
    latency_ms_p99: float | None
    other_cpu_s: float
    """CPU time that neither the server nor the client used, on all CPUs: other load on the machine."""
    swapped_bytes: int


class Comparison(Value):
    """An arm against the baseline for one load and metric.

    ``ratio`` is arm / baseline; the interval holds it at 95 %. Where nothing is known, with fewer than two
    trials, the interval is [0, 1e9]. The verdict *faster* means better: a ratio above 1 for qps, below 1
    for all other metrics.
    """

    workload: str
    held_out: bool
    threads: int
    metric: Metric
    arm: str
    baseline: str
    ratio: float
    ci_low: float
    ci_high: float
    trials: int
    verdict: Verdict
    trials_needed: int | None
    """For an inconclusive one: trials after which the interval would be narrow enough; else None."""


class Level(Value):
    """An arm's own figures for one load: geometric means over trials, with 95 % intervals."""

    workload: str
    held_out: bool
    threads: int
    arm: str
    metric: Metric
    value: float
    ci_low: float
    ci_high: float


class Flag(Value):
    """Something that spoils a measurement, in a sentence, with what to do about it."""

    name: Literal[
        "client-saturated",
        "errors",
        "swap",
        "buffer-pool-smaller-than-data",
        "warm-up-not-steady",
        "other-load",
        "server-idle",
    ]
    message: str
    hint: str


class Experiment(Value):
    """All that was measured."""

    plan: Plan
    arms: tuple[Arm, ...]
    baseline: str
    loads: tuple[Load, ...]
    levels: tuple[Level, ...]
    comparisons: tuple[Comparison, ...]
    flags: tuple[Flag, ...]
