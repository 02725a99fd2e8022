"""An exported trace as one table in which each microsecond of a connection belongs to an exchange, or to a gap."""

from __future__ import annotations

import json
from pathlib import Path

import duckdb

from upshift.parquet import database, read_from

TRUSTED_ROUND_TRIPS = 20
"""A connection with fewer has no smallest round trip of its own: the trace's smallest stands in."""
AGREE = 2
"""The smallest is a distance only where another request comes as near: one statement alone may just be slow."""

SEGMENT_BYTES = 1448
"""What one TCP segment carries over Ethernet."""

EXECUTIONS = "('query', 'copy', 'execute', 'bulk_execute')"
"""Kinds of exchanges that execute a statement; a fetch goes on with one."""

_LITERAL = r"'(?:[^'\\]|\\.|'')*'|\b\d[\w.]*"
"""A text or a number in a statement."""
MYSQL_LITERAL = rf'"(?:[^"\\]|\\.|"")*"|{_LITERAL}'
"""MySQL and MariaDB have texts in double quotes, too."""


def open_timeline(folder: Path) -> duckdb.DuckDBPyConnection:
    """A database with what ``upshift-stack export`` wrote: the views ``exchanges`` and ``sessions``, the table ``timeline``.

    Its macro ``literals`` gives those of a statement. The caller closes it. Spills beside the export when memory is short.
    """
    base = database(temp_directory=str(folder / "spill"))
    for name in ("exchanges", "sessions"):
        base.execute(f"CREATE VIEW {name} AS SELECT * FROM read_parquet({read_from(folder / f'{name}.parquet')})")
    postgres = read_facts(folder).get("family") == "postgres"
    literal = (_LITERAL if postgres else MYSQL_LITERAL).replace("'", "''")
    base.execute(f"CREATE TEMP MACRO literals(sql) AS regexp_extract_all(sql, '{literal}')")
    base.execute(_TIMELINE.format(at_once=str(postgres).lower()))
    return base


def read_facts(folder: Path) -> dict[str, object]:
    """What ``trace.json`` says."""
    found: dict[str, object] = json.loads((folder / "trace.json").read_text())
    return found


