"""A bench, a clock and CPU counters that only pretend, at exact rates."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from upshift.measure.bench import LoadHandle, RunningArm
from upshift.measure.kernel import Usage
from upshift.measure.model import Load, Plan, Slice
from upshift.measure.placement import Seat
from upshift.measure.variant import Variant
from upshift.server.kind import Program
from upshift.workload.driver import whole_seconds
from upshift.workload.reports import LoadReport

READS = Load(workload="reads", connections=8, held_out=False)
WRITES = Load(workload="writes", connections=8, held_out=True)


def arm(name: str) -> Variant:
    return Variant(name=name, program=Program(kind="fake", binary=Path("/nowhere") / name))


def plan(**changes: object) -> Plan:
    base = {
        "trials": 3,
        "rounds": 2,
        "slice_s": 2.0,
        "lead_s": 0.5,
        "warmup_s": 4.0,
        "seed": 7,
        "headline_connections": 8,
        "server_cpus": (0,),
        "client_cpus": (1,),
        "placement": "the server has 1 core and the load 1 core of its own",
    }
    return Plan.model_validate({**base, **changes})


SEATS = (Seat(server_cpus=(0,), client_cpus=(1,)), Seat(server_cpus=(2,), client_cpus=(3,)))


def duet_plan(**changes: object) -> Plan:
    """As ``plan``, for two arms that are loaded at the same time."""
    return plan(**{"server_cpus": (0, 2), "client_cpus": (1, 3), "duet": SEATS, **changes})


def one_slice(**changes: object) -> Slice:
    base = {
        "trial": 0,
        "round": 0,
        "arm": "plain",
        "workload": READS.workload,
        "held_out": READS.held_out,
        "connections": READS.connections,
        "started_s": 0.0,
        "wall_s": 2.0,
        "queries": 2000,
        "total_cpu_s": 1.8,
        "user_cpu_s": 1.5,
        "system_cpu_s": 0.3,
        "client_cpu_s": 0.8,
        "errors": 0,
        "latency_ms_p50": 1.0,
        "latency_ms_p95": 2.0,
        "latency_ms_p99": 3.0,
        "other_cpu_s": 0.0,
        "steal_s": 0.0,
        "swapped_bytes": 0,
        "settled": True,
        "attempt": 0,
    }
    found = {**base, **changes}
    queries, wall_s = (float(str(found[name])) for name in ("queries", "wall_s"))
    return Slice.model_validate({"half_queries": round(queries / 2), "half_wall_s": wall_s / 2, **found})


@dataclass
class FakeServer:
    name: str
    pid: int
    world: World
    arm: Variant
    total: float = 0.0
    cpu_s: float = 0.0
    busy_until_s: float = 0.0
    """Background work goes on until then."""
    paused: bool = False

    def queries(self) -> int:
        assert not self.paused, "a stopped server does not answer"
        return round(self.total)

    def quiet(self) -> bool:
        assert not self.paused, "a stopped server does not answer"
        return self.world.time_s >= self.busy_until_s

    def pause(self) -> None:
        self.paused = True

    def resume(self) -> None:
        self.paused = False


@dataclass
class FakeLoad:
    world: World
    server: FakeServer
    ends_s: float
    paused: bool = False
    cpu_s: float = 0.0

    def answered(self) -> int:
        return self.server.queries()

    def ended(self) -> bool:
        return self.world.time_s >= self.ends_s

    def pause(self) -> None:
        self.paused = True

    def resume(self) -> None:
        self.paused = False

    def finish(self) -> LoadReport:
        assert not self.paused, "a stopped driver does not end"
        self.world.sleep(self.ends_s - self.world.time_s)
        self.server.busy_until_s = self.world.time_s + self.world.flushing_s
        self.world.loaded.remove(self)
        return LoadReport(client_cpu_s=self.cpu_s, latency_ms_p99=self.world.latency_ms_p99, errors=self.world.errors)


@dataclass
class World:
    """Bench, clock and counters in one: time passes only by ``sleep``, and loaded servers work meanwhile.

    A server makes ``qps`` queries a second for 0.8 s of user and 0.1 s of system CPU time a second; the rest
    of the machine uses ``other`` CPUs, and the hypervisor takes ``steal``.
    """

    qps: dict[str, float]
    other: float = 0.0
    steal: float = 0.0
    flushing_s: float = 0.0
    """How long a server flushes and purges after a load."""
    latency_ms_p99: float | None = 3.0
    errors: int = 0
    """Of each load."""
    drivers_share: bool = False
    """Whether the drivers that run at the same time share 0.3 of a CPU; else each uses as much."""
    speed: Callable[[float, Variant], float] = lambda _time_s, _arm: 1.0
    """What the machine does to a server's throughput at a time, on the CPUs that it has then."""
    on_begin: Callable[[World], None] = lambda _world: None
    on_check: Callable[[World, str], None] = lambda _world, _arm: None
    """What happens where an arm is looked at after a load."""
    time_s: float = 100.0
    client_s: float = 0.0
    loaded: list[FakeLoad] = field(default_factory=list)
    alive: dict[int, FakeServer] = field(default_factory=dict)
    started: list[tuple[str, int]] = field(default_factory=list)
    loads: list[tuple[str, Load, float, int]] = field(default_factory=list)

    def now_s(self) -> float:
        return self.time_s

    def sleep(self, seconds: float) -> None:
        before_s, self.time_s = self.time_s, self.time_s + max(0.0, seconds)
        going = [each for each in self.loaded if not (each.paused or each.server.paused or each.ends_s <= before_s)]
        rate = 0.3 / len(going) if self.drivers_share and going else 0.3
        for load in going:
            active_s = max(0.0, min(self.time_s, load.ends_s) - before_s)
            load.server.total += self.qps[load.server.name] * active_s * self.speed(before_s, load.server.arm)
            load.server.cpu_s += active_s
            load.cpu_s += rate * active_s
            self.client_s += rate * active_s

    def usage(self, pid: int) -> Usage:
        busy_s = self.time_s * self.other + self.client_s + 0.9 * sum(each.cpu_s for each in self.alive.values())
        cpu_s = self.alive[pid].cpu_s
        return Usage(
            total_cpu_s=0.9 * cpu_s,
            user_cpu_s=0.8 * cpu_s,
            system_cpu_s=0.1 * cpu_s,
            run_delay_s=0.05 * cpu_s,
            machine_busy_cpu_s=busy_s,
            steal_s=self.time_s * self.steal,
            swapped_bytes=0,
        )

    @contextlib.contextmanager
    def arm(self, arm: Variant, trial: int) -> Iterator[RunningArm]:
        server = FakeServer(arm.name, pid=1000 + len(self.started), world=self, arm=arm)
        self.started.append((arm.name, trial))
        self.alive[server.pid] = server
        try:
            yield server
        finally:
            del self.alive[server.pid]

    def check(self, running: RunningArm) -> None:
        assert not self.alive[running.pid].paused, "what is stopped answers nothing"
        self.on_check(self, self.alive[running.pid].name)

    def place(self, running: RunningArm, load: LoadHandle | None, arm: Variant) -> None:
        server = self.alive[running.pid]
        assert server.paused and (load is None or (isinstance(load, FakeLoad) and load.paused)), "only what is stopped is moved"
        server.arm = arm

    def begin(self, running: RunningArm, load: Load, seconds: float, seed: int) -> FakeLoad:
        server = self.alive[running.pid]
        self.loads.append((server.name, load, seconds, seed))
        self.loaded.append(FakeLoad(self, server, self.time_s + whole_seconds(seconds)))
        self.on_begin(self)
        return self.loaded[-1]


def names(arms: Sequence[Variant]) -> list[str]:
    return [each.name for each in arms]
