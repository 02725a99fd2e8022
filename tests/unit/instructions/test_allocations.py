"""Who called the allocator is read from callgrind's dump: by chain, summed over the places of each call."""

from __future__ import annotations

from script_module import BENCHES, script_module

ALLOCATIONS = script_module(BENCHES / "allocations.py")

DUMPED = """# callgrind format
positions: line
events: Ir
summary: 90

ob=(1) /bin/server
fn=(1) get_lock
0 52
cob=(2) /lib/libc.so.6
cfn=(2) malloc'my_malloc'get_lock
calls=3 0
0 30
cfn=(3) other
calls=7 0
0 8

fn=(4) unlock
cob=(2)
cfn=(2)
calls=1 0
0 10
cob=(2)
cfn=(5) free@@GLIBC_2.2.5'unlock
calls=2 0
0 5

totals: 90
"""


def test_calls_of_the_allocator_are_summed_by_chain_and_no_others() -> None:
    assert ALLOCATIONS.calls_of(DUMPED) == {("malloc", "my_malloc", "get_lock"): 4, ("free", "unlock"): 2}
