"""Stacks from what perf prints."""

from __future__ import annotations

from pathlib import Path

import pytest

from upshift.explain.kernel import hidden
from upshift.explain.model import Place
from upshift.explain.rows import place
from upshift.explain.script import KERNEL, UNKNOWN, Frame, Reader, Samples, script_command
from upshift.explain.symbols import Groups, Part, SymbolTable

SERVER = Path("/opt/my server/mysqld")
TABLE = SymbolTable(
    [Part(0x2000, 0x2010, ("inner",)), Part(0x2010, 0x2100, ("outer", "outer.alias"))], [(0x1000, 0x500, 0x2000)]
)
MAPPED = f"mysqld 0 PERF_RECORD_MMAP2 1/1: [0x55000000(0x1000) @ 0x1000 fe:00 1 0]: r-xp {SERVER}\n"


def samples(*lines: str, server: Path = SERVER) -> Samples:
    reader = Reader(server, TABLE)
    for line in lines:
        reader.line(line)
    return reader.done()


def test_a_stack_has_the_kernel_a_library_and_the_server() -> None:
    found = samples(
        MAPPED,
        "connection 12 cpu-clock: \n",
        "\tffffffff822004c9 _raw_spin_unlock ([kernel.kallsyms])\n",
        "\tffffffff8100 __x64_sys_sendto ([kernel.kallsyms])\n",
        "\t          10aba4 __send (/usr/lib/libc.so.6)\n",
        f"\t        55000020 whatever perf thinks ({SERVER})\n",
        "\n",
    )
    assert found.stacks == {
        (
            Frame(KERNEL, "_raw_spin_unlock", 0),
            Frame(KERNEL, "__x64_sys_sendto", 0),
            Frame("libc.so.6", "__send", 0),
            # A caller: where the call returns to lies one byte behind it.
            Frame("", "outer", 0x201F),
        ): 1
    }


@pytest.mark.parametrize("server", ["/opt/my (x)/mysqld", "/opt/my (/x)/mysqld (new)"])
def test_a_servers_path_may_have_parentheses(server: str) -> None:
    mapped = f"mysqld 0 PERF_RECORD_MMAP2 1/1: [0x55000000(0x1000) @ 0x1000 fe:00 1 0]: r-xp {server}\n"
    lines = (mapped, "a 1 cpu-clock:\n", f"\t55000004 f ({server})\n", "\t10 read(int) (/opt/my (x)/lib/libc.so.6)\n", "\n")
    ((stack, _count),) = samples(*lines, server=Path(server)).stacks.items()
    assert stack == (Frame("", "inner", 0x2004), Frame("libc.so.6", "read(int)", 0))


def test_a_file_that_is_not_there_any_more_keeps_its_name() -> None:
    """A library that was upgraded meanwhile; and a server, which is not the one whose symbols were read."""
    found = samples(
        "a 1 cpu-clock:\n", "\t10 memcpy (/lib/libc.so.6 (deleted))\n", f"\t55000004 f ({SERVER} (deleted))\n", "\n"
    )
    ((stack, _count),) = found.stacks.items()
    assert stack == (Frame("libc.so.6", "memcpy", 0), Frame("mysqld", "f", 0))


@pytest.mark.parametrize(
    ("ip", "home", "kernel"),
    [
        ("ffffffffc0004010", "[ext4]", True),
        ("ffffffffc0004010", "[virtio_net]", True),
        ("ffffffffc0004010", "/lib/modules/6.1/kernel/fs/xfs/xfs.ko.zst", True),
        ("ffffffff81000130", "/boot/vmlinux", True),
        # Without the address, as some perfs print a module's: by its name.
        ("4010", "[ext4]", True),
        ("7ffd1c5e6000", "[vdso]", False),
        ("7ffd1c5e6000", "[unknown]", False),
        ("7fe50dd97000", "/usr/lib/libkopete.so", False),
    ],
)
def test_modules_are_the_kernels(ip: str, home: str, kernel: bool) -> None:
    found = samples("a 1 cpu-clock:\n", f"\t{ip} inner ({home})\n", "\n")
    ((stack, _count),) = found.stacks.items()
    assert (stack[0].home == KERNEL) == kernel


def test_a_kernel_that_hides_its_names_is_told_by_its_addresses() -> None:
    found = samples(
        "dd 19998 cpu-clock: \n",
        "\tffffffff8158e413 [unknown] ([unknown])\n",
        "\tffffffff81000c82 [unknown] ([unknown])\n",
        "\t          1675e9 __strcmp_evex (/usr/lib/x86_64-linux-gnu/libc.so.6)\n",
        # No return address: what the library kept in the register of frame pointers.
        "\tfffffffffffffffe [unknown] ([unknown])\n",
        "\n",
    )
    ((stack, _count),) = found.stacks.items()
    assert [frame.home for frame in stack] == [KERNEL, KERNEL, "libc.so.6", UNKNOWN]
    assert place(stack, Groups()) == Place("kernel", "not told")
    assert hidden(found.stacks)


def test_a_call_that_ends_a_function_counts_to_it_and_not_to_the_next() -> None:
    found = samples(MAPPED, "a 1 cpu-clock:\n", f"\t55000004 x ({SERVER})\n", f"\t55000010 x ({SERVER})\n", "\n")
    ((stack, _count),) = found.stacks.items()
    assert [frame.symbol for frame in stack] == ["inner", "inner"]
    # The innermost frame is no return address.
    found = samples(MAPPED, "a 1 cpu-clock:\n", f"\t55000010 x ({SERVER})\n", "\n")
    ((stack, _count),) = found.stacks.items()
    assert stack == (Frame("", "outer", 0x2010),)


def test_offsets_in_the_file_are_read_like_addresses() -> None:
    at_run_time = samples(MAPPED, "a 1 cpu-clock:\n", f"\t55000004 x ({SERVER})\n", "\n")
    in_file = samples(MAPPED, "a 1 cpu-clock:\n", f"\t1004 x ({SERVER})\n", "\n")
    assert at_run_time.stacks == in_file.stacks and at_run_time.total == 1


def test_code_without_a_symbol_is_unknown_and_lost_samples_are_counted() -> None:
    found = samples(
        MAPPED,
        "a 1 cpu-clock:\n",
        f"\t55000400 x ({SERVER})\n",
        "\n",
        "a 1 PERF_RECORD_LOST lost 17\n",
        "b 1 cpu-clock:\n",
        f"\t55000400 x ({SERVER})\n",
    )
    assert found.stacks == {(Frame("", UNKNOWN, 0x2400),): 2} and found.lost == 17


def test_perf_is_asked_for_no_frames_of_inlined_functions() -> None:
    """``ffff inner (inlined)``: such a frame names no file, and would be a library's."""
    assert "--no-inline" in script_command(Path("samples.perf")).argv
