from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from upshift.measure.placement import Position, Topology, assign, kept_to, read_topology


def machine(*nodes: list[tuple[int, ...]]) -> Topology:
    """Each node a list of its cores."""
    return {cpu: Position(number, core) for number, cores in enumerate(nodes) for core in cores for cpu in core}


def plain(count: int) -> Topology:
    return {cpu: Position(0, (cpu,)) for cpu in range(count)}


FOUR_CORES_OF_TWO = machine([(0, 4), (1, 5), (2, 6), (3, 7)])
TWO_NODES = machine([(cpu, cpu + 16) for cpu in range(8)], [(cpu, cpu + 16) for cpu in range(8, 16)])
FOUR_NODES = {cpu: Position(cpu // 4, (cpu,)) for cpu in range(16)}


@pytest.mark.parametrize(
    ("topology", "server", "client"),
    [
        (plain(1), (0,), (0,)),
        (plain(2), (0,), (1,)),
        (plain(4), (0, 1, 2), (3,)),
        (plain(8), (0, 1, 2, 3, 4, 5), (6, 7)),
        (machine([(0, 1)]), (0,), (1,)),
        (machine([(0, 1), (2, 3)]), (0, 1), (2, 3)),
        (machine([(0, 2), (1, 3)]), (0, 2), (1, 3)),
        (FOUR_CORES_OF_TWO, (0, 1, 2, 4, 5, 6), (3, 7)),
        (TWO_NODES, (*range(12), *range(16, 28)), (12, 13, 14, 15, 28, 29, 30, 31)),
        (FOUR_NODES, tuple(range(14)), (14, 15)),
    ],
)
def test_the_load_gets_the_last_quarter_in_whole_cores(
    topology: Topology, server: tuple[int, ...], client: tuple[int, ...]
) -> None:
    made = assign(topology.keys(), topology)
    assert (made.server_cpus, made.client_cpus) == (server, client)


@pytest.mark.parametrize("topology", [FOUR_CORES_OF_TWO, TWO_NODES, machine([(0, 2), (1, 3)])])
def test_no_core_is_shared_and_nothing_is_left_over(topology: Topology) -> None:
    made = assign(topology.keys(), topology)
    cores = [{topology[cpu].core for cpu in cpus} for cpus in (made.server_cpus, made.client_cpus)]
    assert cores[0].isdisjoint(cores[1])
    assert {*made.server_cpus, *made.client_cpus} == topology.keys()


def test_the_load_lies_on_one_node_with_a_part_of_the_server() -> None:
    for topology in (TWO_NODES, FOUR_NODES):
        made = assign(topology.keys(), topology)
        assert len({topology[cpu].node for cpu in made.client_cpus}) == 1
        assert {topology[cpu].node for cpu in made.client_cpus} < {topology[cpu].node for cpu in made.server_cpus}


@pytest.mark.parametrize(
    ("allowed", "server", "client"),
    [
        ({0, 4, 1}, (0, 4), (1,)),  # A core of which one half is allowed is a core.
        ({0, 4}, (0,), (4,)),
        ({4, 5, 6, 7}, (4, 5, 6), (7,)),
        ({2}, (2,), (2,)),
    ],
)
def test_restricted_to_some_cpus(allowed: set[int], server: tuple[int, ...], client: tuple[int, ...]) -> None:
    made = assign(allowed, FOUR_CORES_OF_TWO)
    assert (made.server_cpus, made.client_cpus) == (server, client)


def test_without_a_topology_each_cpu_is_a_core() -> None:
    made = assign({2, 3, 5, 7}, {})
    assert (made.server_cpus, made.client_cpus) == ((2, 3, 5), (7,))


@pytest.mark.parametrize(
    ("topology", "words"),
    [
        (plain(1), "server and load share the only CPU"),
        (plain(2), "the server has 1 core and the load 1 core of its own"),
        (machine([(0, 1)]), "server and load have their own CPUs but share the only core, so each slows the other down"),
        (
            TWO_NODES,
            "the server has 12 cores and the load 4 cores of its own, all on NUMA node 1; no core is shared between them",
        ),
    ],
)
def test_it_is_said_in_words(topology: Topology, words: str) -> None:
    assert assign(topology.keys(), topology).words == words


def test_a_topology_is_read_from_sysfs(tmp_path: Path) -> None:
    for cpu, siblings in ((0, "0,2"), (1, "1,3"), (2, "0,2"), (3, "1,3")):
        (tmp_path / f"cpu/cpu{cpu}/topology").mkdir(parents=True)
        (tmp_path / f"cpu/cpu{cpu}/topology/thread_siblings_list").write_text(siblings + "\n")
    (tmp_path / "cpu/cpu4").mkdir()
    for node, cpus in ((0, "0,2"), (1, "1,3-4")):
        (tmp_path / f"node/node{node}").mkdir(parents=True)
        (tmp_path / f"node/node{node}/cpulist").write_text(cpus + "\n")
    assert read_topology(tmp_path) == {
        0: Position(0, (0, 2)),
        1: Position(1, (1, 3)),
        2: Position(0, (0, 2)),
        3: Position(1, (1, 3)),
    }
    assert read_topology(tmp_path / "none") == {}


def test_this_machines_cpus_are_in_its_topology() -> None:
    assert os.sched_getaffinity(0) <= read_topology().keys()


def test_every_thread_is_kept_to_its_cpus_and_set_free_again() -> None:
    before = os.sched_getaffinity(0)
    begun, ended = threading.Event(), threading.Event()

    def wait() -> None:
        begun.set()
        ended.wait(10)

    other = threading.Thread(target=wait)
    other.start()
    begun.wait()
    assert other.native_id
    one = {min(before)}
    with kept_to(one):
        assert os.sched_getaffinity(0) == os.sched_getaffinity(other.native_id) == one
    assert os.sched_getaffinity(0) == os.sched_getaffinity(other.native_id) == before
    with kept_to(()):
        assert os.sched_getaffinity(0) == before
    ended.set()
    other.join()
