"""The CPUs of a duet, and who has which of them when."""

from __future__ import annotations

from collections import Counter

import pytest
from fake_bench import READS, SEATS, WRITES, arm, duet_plan, names
from test_placement import FOUR_CORES_OF_TWO, TWO_NODES, machine, plain

from upshift.errors import UsageError
from upshift.measure.duet import assign_duet, refuse_odd_rounds, refuse_other_numbers
from upshift.measure.placement import Position, Seat, Topology, assign
from upshift.measure.schedule import start_order, turns
from upshift.measure.variant import Surroundings

ARMS = [arm("plain"), arm("pgo")]
CPUs = tuple[int, ...]
FOUR_NODES_OF_FOUR = {cpu: Position(cpu // 4, (cpu,)) for cpu in range(16)}
BIG_AND_SMALL = machine([(0, 1), (2, 3), (4, 5), (6, 7), (8,), (9,), (10,), (11,)])


@pytest.mark.parametrize(
    ("topology", "one", "other"),
    [
        (plain(4), ((0,), (1,)), ((2,), (3,))),
        (plain(8), ((0, 1, 2), (3,)), ((4, 5, 6), (7,))),
        (machine([(0, 1), (2, 3)]), ((0,), (1,)), ((2,), (3,))),
        (machine([(0, 2), (1, 3)]), ((0,), (2,)), ((1,), (3,))),
        (FOUR_CORES_OF_TWO, ((0, 4), (1, 5)), ((2, 6), (3, 7))),
        (
            TWO_NODES,
            ((0, 1, 2, 3, 8, 9, 16, 17, 18, 19, 24, 25), (10, 11, 26, 27)),
            ((4, 5, 6, 7, 12, 13, 20, 21, 22, 23, 28, 29), (14, 15, 30, 31)),
        ),
    ],
)
def test_each_server_and_its_load_get_half_of_the_cores(
    topology: Topology, one: tuple[CPUs, CPUs], other: tuple[CPUs, CPUs]
) -> None:
    placed = assign_duet(topology.keys(), topology)
    assert [(seat.server_cpus, seat.client_cpus) for seat in placed.duet] == [one, other]
    assert placed.server_cpus == tuple(sorted(one[0] + other[0]))
    assert placed.client_cpus == tuple(sorted(one[1] + other[1]))


@pytest.mark.parametrize(
    "topology", [plain(4), plain(7), FOUR_CORES_OF_TWO, TWO_NODES, FOUR_NODES_OF_FOUR, BIG_AND_SMALL, machine([(0, 1), (2, 3)])]
)
def test_both_sets_are_alike_and_no_core_is_divided_between_them(topology: Topology) -> None:
    one, other = assign_duet(topology.keys(), topology).duet

    def kinds(cpus: CPUs) -> Counter[tuple[int, int]]:
        return Counter((topology[cpu].node, len(topology[cpu].core)) for cpu in cpus)

    assert kinds(one.server_cpus) == kinds(other.server_cpus)
    assert kinds(one.client_cpus) == kinds(other.client_cpus)
    cores = [{topology[cpu].core for cpu in seat.server_cpus + seat.client_cpus} for seat in (one, other)]
    assert cores[0].isdisjoint(cores[1])


def test_a_core_without_a_twin_is_left_idle_and_said() -> None:
    placed = assign_duet(range(5), plain(5))
    assert placed.duet == SEATS
    assert placed.words == "the server has 1 core and the load 1 core of its own; 1 CPU is left idle"
    assert "idle" not in assign_duet(range(4), plain(4)).words
    # Half of a core is allowed: it has no twin among whole ones.
    one, other = assign_duet({0, 4, 1, 5, 2, 6, 3}, FOUR_CORES_OF_TWO).duet
    assert (one, other) == (Seat(server_cpus=(0,), client_cpus=(4,)), Seat(server_cpus=(1,), client_cpus=(5,)))


@pytest.mark.parametrize("topology", [plain(1), plain(2), plain(3), machine([(0, 1)]), machine([(0,)], [(1,)], [(2,)], [(3,)])])
def test_too_few_cores_are_refused_with_a_way_on(topology: Topology) -> None:
    count = f"{len(topology)} {'CPU' if len(topology) == 1 else 'CPUs'} here"
    with pytest.raises(UsageError, match=f"a duet needs two equal sets of whole cores, .* {count}") as refused:
        assign_duet(topology.keys(), topology, (named(), named()))
    assert "four CPUs" in str(refused.value.hint) and "server_cpus" in str(refused.value.hint)
    # A study and `optimize` make their servers: no file of theirs names CPUs.
    with pytest.raises(UsageError) as refused:
        assign_duet(topology.keys(), topology)
    assert "four CPUs" in str(refused.value.hint) and "server_cpus" not in str(refused.value.hint)
    assert not assign(topology.keys(), topology).duet


def named(server: CPUs = (), client: CPUs = ()) -> Surroundings:
    return Surroundings(server_cpus=server, client_cpus=client)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (((0,), (1,)), ((2,), (3,))),
        (((3, 2), (1,)), ((5, 4), (0,))),
        # Each server shares its CPU with its own load: two CPUs are enough for that.
        (((0,), (0,)), ((1,), (1,))),
    ],
)
def test_cpus_that_both_servers_name_are_those_that_they_swap(one: tuple[CPUs, CPUs], other: tuple[CPUs, CPUs]) -> None:
    placed = assign_duet(range(2), plain(8), [named(*one), named(*other)])
    assert [(seat.server_cpus, seat.client_cpus) for seat in placed.duet] == [one, other]
    assert placed.words == "as their files name them"


