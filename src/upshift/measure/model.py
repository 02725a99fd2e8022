"""The words of an experiment, and the shape of its results."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from upshift.measure.placement import Seat
from upshift.measure.variant import Surroundings, Variant
from upshift.values import Value, is_empty

Metric = Literal[
    "qps",
    "latency_ms_p99",
    "total_cpu_us_per_query",
    "typical_cpu_us_per_query",
    "user_cpu_us_per_query",
    "system_cpu_us_per_query",
    "run_delay_us_per_query",
]
Verdict = Literal["faster", "slower", "equivalent", "inconclusive"]


BASELINE = "baseline"
"""The name of the arm of ``--baseline``: the server that the user runs today."""
OPTIMISED = "optimised"
"""The arm that `upshift optimize` makes; the headline speaks of it alone when it is there."""
PATCHED = "patched"
"""The arm of a plain server with patches: what they bring by themselves."""


class Load(Value):
    """A workload at a number of connections, and whether the profile was trained without it."""

    workload: str
    connections: int
    held_out: bool


class Plan(Value):
    """How long and how often is measured."""

    trials: int
    """Server starts of each arm: the unit of replication."""
    rounds: int
    """Turns of each arm under each load within a trial."""
    slice_s: float
    lead_s: float
    """Load on an arm in its turn before the slice: caches hold another arm's data at first."""
    pilot_turns: int = 0
    """Of each arm under each workload, in a trial that does not count: they choose what replaces ``lead_s``. 0: none."""
    warmup_s: float
    """Load on each arm after its start, before the first slice counts."""
    until: float | None = None
    """Half-width that the headline's intervals are to reach, such as 0.01; ``trials`` are the first stage then."""
    budget_s: float | None = None
    """How long measuring may take for that, as the first ``trials`` let expect; without ``until``, how long it takes."""
    seed: int
    headline_connections: int
    """The headline speaks of this number of connections, fixed before anything is measured."""
    server_cpus: tuple[int, ...]
    """Of all servers that are loaded at the same time."""
    client_cpus: tuple[int, ...]
    quota_cpus: Annotated[float | None, Field(exclude_if=is_empty)] = None
    """The CPU time that a container may use, as a number of CPUs; None: all of its CPUs'."""
    placement: str
    """How the CPUs of a server and of its load lie to each other, in words."""
    speed_probe: Annotated[bool, Field(exclude_if=is_empty)] = False
    """Whether a probe says how fast the servers' CPUs are in each turn, so that figures are those at their usual speed."""
    duet: Annotated[tuple[Seat, ...], Field(exclude_if=is_empty)] = ()
    """The CPUs of two arms that are loaded at the same time, and swap them from turn to turn; empty: arms take turns."""

    @property
    def first_stage(self) -> int | None:
        """How many trials say how far all of them spread; None: all do."""
        return None if self.until is None else self.trials

    @property
    def cpus(self) -> tuple[int, ...]:
        """All CPUs of servers and loads, rising; empty where they are not kept to any."""
        return tuple(sorted({*self.server_cpus, *self.client_cpus}))

    @property
    def seat(self) -> Seat:
        """The CPUs of one server and its load; those of a duet's other arm are as many."""
        return self.duet[0] if self.duet else Seat(server_cpus=self.server_cpus, client_cpus=self.client_cpus)

    def seat_of(self, arm: Surroundings) -> Seat:
        """The CPUs of this arm and its load: those that it names, or else the plan's."""
        planned = self.seat
        return Seat(server_cpus=arm.server_cpus or planned.server_cpus, client_cpus=arm.client_cpus or planned.client_cpus)


class Slice(Value):
    """A short part of a load, in one turn of one arm in one trial: a raw sample, a row of ``samples.parquet``.

    In a duet, slices of the same trial, load and round are of the same time.
    """

    trial: int
    round: int
    arm: str
    workload: str
    held_out: bool
    connections: int
    started_s: float
    """Since the start of the experiment."""
    wall_s: float
    queries: int
    total_cpu_s: float
    """Of the server process, from the kernel, exact."""
    user_cpu_s: float
    """The part in user mode, as the kernel's ticks found it."""
    system_cpu_s: float
    run_delay_s: float = 0.0
    """Time in which threads of the server were ready to run and waited for a CPU, summed over threads; 0 where the kernel
    does not say."""
    client_cpu_s: float
    """Of the load's driver, scaled to the slice from the arm's whole load in the trial."""
    errors: int
    """Of the arm's whole load in the trial, on its first slice; 0 on others."""
    latency_ms_p50: float | None
    """Latencies are those of the arm's whole load in the trial, without what waited while it was paused; None when the
    driver reports none."""
    latency_ms_p95: float | None
    latency_ms_p99: float | None
    other_cpu_s: float
    """CPU time that no server under test and no client used, on the plan's CPUs: other load on the machine."""
    steal_s: float
    """CPU time that the hypervisor gave to other machines, on the plan's CPUs."""
    swapped_bytes: int
    settled: bool
    """Whether background work of all servers had calmed down before the load."""
    attempt: int
    """0, or how often the load had been measured before in this trial and was repeated."""
    half_queries: int
    """Of the slice's first half."""
    half_wall_s: float
    seat: int = 0
    """Which of ``Plan.duet``'s CPUs the arm had; 0 where arms take turns."""
    probe_us: float = 0.0
    """Mean CPU time of the speed probe's unit of work, on the servers' CPUs; 0 without a probe."""
    rejected: bool = False
    """The load was measured again, and no figure uses this."""


