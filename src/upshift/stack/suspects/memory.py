"""What the server reads from the disk because its memory is too small: the buffer pool (E4)."""

from __future__ import annotations

from upshift.stack.evidence import Evidence
from upshift.stack.suspects.finding import count, figure, found, innocent, ratio, unseen
from upshift.stack.suspects.model import Outcome
from upshift.stack.suspects.thresholds import Thresholds


def pool_misses(evidence: Evidence, thresholds: Thresholds) -> Outcome:
    """E4: pages that statements need are not in the buffer pool, again and again."""
    if evidence.trace.family == "postgres":
        return unseen("E4", "PostgreSQL's counters do not tell the operating system's page cache from the disk")
    if evidence.server is None:
        return unseen("E4", "only the server counts its reads: --server")
    pool = evidence.server.pool
    if pool is None or not pool.requests:
        return unseen("E4", "the server has no counters of InnoDB's buffer pool, or they are zero")
    misses, filled = ratio(pool.misses, pool.requests), ratio(pool.pages_read, pool.pages)
    said = f"{misses:.1%} of {count(pool.requests, 'read')} of pages went to the disk"
    if misses <= thresholds["E4.misses"]:
        return innocent("E4", said)
    if filled < thresholds["E4.filled"]:
        return innocent(
            "E4", f"{said}, and all pages read would fill the buffer pool {filled:.1f} times: it is still being filled"
        )
    # Where the files' time was not counted, all of the server's time is the upper bound.
    part = 1.0 if pool.read_us is None or not pool.statements_us else min(1.0, pool.read_us / pool.statements_us)
    return found(
        evidence,
        "E4",
        share=evidence.budget.share(part * evidence.budget.server_us),
        status="counted" if pool.read_us is not None else "inferred",
        said=f"{said}; the pages read would fill the buffer pool {filled:,.1f} times",
        figures=(
            figure("pool_misses", misses, "share", "E4.misses"),
            figure("pool_filled", filled, "times", "E4.filled"),
            figure("pool_bytes", pool.pages * pool.page_bytes, "bytes"),
            *((figure("data_file_read_us", pool.read_us, "us"),) if pool.read_us is not None else ()),
        ),
        limits="The server's counters are since its start, and of all its clients. "
        "A page that comes from the operating system's page cache counts as read from the disk.",
    )
