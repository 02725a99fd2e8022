"""From a trace file to a report: the program exports it, SQL reads it, the rules judge it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import duckdb

from upshift.errors import NotEnoughRoom, UpshiftError, UsageError
from upshift.native.failure import failure_of
from upshift.shell import Command, Shell
from upshift.stack.evidence import Evidence
from upshift.stack.read import read_evidence
from upshift.stack.scratch import scratch
from upshift.stack.suspects.finding import count

_EXPORT_TIMEOUT_S = 3600.0
_ROOM = 4
"""Bytes of disk for a byte of the trace. Exports of TPC-C have 1.1 to 1.7; the rest is for what does not fit into memory when
they are read, of which a byte may take 40."""
_LARGE_BYTES = 100_000_000
"""From here on an export takes so long that a word before it is due."""


def _silent(_line: str) -> None:
    pass


@contextlib.contextmanager
def exported(shell: Shell, program: Callable[[], Path], trace: Path, *, say: Callable[[str], None] = _silent) -> Iterator[Path]:
    """The folder with the trace as Parquet files, below the cache; it goes with the context. ``say`` is told of a large one.

    Raises UsageError for what is no trace, NotEnoughRoom for a disk that has no room for the export.
    """
    if not trace.is_file():
        raise UsageError(f"there is no trace {trace}", "`upshift stack capture` writes one")
    size_bytes = trace.stat().st_size
    what = f"the export of {trace}"
    with scratch("export-", room_bytes=_ROOM * size_bytes, what=what) as place:
        folder, command = place / "export", str(program())
        if size_bytes >= _LARGE_BYTES:
            say(f"exporting {trace} ({size_bytes / 1e9:.1f} GB) to {folder}: this takes a while, the folder goes afterwards")
        done = shell.run(Command((command, "export", str(trace), str(folder))), check=False, timeout_s=_EXPORT_TIMEOUT_S)
        if done.returncode != 0:
            raise failure_of(done, "the trace's program")
        try:
            yield folder
        except (duckdb.IOException, duckdb.OutOfMemoryException) as error:
            raise NotEnoughRoom(
                f"{what} cannot be read: {error}", f"it needs memory, or disk at {place}: free some, or set UPSHIFT_CACHE"
            ) from error


def examined(shell: Shell, program: Callable[[], Path], trace: Path, *, say: Callable[[str], None] = _silent) -> Evidence:
    """The evidence of a trace.

    Raises UsageError for what is no trace, UpshiftError for a trace without requests, and what ``exported`` raises.
    """
    with exported(shell, program, trace, say=say) as folder:
        return evidence_in(folder, trace)


def evidence_in(folder: Path, trace: Path, driver: str | None = None) -> Evidence:
    """The same of a trace that was exported already; ``driver`` stands for connections whose own was not recognised."""
    evidence = read_evidence(folder)
    if not evidence.trace.exchanges:
        lacks = "request with its whole answer" if evidence.trace.incomplete else "requests"
        raise UpshiftError(f"{trace} has no {lacks}", _why_empty(evidence))
    refuse_untimed(trace, evidence)
    if driver is None:
        return evidence
    named = tuple(each if each.driver else each.model_copy(update={"driver": driver}) for each in evidence.clients)
    return evidence.model_copy(update={"clients": named})


def refuse_untimed(trace: Path, evidence: Evidence) -> None:
    """Raises UsageError for a trace of a log that does not say how long statements took: there is no time to divide."""
    if evidence.trace.lacking("answer_times") and evidence.trace.log:
        raise UsageError(
            f"{trace} was made of a {evidence.trace.log.format} log, which does not say when answers came",
            "import a log with times (long_query_time=0, log_min_duration_statement=0), or capture; "
            "`upshift stack plans` and `upshift load import` take this trace",
        )


def _why_empty(evidence: Evidence) -> str:
    unread = evidence.trace.unread
    if unread.get("encrypted"):
        return (
            "its connections were encrypted: switch TLS off in the client (sslMode=DISABLED, sslmode=disable), "
            "or end it in the proxy (--tls-certificate)"
        )
    if evidence.trace.incomplete:
        return f"it has {count(evidence.trace.incomplete, 'request')} without one: capture both directions of the traffic"
    if unread:
        return f"its connections could not be read: {', '.join(sorted(unread)).replace('_', ' ')}"
    return "let the application work through the capture's address, then end the capture"
