"""The process of the speed probe (see ``probe``): works on each CPU for ever, and counts.

It is started by its path, and needs nothing but Python's library. It ends when its standard input does, and so with its parent,
however that ends.
"""

from __future__ import annotations

import hashlib
import mmap
import os
import sys
import threading
import time
from collections.abc import Sequence

READY = "ready"
"""What it says when it works on all CPUs; else it says an errno and why it cannot, and ends."""
FIELDS, BYTES = 2, 8
"""Of the counters in the shared file: for each CPU the units of work that are done, and their CPU time in ns."""
_EVERY_S = 0.005
_ROUNDS = 100
"""Of PBKDF2 with HMAC-SHA-256: about 50 us, and 1 % of a CPU."""
_COLD_ROUNDS = 5
"""Before each unit, so that it finds its code and data in the caches."""
_SLOWEST = 4
"""A unit counts as no more than so many times the fastest one: in a longer one the hypervisor stopped the CPU, which says
nothing of its speed, and one such pause would outweigh all other units of a slice.
"""


def take_priority() -> None:
    """Give this thread the least real-time priority. Raises OSError."""
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(os.sched_get_priority_min(os.SCHED_FIFO)))


def _work(cpu: int, counters: memoryview, at: int, started: threading.Barrier, failed: list[str]) -> None:
    """Fill the two counters from ``at`` on, for ever."""
    try:
        os.sched_setaffinity(0, {cpu})
        take_priority()
    except OSError as error:
        failed.append(f"{error.errno} CPU {cpu}: {error.strerror}")
    started.wait()
    least_ns = sys.maxsize
    while not failed:
        time.sleep(_EVERY_S)
        hashlib.pbkdf2_hmac("sha256", b"", b"", _COLD_ROUNDS)
        began_ns = time.thread_time_ns()
        hashlib.pbkdf2_hmac("sha256", b"", b"", _ROUNDS)
        took_ns = time.thread_time_ns() - began_ns
        least_ns = min(least_ns, took_ns)
        counters[at + 1] += min(took_ns, _SLOWEST * least_ns)
        counters[at] += 1


def _main(descriptor: int, cpus: Sequence[int]) -> None:
    with mmap.mmap(descriptor, 0) as shared, memoryview(shared).cast("q") as counters:
        failed: list[str] = []
        started = threading.Barrier(len(cpus) + 1)
        for number, cpu in enumerate(cpus):
            arguments = (cpu, counters, number * FIELDS, started, failed)
            threading.Thread(target=_work, args=arguments, daemon=True).start()
        started.wait()
        sys.stdout.write((failed[0] if failed else READY) + "\n")
        sys.stdout.flush()
        if not failed:
            sys.stdin.read()
        # Threads that work on the counters keep the mapping in use.
        os._exit(0)


if __name__ == "__main__":
    _main(int(sys.argv[1]), [int(each) for each in sys.argv[2:]])
