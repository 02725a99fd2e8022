"""Which CPUs the servers under test get, and which the load: whole cores, by what the kernel says of the machine."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from upshift.files import text_in
from upshift.values import Value

_SYSTEM = Path("/sys/devices/system")


class Position(NamedTuple):
    """Where a CPU lies."""

    node: int
    """NUMA node."""
    core: tuple[int, ...]
    """All CPUs of its core: SMT siblings and itself, rising."""


Topology = Mapping[int, Position]
"""By the CPU's number; a CPU that is not in it counts as a core of node 0."""


class Seat(Value):
    """CPUs of a server that is loaded, and of its load."""

    server_cpus: tuple[int, ...]
    client_cpus: tuple[int, ...]


class Placement(Seat):
    """CPUs of server and load, which share none where there are two."""

    words: str
    """How they lie to each other, in a sentence."""
    duet: tuple[Seat, ...] = ()
    """How the CPUs are divided between two servers that are loaded at the same time; empty: all are for one at a time."""


def read_topology(system: Path = _SYSTEM) -> Topology:
    """The machine's own, from sysfs; empty where there is none."""
    nodes = {
        cpu: int(folder.name.removeprefix("node"))
        for folder in system.glob("node/node[0-9]*")
        for cpu in _cpu_list(folder / "cpulist")
    }
    found = {}
    for folder in system.glob("cpu/cpu[0-9]*"):
        cpu = int(folder.name.removeprefix("cpu"))
        # An offline CPU has no topology.
        if siblings := _cpu_list(folder / "topology" / "thread_siblings_list"):
            found[cpu] = Position(nodes.get(cpu, 0), siblings)
    return found


def assign(allowed: Collection[int], topology: Topology) -> Placement:
    """Divide the CPUs in ``allowed`` between server and load.

    The load gets a quarter of the cores, at least one: the last ones of the last NUMA node, of which at most half, so that
    it lies on one node and a part of the server beside it. A core is divided only when there is no other.
    """
    groups = cores_of(allowed, topology)
    if len(groups) == 1:
        return _on_one_core(groups[0])
    last_node = node_of(topology, groups[-1][0])
    on_last = sum(node_of(topology, group[0]) == last_node for group in groups)
    several = on_last < len(groups)
    for_load = max(1, min(len(groups) // 4, on_last // 2 if several else len(groups)))
    server, client = (tuple(sorted(chain.from_iterable(part))) for part in (groups[:-for_load], groups[-for_load:]))
    smt = "; no core is shared between them" if any(len(core_of(topology, cpu)) > 1 for cpu in allowed) else ""
    node = f", all on NUMA node {last_node}" if several else ""
    words = f"the server has {_cores(len(groups) - for_load)} and the load {_cores(for_load)} of its own{node}"
    return Placement(server_cpus=server, client_cpus=client, words=words + smt)


def cores_of(allowed: Collection[int], topology: Topology) -> list[list[int]]:
    """The CPUs in ``allowed`` by cores: those of a NUMA node beside each other."""
    cores: dict[tuple[int, ...], list[int]] = {}
    for cpu in sorted(allowed, key=lambda cpu: (node_of(topology, cpu), core_of(topology, cpu), cpu)):
        cores.setdefault(core_of(topology, cpu), []).append(cpu)
    return list(cores.values())


def node_of(topology: Topology, cpu: int) -> int:
    return topology[cpu].node if cpu in topology else 0


def core_of(topology: Topology, cpu: int) -> tuple[int, ...]:
    """All CPUs of its core."""
    return topology[cpu].core if cpu in topology else (cpu,)


@contextlib.contextmanager
def kept_to(cpus: Collection[int]) -> Iterator[None]:
    """Keep this process, with all its threads, to ``cpus``: watching must not take time from a server under test."""
    before = os.sched_getaffinity(0)
    _keep_to(before & set(cpus) or before)
    try:
        yield
    finally:
        _keep_to(before)


def _keep_to(cpus: Collection[int]) -> None:
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(ProcessLookupError):
            os.sched_setaffinity(int(task.name), cpus)


def _on_one_core(cpus: list[int]) -> Placement:
    if len(cpus) == 1:
        return Placement(server_cpus=tuple(cpus), client_cpus=tuple(cpus), words="server and load share the only CPU")
    return Placement(
        server_cpus=tuple(cpus[:-1]),
        client_cpus=(cpus[-1],),
        words="server and load have their own CPUs but share the only core, so each slows the other down",
    )


def _cores(count: int) -> str:
    return f"{count} core" if count == 1 else f"{count} cores"


def _cpu_list(file: Path) -> tuple[int, ...]:
    """``0-2,8`` as numbers; empty when there is no such file."""
    bounds = (part.split("-") for part in text_in(file).strip().split(",") if part)
    return tuple(sorted(cpu for span in bounds for cpu in range(int(span[0]), int(span[-1]) + 1)))
