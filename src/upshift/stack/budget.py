"""Where the transactions' time goes, divided so that the parts add up."""

from __future__ import annotations

from upshift.values import Value


class Budget(Value):
    """The time of all transactions and of what was sent outside of any, in microseconds; the parts add up to ``total_us``."""

    client_gap_us: int
    """Within transactions: the server has answered and waits for the next request."""
    network_us: int
    """The least that the round trips took."""
    server_us: int
    """Execution, and all waits within it that nobody told."""
    lock_us: int | None
    """Waits for locks, taken out of ``server_us``; None: only the server knows."""
    commit_us: int
    """Exchanges of COMMIT, without their network."""
    untold_us: int
    """Requests on their way, which are client or network."""
    transactions: int
    round_trips: int
    idle_us: int
    """Between transactions; no part of the total."""

    @property
    def total_us(self) -> int:
        parts = (self.client_gap_us, self.network_us, self.server_us, self.commit_us, self.untold_us)
        return sum(parts) + (self.lock_us or 0)