@pytest.mark.parametrize(
    ("arms", "said"),
    [
        ([named((0,), (1,)), named()], "not all of them are named"),
        ([named((0,)), named((2,))], "not all of them are named"),
        ([named((0, 1), (2,)), named((3,), (4,))], "one of them has more than the other"),
        ([named((0,), (1,)), named((2,), (1,))], "both servers of the duet would use the core of CPU 1 and 5$"),
        ([named((0,), (1,)), named((2,), (5,))], "both servers of the duet would use the core of CPU 1 and 5$"),
        ([named((0,), (1,)), named((0,), (1,))], "both servers of the duet would use the core of CPU 0 and 4$"),
    ],
)
def test_cpus_that_make_no_duet_are_refused(arms: list[Surroundings], said: str) -> None:
    with pytest.raises(UsageError, match=said) as refused:
        assign_duet(FOUR_CORES_OF_TWO.keys(), FOUR_CORES_OF_TWO, arms)
    assert refused.value.hint


def test_a_duet_has_two_servers_and_an_even_number_of_rounds() -> None:
    refuse_other_numbers(2)
    refuse_odd_rounds(2)
    with pytest.raises(UsageError, match="a duet measures two servers, and 3 servers are named") as refused:
        refuse_other_numbers(3)
    assert "servers then take turns" in str(refused.value.hint)
    with pytest.raises(UsageError, match="one server is"):
        refuse_other_numbers(1)
    with pytest.raises(UsageError, match="3 turns are no even number") as refused:
        refuse_odd_rounds(3)
    assert refused.value.hint == "choose an even number of rounds, such as 4"


@pytest.mark.parametrize("rounds", [2, 4])
def test_each_turn_is_both_arms_and_each_has_either_cpus_as_often(rounds: int) -> None:
    first = Counter[str]()
    for trial in range(40):
        for each in turns(duet_plan(rounds=rounds), trial, ARMS, [READS, WRITES]):
            assert len(each.turns) == rounds
            for early, late in zip(each.turns[::2], each.turns[1::2], strict=True):
                assert names(early) == names(late)[::-1]
            for working in each.turns:
                assert sorted(names(working)) == ["pgo", "plain"]
                assert [Seat(server_cpus=one.server_cpus, client_cpus=one.client_cpus) for one in working] == [*SEATS]
            first[each.turns[0][0].name] += 1
    assert set(first) == {"plain", "pgo"}, "chance says who begins where"


def test_servers_start_on_cpus_of_their_own() -> None:
    starts = [start_order(duet_plan(), trial, ARMS) for trial in range(40)]
    assert all([each.server_cpus for each in start] == [(0,), (2,)] for start in starts)
    assert {start[0].name for start in starts} == {"plain", "pgo"}
    assert [each.server_cpus for each in start_order(duet_plan(duet=()), 0, ARMS)] == [(), ()]
