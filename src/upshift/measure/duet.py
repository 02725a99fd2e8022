"""A duet: two arms are loaded at the same time, each on CPUs of its own, which they swap from turn to turn.

What slows the whole machine for a while slows both, and leaves their ratio as it is. What makes one set of CPUs slower than
the other meets each arm as often as the other.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from upshift.errors import UsageError
from upshift.measure.placement import Placement, Seat, Topology, assign, core_of, cores_of, node_of
from upshift.measure.variant import Surroundings

ARMS = 2
_TAKE_TURNS = "leave the duet out: servers then take turns"


def refuse_other_numbers(arms: int) -> None:
    """Raises UsageError when there are not two arms."""
    if arms != ARMS:
        named = "one server is" if arms == 1 else f"{arms} servers are"
        raise UsageError(f"a duet measures two servers, and {named} named", f"name two, or {_TAKE_TURNS}")


def refuse_odd_rounds(rounds: int) -> None:
    """Raises UsageError when one of the arms would be on one set of CPUs more often than on the other."""
    if rounds % 2:
        raise UsageError(
            f"a duet swaps CPUs from turn to turn, and {rounds} {'turn is' if rounds == 1 else 'turns are'} no even number",
            f"choose an even number of rounds, such as {rounds + 1}",
        )


def assign_duet(allowed: Collection[int], topology: Topology, arms: Sequence[Surroundings] = ()) -> Placement:
    """The CPUs that ``arms`` name, where they name some; else those in ``allowed``, divided.

    Raises UsageError where they cannot be divided, or where those that are named make no duet.
    """
    if any(arm.server_cpus or arm.client_cpus for arm in arms):
        return _named(arms, topology)
    return _divided(allowed, topology, may_name=bool(arms))


def _divided(allowed: Collection[int], topology: Topology, *, may_name: bool) -> Placement:
    """Half of each NUMA node's cores for each arm, whole ones: a core of one arm has one alike of the other's on the same node.
    Within its half, an arm's server and load get what they would get of a machine. ``may_name``: whether the user wrote files
    of the arms, which may name CPUs.
    """
    alike: dict[tuple[int, int], list[list[int]]] = {}
    for core in cores_of(allowed, topology):
        alike.setdefault((node_of(topology, core[0]), len(core)), []).append(core)
    twins: dict[int, int] = {}
    for cores in alike.values():
        half = len(cores) // 2
        for mine, theirs in zip(cores[:half], cores[half : 2 * half], strict=True):
            twins.update(zip(mine, theirs, strict=True))
    if len(twins) < 2:
        cpus = f"{len(allowed)} {'CPU' if len(allowed) == 1 else 'CPUs'}"
        named = ", or name server_cpus and client_cpus in the files of both" if may_name else ""
        raise UsageError(
            f"a duet needs two equal sets of whole cores, with two CPUs or more each, and Upshift may use {cpus} here",
            f"use a machine with four CPUs or more{named}; or {_TAKE_TURNS}",
        )
    divided = assign(twins, topology)
    one = Seat(server_cpus=divided.server_cpus, client_cpus=divided.client_cpus)
    other = Seat(
        server_cpus=tuple(sorted(twins[cpu] for cpu in one.server_cpus)),
        client_cpus=tuple(sorted(twins[cpu] for cpu in one.client_cpus)),
    )
    left = len(allowed) - 2 * len(twins)
    idle = f"; {left} {'CPU is' if left == 1 else 'CPUs are'} left idle" if left else ""
    return _placed(one, other, divided.words + idle)


def _named(arms: Sequence[Surroundings], topology: Topology) -> Placement:
    if not all(arm.server_cpus and arm.client_cpus for arm in arms):
        raise UsageError(
            "a duet swaps the CPUs of its two servers, and not all of them are named",
            "name server_cpus and client_cpus in the files of both, or in neither",
        )
    one, other = (Seat(server_cpus=arm.server_cpus, client_cpus=arm.client_cpus) for arm in arms)
    if (len(one.server_cpus), len(one.client_cpus)) != (len(other.server_cpus), len(other.client_cpus)):
        raise UsageError(
            "a duet swaps the CPUs of its two servers, and one of them has more than the other",
            "name as many server_cpus in both files, and as many client_cpus",
        )
    first, second = ({core_of(topology, cpu) for cpu in (*seat.server_cpus, *seat.client_cpus)} for seat in (one, other))
    if shared := sorted(first & second):
        cpus = " and ".join(map(str, shared[0]))
        raise UsageError(
            f"both servers of the duet would use the core of CPU {cpus}", "give each server and its load cores of their own"
        )
    return _placed(one, other, "as their files name them")


def _placed(one: Seat, other: Seat, words: str) -> Placement:
    return Placement(
        server_cpus=tuple(sorted(one.server_cpus + other.server_cpus)),
        client_cpus=tuple(sorted(one.client_cpus + other.client_cpus)),
        words=words,
        duet=(one, other),
    )
