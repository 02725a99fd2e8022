"""The machine that a run took place on."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from pathlib import Path

from upshift.control_groups import memory_total_bytes
from upshift.values import Value


class Machine(Value):
    """Where the run took place."""

    cpu: str
    cpus: int
    memory_bytes: int
    """Taken or not; in a container its limit."""
    os: str
    kernel: str
    virtual: str
    """What virtualises it: ``kvm``, ``none``."""
    pmu: bool


def describe_machine() -> Machine:
    """This machine, as this process may use it now."""
    return Machine(
        cpu=cpu_model(),
        cpus=len(os.sched_getaffinity(0)),
        memory_bytes=memory_total_bytes(),
        os=_system(),
        kernel=platform.release(),
        virtual=_virtual(),
        # The kernel lists a core PMU here exactly when it can count hardware events.
        pmu=Path("/sys/bus/event_source/devices/cpu").exists(),
    )


def _system() -> str:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME", platform.system())
    except OSError:  # a small container has no os-release
        return platform.system()


def cpu_model() -> str:
    """As the kernel names the processor; its architecture where it has no name."""
    found = re.search(r"^model name\s*:\s*(.*)$", Path("/proc/cpuinfo").read_text(), re.M)
    return found[1] if found else platform.machine()


def cpu_identity() -> tuple[str, ...]:
    """What decides which instructions a processor has: hosts of one name may differ in them."""
    names = "model name|cpu family|model|stepping|flags"
    first = Path("/proc/cpuinfo").read_text().partition("\n\n")[0]
    return tuple(re.findall(rf"^(?:{names})\s*:\s*(.*)$", first, re.M)) or (platform.machine(),)


def _virtual() -> str:
    try:
        done = subprocess.run(["systemd-detect-virt", "--vm"], capture_output=True, text=True, check=False)
        return done.stdout.strip() or "unknown"
    except OSError:
        return "unknown"
