"""BOLT: the binary's own layout, after the linker, from counts of its own branches."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import psutil

from upshift.errors import NotEnoughRoom
from upshift.profile.model import HotSet
from upshift.shell import Command, Shell
from upshift.toolchain.model import Toolchain

# Measured on MySQL 9.7: 8.5 GiB at the peak when all 245 MB are instrumented, 1.4 GiB to optimise.
_INSTRUMENT_BYTES_PER_BINARY_BYTE = 36
_OPTIMISE_BYTES = 2_000_000_000

OPTIMISE_FLAGS = (
    "-reorder-blocks=ext-tsp",  # hot paths fall through
    "-reorder-functions=cdsort",  # callers and callees share pages
    "-split-functions",  # cold blocks leave the hot pages
    "-split-all-cold",
    "-split-eh",  # landing pads with them
    "-icf=1",  # identical functions once
    "-plt=hot",  # hot calls into libraries without the table's jump
    "-dyno-stats",
)


def instrument(
    shell: Shell,
    toolchain: Toolchain,
    server: Path,
    output: Path,
    counts: Path,
    hot_set: HotSet | None,
    log: Path,
) -> None:
    """A copy of ``server`` that counts its branches into ``counts``.PID.fdata at a clean end.

    Instruments the functions of the hot objects alone when memory would not hold the whole (``hot_set``).
    Raises NotEnoughRoom when even that is out of reach.
    """
    assert toolchain.bolt is not None
    available_bytes = psutil.virtual_memory().available
    whole_bytes = server.stat().st_size * _INSTRUMENT_BYTES_PER_BINARY_BYTE
    only: tuple[str, ...] = ()
    if whole_bytes > 0.8 * available_bytes and hot_set and hot_set.functions:
        names = output.with_suffix(".functions")
        names.write_text("".join(f"{function.symbol}\n" for function in hot_set.functions))
        only = (f"-funcs-file-no-regex={names}",)
    elif whole_bytes > 0.8 * available_bytes:
        raise NotEnoughRoom(
            f"BOLT's instrumentation needs about {whole_bytes / 1e9:.1f} GB of memory, {available_bytes / 1e9:.1f} GB are free",
            'without BOLT: a recipe with post_link = "none"',
        )
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


def merge_fdata(shell: Shell, toolchain: Toolchain, files: Sequence[Path], output: Path, log: Path) -> Path:
    """Branch counts of several runs as one profile."""
    assert toolchain.merge_fdata is not None
    shell.run(Command((str(toolchain.merge_fdata), "-o", str(output), *map(str, files))), log=log, timeout_s=300)
    return output


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