# A request may be sent before the answer to the one before it has come: its time begins where that ended.
# PostgreSQL sends its answers to all of a flight at the flight's end. What leads a flight, such as a BEGIN, a prepare or the
# close of a portal, is answered together with the statement that it is sent for: their time is charged to that statement.
_TIMELINE = rf"""
CREATE TEMP TABLE timeline AS
WITH named AS (
  -- A cursor of SQL's, as psycopg's on the server's side: its FETCH is a fetch as that of the protocol.
  SELECT * EXCLUDE (sql, parameters, answer) REPLACE (
    CASE WHEN by_sql THEN 'fetch' ELSE kind END AS kind,
    cursor OR declares AS cursor,
    CASE WHEN by_sql THEN try_cast(regexp_extract(sql, '(?i)^\s*FETCH\s+(?:FORWARD\s+)?(\d+)', 1) AS BIGINT)
      ELSE fetch_size END AS fetch_size)
  FROM (
    SELECT *, {{at_once}} AND kind IN {EXECUTIONS} AND coalesce(regexp_matches(digest_text, '(?i)^FETCH\b'), false) AS by_sql,
      {{at_once}} AND kind IN {EXECUTIONS} AND coalesce(regexp_matches(digest_text, '(?i)^DECLARE\b.*\bCURSOR\b'), false)
        AS declares
    FROM exchanges)
), ordered AS (
  SELECT *,
    coalesce(last_byte_us, request_end_us) AS end_us,
    last_value("transaction" IGNORE NULLS) OVER (w ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS tx_before,
    first_value("transaction" IGNORE NULLS) OVER (w ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING) AS tx_after,
    last_value(CASE WHEN cursor AND NOT by_sql THEN statement END IGNORE NULLS)
      OVER (w ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS cursor_of
  FROM named WINDOW w AS (PARTITION BY connection ORDER BY request_us, exchange)
), placed AS (
  SELECT * EXCLUDE (tx_before, tx_after, cursor_of),
    -- What is sent within a transaction belongs to it, whether or not its answer tells of transactions.
    coalesce("transaction", CASE WHEN tx_before = tx_after THEN tx_before END) AS tx,
    tx_before,
    CASE WHEN by_sql THEN coalesce(cursor_of, statement)
      WHEN statement IS NULL AND (kind IN ('fetch', 'close_statement', 'reset_statement') OR early_close) THEN cursor_of
      ELSE statement END AS about,
    coalesce(max(end_us) OVER (w ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), request_us) AS before_us
  FROM ordered WINDOW w AS (PARTITION BY connection ORDER BY request_us, exchange)
), timed AS (
  SELECT *,
    greatest(0, end_us - greatest(request_us, before_us)) AS own_us,
    CASE WHEN last_byte_us IS NULL THEN 0
      ELSE greatest(0, last_byte_us - greatest(request_end_us, before_us)) END AS wait_us,
    greatest(0, request_us - before_us) AS before_gap_us,
    tx IS NOT NULL AND tx_before IS NOT DISTINCT FROM tx AS within
  FROM placed
), trips AS (
  SELECT connection, kind, statement, count(*) AS trips, min(first_byte_us - request_end_us) AS least_us
  FROM exchanges WHERE round_trips = 1 AND first_byte_us > request_end_us GROUP BY ALL
), beside AS (
  SELECT *, min(least_us) OVER (PARTITION BY connection) AS of_connection, min(least_us) OVER () AS of_all FROM trips
), of_all AS (
  SELECT min(least_us) AS all_us FROM beside
  HAVING sum(trips) >= {TRUSTED_ROUND_TRIPS}
    AND count(DISTINCT (kind, coalesce(statement, ''))) FILTER (least_us <= {AGREE} * of_all) > 1
), least AS (
  SELECT connection, CASE WHEN sum(trips) >= {TRUSTED_ROUND_TRIPS} AND count(*) FILTER (least_us <= {AGREE} * of_connection) > 1
    THEN min(least_us) ELSE coalesce((SELECT all_us FROM of_all), 0) END AS round_trip_us
  FROM beside GROUP BY connection
), divided AS (
  SELECT timed.* EXCLUDE (tx_before, before_gap_us),
    CASE WHEN within THEN before_gap_us ELSE 0 END AS gap_us,
    CASE WHEN within THEN 0 ELSE before_gap_us END AS idle_us,
    coalesce(round_trip_us, 0) AS round_trip_us,
    least(wait_us, coalesce(round_trips, 0) * coalesce(round_trip_us, 0)) AS network_us,
    own_us - wait_us AS untold_us,
    sum(round_trips) OVER (PARTITION BY connection ORDER BY exchange) AS flight,
    kind IN {EXECUTIONS} OR kind = 'fetch' AS executes
  FROM timed LEFT JOIN least USING (connection)
), led AS (
  SELECT *, CASE WHEN {{at_once}} AND flight > 0
    THEN min(exchange) FILTER (executes AND coalesce(verb, '') NOT IN ('begin', 'savepoint', 'set'))
      OVER (PARTITION BY connection, flight) END AS led
  FROM divided
), prepared AS (
  SELECT *, exchange < led AND kind = 'prepare'
    AND about = any_value(about) FILTER (exchange = led) OVER (PARTITION BY connection, flight) AS is_of_led
  FROM led
)
SELECT * EXCLUDE (led, is_of_led), coalesce(exchange < led, false) AS leads,
  CASE WHEN exchange < led THEN 0 WHEN exchange = led THEN sum(own_us) FILTER (exchange <= led) OVER w ELSE own_us END
    AS charged_us,
  CASE WHEN exchange < led THEN 0 WHEN exchange = led THEN sum(wait_us - network_us) FILTER (exchange <= led) OVER w
    ELSE wait_us - network_us END AS charged_server_us,
  -- With the gap before it, since a request that is not sent saves that, too.
  CASE WHEN kind <> 'prepare' THEN 0
    WHEN is_of_led THEN sum(own_us + gap_us) FILTER (exchange <= led) OVER w
    WHEN exchange < led AND bool_or(is_of_led) OVER w THEN 0
    ELSE own_us + gap_us END AS prepare_us
FROM prepared WINDOW w AS (PARTITION BY connection, flight)
"""
