"""The bench of system calls reads what strace wrote: each call once, and those of threads that serve clients."""

from __future__ import annotations

from script_module import BENCHES, script_module

# As strace 6.1 writes it: a call that another thread's cuts in two has a second line.
TEXT = """\
701 recvfrom(38,  <unfinished ...>
650 futex(0x7f, FUTEX_WAIT_PRIVATE, 0, NULL <unfinished ...>
701 <... recvfrom resumed>"\\27", 16384, 0, NULL, NULL) = 26
701 sendto(38, "\\1\\0", 105, MSG_DONTWAIT, NULL, 0) = 105
650 <... futex resumed>) = 0
702 io_getevents(0x7f, 1, 256, [], NULL) = 0
650 futex(0x7f, FUTEX_WAKE_PRIVATE, 1) = 1
701 +++ exited with 0 +++
"""


def test_a_call_in_two_lines_is_one_and_threads_that_receive_serve_clients() -> None:
    bench = script_module(BENCHES / "system_calls.py")
    found = bench.calls(TEXT)
    assert found == {701: {"recvfrom": 1, "sendto": 1}, 650: {"futex": 2}, 702: {"io_getevents": 1}}
    assert bench.of_connections(found) == {"recvfrom": 1, "sendto": 1}
