"""BOLT: the binary's own layout, after the linker, from counts of its own branches."""

from __future__ import annotations

import re
import struct
from collections import Counter
from collections.abc import Collection, Sequence
from pathlib import Path

from elftools.elf.elffile import ELFFile

from upshift.control_groups import memory_available_bytes
from upshift.errors import NotEnoughRoom
from upshift.profile.weights import whole_factors
from upshift.shell import Command, Shell
from upshift.toolchain.find import BOLT_ORDER
from upshift.toolchain.model import Toolchain

# Measured on MySQL 9.7: 7.42 GiB at the peak for a file of 107 MB (docs/measurements/2026-11-22-bolt-memory).
_INSTRUMENT_BYTES_PER_BINARY_BYTE = 75
_FUNCTION = 2  # STT_FUNC in elf.h

OPTIMISE_FLAGS = (
    "-reorder-blocks=ext-tsp",  # hot paths fall through
    f"-reorder-functions={BOLT_ORDER}",  # callers and callees share pages
    "-split-functions",  # cold blocks leave the hot pages
    "-split-all-cold",
    "-split-eh",  # landing pads with them
    "-icf=1",  # identical functions once
    "-plt=hot",  # hot calls into libraries without the table's jump
    "-dyno-stats",
)


def version(shell: Shell, toolchain: Toolchain) -> str:
    """BOLT's own: clang's is of its folder, another compiler's is borrowed from an LLVM. Its path where it does not say."""
    assert toolchain.bolt is not None
    if toolchain.family == "clang":
        return toolchain.version
    said = shell.run(Command((str(toolchain.bolt), "--version")), check=False, timeout_s=60).stdout
    found = re.search(r"version (\d+(?:\.\d+)+)", said)
    return found[1] if found else str(toolchain.bolt)


def instrument(
    shell: Shell,
    toolchain: Toolchain,
    server: Path,
    output: Path,
    counts: Path,
    executed: Collection[str],
    log: Path,
) -> None:
    """A copy of ``server`` that counts its branches into ``counts``.PID.fdata at a clean end.

    Only the functions in ``executed`` count theirs, which takes a fraction of the memory and time; all do when it is empty.
    Raises NotEnoughRoom when memory would not hold all of them.
    """
    assert toolchain.bolt is not None
    only: tuple[str, ...] = ()
    if executed:
        names = output.with_suffix(".functions")
        names.write_text("".join(f"{name}\n" for name in names_of(server, executed)))
        only = (f"-funcs-file-no-regex={names}",)
    else:
        _need_memory(server)
    shell.run(
        Command(
            (
                str(toolchain.bolt),
                str(server),
                "-o",
                str(output),
                "--instrument",
                f"--instrumentation-file={counts}",
                "--instrumentation-file-append-pid",
                *only,
            )
        ),
        log=log,
        timeout_s=900,
    )


def names_of(server: Path, symbols: Collection[str]) -> list[str]:
    """What BOLT calls the functions of ``server`` that stem from ``symbols``.

    The compiler adds what follows a dot (``.llvm.123``, ``.cold``), BOLT a slash and a number to each local symbol.
    """
    wanted = set(symbols)
    times: Counter[str] = Counter()
    with server.open("rb") as file:
        elf = ELFFile(file)
        table, texts = (elf.get_section_by_name(name) for name in (".symtab", ".strtab"))
        if table is None or texts is None:
            return []
        strings = texts.data()
        # A server has some 10^5 symbols: they are unpacked at once and not one by one.
        for name_at, info, _other, _section, _value, _size in struct.iter_unpack("<IBBHQQ", table.data()):
            if info & 0xF == _FUNCTION:
                name = strings[name_at : strings.index(b"\0", name_at)].decode(errors="replace")
                if name.split(".", 1)[0] in wanted:
                    times[name] += 1
    return [each for name, count in times.items() for each in (name, *(f"{name}/{n}" for n in range(1, count + 1)))]


def _need_memory(server: Path) -> None:
    available_bytes = memory_available_bytes()
    whole_bytes = server.stat().st_size * _INSTRUMENT_BYTES_PER_BINARY_BYTE
    if whole_bytes > 0.8 * available_bytes:
        raise NotEnoughRoom(
            f"BOLT's instrumentation needs about {whole_bytes / 1e9:.1f} GB of memory, {available_bytes / 1e9:.1f} GB are free",
            "stop something else, or use a machine with more memory",
        )


def merge_fdata(shell: Shell, toolchain: Toolchain, shares: Sequence[tuple[Path, float]], output: Path, log: Path) -> Path:
    """Branch counts of several runs, each multiplied by its share, as one profile; merge-fdata itself knows no weights."""
    assert toolchain.merge_fdata is not None
    factors = whole_factors([share for _file, share in shares])
    scaled = [_scaled(file, factor) for factor, (file, _share) in zip(factors, shares, strict=True)]
    shell.run(Command((str(toolchain.merge_fdata), "-o", str(output), *map(str, scaled))), log=log, timeout_s=300)
    return output


def _scaled(file: Path, factor: int) -> Path:
    """A copy whose lines' last two numbers, mispredicted and taken branches, are multiplied by ``factor``."""
    if factor == 1:
        return file
    scaled = file.with_suffix(".scaled")
    with file.open(errors="surrogateescape") as lines, scaled.open("w", errors="surrogateescape") as out:
        for line in lines:
            where, *counts = line.rstrip("\n").rsplit(" ", 2)
            if len(counts) == 2 and all(count.isdigit() for count in counts):
                counts = [str(int(count) * factor) for count in counts]
            out.write(" ".join([where, *counts]) + "\n")
    return scaled


def optimise(
    shell: Shell,
    toolchain: Toolchain,
    server: Path,
    output: Path,
    fdata: Path,
    log: Path,
    extra: Sequence[str] = (),
) -> None:
    """``server`` with the layout that ``fdata`` asks for. Raises CommandFailed when BOLT fails, crashes or leaves no output."""
    assert toolchain.bolt is not None
    shell.run(
        Command((str(toolchain.bolt), str(server), "-o", str(output), f"-data={fdata}", *OPTIMISE_FLAGS, *extra)),
        log=log,
        timeout_s=900,
    )
