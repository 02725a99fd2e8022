"""Where the transactions' time goes, divided so that the parts add up."""

from __future__ import annotations

import duckdb

from upshift.values import Value


class Budget(Value):
    """The time of all transactions and of what was sent outside of any, in microseconds; the parts add up to ``total_us``.

    A transaction's time goes from the first byte of its first request to the last byte of its last answer. Every microsecond
    of it counts once, also where requests overlap.
    """

    client_gap_us: int
    """Within transactions: the server has answered and waits for the next request."""
    network_us: int | None
    """The least that the round trips took between the capture and the server: their number times the connection's smallest.
    None: the trace was made of a log, and the network is in the client's gaps."""
    server_us: int
    """From the request's last byte to the answer's, without what the other parts hold."""
    lock_us: int | None = None
    """Waits for locks, taken out of ``server_us``; None: only the server knows."""
    commit_us: int
    """Exchanges of COMMIT, without their network."""
    untold_us: int
    """From a request's first byte to its last one: the client, or the network."""
    transactions: int
    round_trips: int | None
    """None: the trace does not have them."""
    round_trip_us: int | None
    """The smallest that the network was reckoned with; 0: none was."""
    idle_us: int
    """Between transactions; no part of the total."""

    @property
    def total_us(self) -> int:
        parts = (self.client_gap_us, self.server_us, self.commit_us, self.untold_us)
        return sum(parts) + (self.network_us or 0) + (self.lock_us or 0)

    def share(self, part_us: float) -> float:
        """A part of the total; 0 where there is no time at all."""
        return part_us / self.total_us if self.total_us else 0.0

    def with_locks(self, lock_us: int) -> Budget:
        """The same with the server's word on lock waits."""
        known = min(lock_us, self.server_us)
        return self.model_copy(update={"lock_us": known, "server_us": self.server_us - known})

    def without_network(self) -> Budget:
        """Of a trace that has no round trips."""
        return self.model_copy(update={"network_us": None, "round_trips": None, "round_trip_us": None})


def read_budget(timeline: duckdb.DuckDBPyConnection) -> Budget:
    """Of the whole trace."""
    query = """
    SELECT coalesce(sum(gap_us), 0), coalesce(sum(network_us), 0),
      coalesce(sum(CASE WHEN verb = 'commit' THEN 0 ELSE wait_us - network_us END), 0),
      coalesce(sum(CASE WHEN verb = 'commit' THEN wait_us - network_us ELSE 0 END), 0),
      coalesce(sum(untold_us), 0), count(DISTINCT (connection, tx)) FILTER (tx IS NOT NULL),
      coalesce(sum(round_trips), 0), coalesce(min(round_trip_us) FILTER (round_trip_us > 0), 0), coalesce(sum(idle_us), 0)
    FROM timeline"""
    row = timeline.execute(query).fetchone()
    assert row is not None
    gap, network, server, commit, untold, transactions, round_trips, smallest, idle = map(int, row)
    return Budget(
        client_gap_us=gap,
        network_us=network,
        server_us=server,
        commit_us=commit,
        untold_us=untold,
        transactions=transactions,
        round_trips=round_trips,
        round_trip_us=smallest,
        idle_us=idle,
    )