class Comparison(Value):
    """An arm against the baseline for one load and metric.

    ``ratio`` is arm / baseline. Interval and verdict are of one level, ``confidence``, which is the same for all
    comparisons of an experiment: *faster* and *slower* are said exactly when the interval leaves 1 out and reaches beyond
    the margin of *equivalent*. *faster* means better: a ratio above 1 for qps, below 1 for all other metrics. Where
    nothing is known, with fewer than two trials, the interval is [0, 1e9].
    """

    workload: str
    held_out: bool
    connections: int
    metric: Metric
    arm: str
    baseline: str
    ratio: float
    ci_low: float
    ci_high: float
    confidence: float
    """Such as 0.96: one minus the level that holds the share of false calls over all comparisons."""
    trials: int
    verdict: Verdict
    trials_needed: int | None
    """For an inconclusive one: trials that a new experiment would need to decide with 80 % power; else None."""


class Level(Value):
    """An arm's own figures for one load: geometric means over trials, with intervals of the experiment's confidence. Times
    that were 0 in some trial are the sum over trials instead, over the queries of all.
    """

    workload: str
    held_out: bool
    connections: int
    arm: str
    metric: Metric
    value: float
    ci_low: float
    ci_high: float


class Flagged(Value):
    """One arm under one load."""

    arm: str
    workload: str
    held_out: bool
    connections: int


class Flag(Value):
    """Something that spoils a measurement, in a sentence, with what to do about it."""

    name: Literal[
        "client-saturated",
        "errors",
        "swap",
        "cpu-quota",
        "buffer-pool-smaller-than-data",
        "warm-up-not-steady",
        "carry-over",
        "other-load",
        "steal",
        "not-settled",
        "server-idle",
        "trials-left-out",
        "probe-missing",
        "probe-differs",
    ]
    message: str
    hint: str
    loads: tuple[Flagged, ...] = ()
    """Where it was found; empty for what concerns all of the measurement."""


class LeadIn(Value):
    """The lead-in that the pilot chose for all arms under a workload, and why."""

    workload: str
    lead_s: float
    why: Literal["no difference", "noise", "longest"]
    """No difference was seen behind it; the pilot was too noisy to choose a shorter one than ``Plan.lead_s``; or it is the
    longest of all, and a difference is still there."""
    moved: float
    """By which share the ratio of an arm to the baseline was another in the slice than in the rest of the turn: 0.02 is 2 %
    more, of the arm that it moved most for."""
    noise: float
    """Half-width of the interval around it, as a share."""


class Reached(Value):
    """What came of the asked half-width. Half-widths are shares: 0.01 is an interval of about 1 % either way."""

    asked: float
    expected: float
    """For all trials, as the first stage let expect, at 95 % for each comparison."""
    reached: float
    """The widest of the intervals that count, at the experiment's confidence; 1e9 where one of them has no bounds, or a
    load that counts has none."""
    first_stage: int
    trials: int


class Experiment(Value):
    """All that was measured."""

    plan: Plan
    arms: tuple[Variant, ...]
    baseline: str
    loads: tuple[Load, ...]
    levels: tuple[Level, ...]
    comparisons: tuple[Comparison, ...]
    confidence: float
    """Of every interval and verdict."""
    steal_share: float
    """Of the CPUs' time while measuring, what the hypervisor gave to other machines."""
    reached: Reached | None = None
    """None: no width was asked for."""
    lead_ins: tuple[LeadIn, ...] = ()
    """What the pilot chose, a workload each; empty without one, when each slice has the plan's."""
    transactions: tuple[str, ...] = ()
    """Workloads of which transactions are counted in place of queries: a query is a transaction in their figures."""
    repeated: int = 0
    """Loads that were measured again, as the hypervisor had taken too much of the CPUs' time."""
    slowed_share: float | None = None
    """Of all turns, those in which the speed probe found the servers' CPUs slowed down; None without a probe."""
    flags: tuple[Flag, ...]
