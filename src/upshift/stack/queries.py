"""The questions to the timeline: each gives the fields of one value in ``evidence``."""

from __future__ import annotations

from upshift.stack.timeline import EXECUTIONS, SEGMENT_BYTES

_DATA = "('select', 'insert', 'update', 'delete', 'replace', 'call')"

STATEMENTS = rf"""
WITH prepared AS (
  SELECT exchange,
    row_number() OVER (PARTITION BY connection, sql ORDER BY exchange) > 1 AS again,
    array_to_string(literals(regexp_replace(sql, '\$\d+', '?', 'g')), ' ') AS literals
  FROM exchanges WHERE kind = 'prepare'
), results AS (
  -- The rows of an execution with all its fetches.
  SELECT about, sum(rows) AS rows FROM (
    SELECT about, rows, connection,
      sum(CASE WHEN kind = 'fetch' THEN 0 ELSE 1 END) OVER (PARTITION BY connection, about ORDER BY exchange) AS n
    FROM timeline WHERE kind IN ('query', 'execute', 'fetch') AND about IS NOT NULL)
  GROUP BY about, connection, n
), medians AS (SELECT about, median(rows) AS rows_median FROM results GROUP BY about)
SELECT about AS statement, coalesce(any_value(digest_text) FILTER (statement = about), any_value(digest_text)) AS text,
  coalesce(mode(verb), 'other') AS verb,
  count(*) FILTER (kind IN ('query', 'copy')) AS as_text,
  count(*) FILTER (kind IN ('execute', 'bulk_execute')) AS executes,
  count(*) FILTER (kind = 'prepare') AS prepares,
  count(*) FILTER (again) AS prepares_again,
  count(*) FILTER (literals <> '') AS prepares_with_literals,
  CASE WHEN count(DISTINCT literals) > 1 THEN count(DISTINCT literals) ELSE 0 END AS prepared_literals,
  count(*) FILTER (kind = 'fetch') AS fetches,
  count(*) FILTER (cursor AND kind <> 'fetch') AS cursors,
  count(*) FILTER (early_close) AS early_closes,
  count(*) FILTER (no_index_used AND kind IN ('query', 'execute')) AS no_index,
  coalesce(sum(rows), 0)::BIGINT AS rows,
  coalesce(any_value(rows_median), 0) AS rows_median,
  median(fetch_size) AS fetch_size,
  coalesce(sum(round_trips), 0)::BIGINT AS round_trips,
  sum(charged_us)::BIGINT AS time_us,
  coalesce(sum(charged_server_us) FILTER (executes), 0)::BIGINT AS server_us,
  coalesce(median(charged_server_us) FILTER (kind IN {EXECUTIONS}), 0) AS server_us_median,
  coalesce(sum(charged_server_us) FILTER (kind = 'query'), 0)::BIGINT AS text_server_us,
  -- A request that is not sent saves the gap before it, too.
  coalesce(sum(prepare_us), 0)::BIGINT AS prepare_us,
  coalesce(sum(prepare_us) FILTER (again), 0)::BIGINT AS prepare_again_us,
  coalesce(sum(own_us + gap_us) FILTER (kind = 'close_statement'), 0)::BIGINT AS close_us,
  coalesce(sum(own_us + gap_us) FILTER (kind = 'fetch'), 0)::BIGINT AS fetch_us,
  coalesce(sum(own_us + gap_us) FILTER (kind = 'fetch' OR cursor), 0)::BIGINT AS cursor_us
FROM timeline LEFT JOIN prepared USING (exchange) LEFT JOIN medians USING (about)
WHERE about IS NOT NULL
GROUP BY about ORDER BY time_us DESC, statement
"""

# What some executions do not tell counts as nothing, as long as others do: MariaDB writes a line about the plan only where it
# has something to say.
COUNTED = """
SELECT about AS statement, count(*) AS executions, avg(wait_us) AS wait_us,
  sum(lock_us) / count(*) AS lock_us,
  avg(rows_examined) AS rows_examined, coalesce(avg(rows), 0) AS rows_sent, avg(affected) AS rows_affected,
  sum(sort_rows) / count(*) AS sort_rows,
  sum(temporary_tables) / count(*) AS temporary_tables,
  sum(temporary_disk_tables) / count(*) AS temporary_disk_tables,
  CASE WHEN count(full_scan) > 0 THEN count_if(full_scan) / count(*) END AS no_index
FROM timeline WHERE rows_examined IS NOT NULL AND about IS NOT NULL
GROUP BY about ORDER BY sum(own_us) DESC, statement
"""

_MOST_APART = 16
"""Statements of a loop's body at most: what is further apart is no loop."""

# What is sent in one flight with other data before it costs no round trip: a pipeline is no loop. What else goes before it in
# its flight, as a portal that pgjdbc closes with the next request, has the flight's round trip, and its time.
LOOPS = f"""
WITH flights AS (
  SELECT *, kind IN ('query', 'execute') AND verb IN {_DATA} AND statement IS NOT NULL AND tx IS NOT NULL AS of_data
  FROM timeline
), timed AS (
  SELECT * EXCLUDE (own_us, gap_us),
    own_us + sum(CASE WHEN of_data THEN 0 ELSE own_us END) OVER w AS own_us,
    gap_us + sum(CASE WHEN of_data THEN 0 ELSE gap_us END) OVER w AS gap_us
  FROM flights WINDOW w AS (PARTITION BY connection, flight ORDER BY exchange)
), data AS (
  SELECT connection, tx, exchange, statement, verb, own_us, gap_us, affected,
    row_number() OVER (PARTITION BY connection, tx ORDER BY exchange) AS place,
    CASE WHEN kind = 'execute' THEN try_cast(parameters::JSON AS VARCHAR[])
      ELSE literals(sql) END AS given
  FROM (
    SELECT * FROM timed WHERE of_data AND flight > 0
    QUALIFY row_number() OVER (PARTITION BY connection, flight ORDER BY exchange) = 1
  ) JOIN (SELECT exchange, sql, parameters FROM exchanges) USING (exchange)
), beside AS (
  SELECT *, lag(given) OVER w AS given_before, place - lag(place) OVER w AS apart,
    coalesce(place - lag(place) OVER w <= {_MOST_APART}, false) AS again
  FROM data WINDOW w AS (PARTITION BY connection, tx, statement ORDER BY exchange)
), numbered AS (
  SELECT *, sum(CASE WHEN again THEN 0 ELSE 1 END) OVER (PARTITION BY connection, tx, statement ORDER BY exchange) AS run,
    CASE WHEN again AND len(given) = len(given_before)
      THEN len(list_filter(list_zip(given, given_before), lambda pair: pair[1] IS DISTINCT FROM pair[2])) END AS changed
  FROM beside
), runs AS (
  SELECT statement, any_value(verb) AS verb, count(*) AS length, max(apart) FILTER (again) AS body,
    sum(own_us + gap_us) FILTER (again) AS again_us,
    median(gap_us) FILTER (again) AS gap_us, median(own_us) AS exchange_us, median(changed) AS changed,
    median(affected) AS affected
  FROM numbered GROUP BY connection, tx, run, statement HAVING count(*) > 1
)
SELECT statement, any_value(verb) AS verb, length, body, count(*) AS runs, sum(again_us)::BIGINT AS again_us,
  median(gap_us) AS gap_us_median, median(exchange_us) AS exchange_us_median,
  median(changed) AS changed_median, coalesce(median(affected), 0) AS affected_median
FROM runs GROUP BY statement, length, body ORDER BY statement, length, body
"""

# Before a request that goes in the flight of another one there is no gap. What has no answer, as MySQL's close, waits for none.
KINDS = """
WITH each AS (
  SELECT hash(list_sort(list_distinct(list(about)))) AS kind, count(*) AS requests, sum(gap_us) AS gap_us,
    count(*) FILTER (coalesce(round_trips, 1) > 0 OR last_byte_us IS NULL) - 1 AS gaps
  FROM timeline WHERE tx IS NOT NULL GROUP BY connection, tx HAVING gaps > 0
)
SELECT count(*) AS transactions, sum(requests)::BIGINT AS requests, sum(gap_us)::BIGINT AS gap_us,
  median(gap_us / gaps) AS gap_us_typical
FROM each GROUP BY kind ORDER BY gap_us DESC, transactions LIMIT 1000
"""

FOLLOWED = f"""
WITH data AS (
  SELECT connection, tx, exchange, statement, list_contains($1, statement) AS candidate
  FROM timeline WHERE kind IN ('query', 'execute') AND verb IN {_DATA} AND statement IS NOT NULL AND tx IS NOT NULL
), anchored AS (
  SELECT *, last_value(CASE WHEN candidate THEN statement END IGNORE NULLS)
    OVER (PARTITION BY connection, tx ORDER BY exchange ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS after
  FROM data
)
SELECT after AS statement, statement AS "then", count(*) AS times
FROM anchored WHERE after IS NOT NULL AND NOT candidate GROUP BY ALL ORDER BY ALL
"""

_FUNCTIONS = r"(database|schema|version|connection_id|user|current_user|last_insert_id|current_schema|current_database)\s*\("

CHATTER = rf"""
WITH classed AS (
  -- What leads a flight goes with the statement that follows: without it, the flight would take as long.
  SELECT digest_text, CASE WHEN leads THEN 0 ELSE round_trips END AS round_trips,
    CASE WHEN leads THEN 0 ELSE own_us + gap_us END AS own_us, CASE
    WHEN kind = 'ping' THEN 'ping'
    WHEN kind IN ('reset_connection', 'reset_statement', 'change_user') OR regexp_matches(digest_text, '(?i)^\s*DISCARD\b')
      THEN 'reset'
    WHEN kind = 'statistics' THEN 'statistics'
    WHEN kind = 'init_db' OR verb = 'use' THEN 'USE'
    WHEN kind NOT IN ('query', 'execute', 'prepare') THEN NULL
    WHEN verb = 'set' THEN 'SET'
    WHEN verb = 'show' THEN 'SHOW'
    WHEN verb = 'savepoint' THEN 'SAVEPOINT'
    WHEN verb <> 'select' OR regexp_matches(digest_text, '(?i)\bFROM\b') THEN NULL
    WHEN contains(digest_text, '@@') OR regexp_matches(digest_text, '(?i)\b{_FUNCTIONS}') THEN 'session variables'
    WHEN regexp_matches(digest_text, '(?i)^\s*SELECT\s+(\?|1|''x'')\s*;?\s*$') THEN 'test query'
    END AS what
  FROM timeline
)
SELECT what, count(*) AS requests, coalesce(sum(round_trips), 0)::BIGINT AS round_trips, sum(own_us)::BIGINT AS time_us,
  mode(digest_text) AS example
FROM classed WHERE what IS NOT NULL GROUP BY what ORDER BY time_us DESC, what
"""

SMALL = f"""
WITH small AS (
  SELECT request_end_us - request_us AS sending_us,
    CASE WHEN bytes_received <= {SEGMENT_BYTES} THEN last_byte_us - first_byte_us END AS receiving_us
  FROM timeline WHERE bytes_sent <= {SEGMENT_BYTES} AND kind NOT IN ('long_data', 'copy')
    -- What the server asks for in between, as the file of LOAD DATA LOCAL, comes later by its nature.
    AND round_trips < 2
)
SELECT count(*) AS requests, count(*) FILTER (sending_us > 0) AS split, coalesce(sum(sending_us), 0)::BIGINT AS split_us,
  count(*) FILTER (sending_us BETWEEN 35000 AND 45000 OR receiving_us BETWEEN 35000 AND 45000) AS stalls,
  coalesce(sum(CASE WHEN sending_us BETWEEN 35000 AND 45000 THEN sending_us ELSE 0 END
    + CASE WHEN receiving_us BETWEEN 35000 AND 45000 THEN receiving_us ELSE 0 END), 0)::BIGINT AS stall_us
FROM small
"""

# A packet capture may not see the end of a connection, but the last request.
LOGINS = """
WITH first AS (
  SELECT connection, min(request_us) AS request_us, max(request_us) FILTER (kind = 'quit') AS quit_us
  FROM timeline GROUP BY connection
), moves AS (
  SELECT began_us AS at_us, 1 AS opened FROM sessions WHERE NOT joined_late
  UNION ALL SELECT coalesce(ended_us, quit_us), -1 FROM sessions LEFT JOIN first USING (connection) WHERE NOT joined_late
), open AS (
  SELECT sum(opened) OVER (ORDER BY at_us, opened ROWS UNBOUNDED PRECEDING) AS number FROM moves WHERE at_us IS NOT NULL
)
SELECT count(*) AS logins, greatest(0, count(*) - coalesce((SELECT max(number) FROM open), 0))::BIGINT AS again,
  coalesce(sum(login_round_trips), 0)::BIGINT AS round_trips,
  -- greatest() passes over NULL: a connection without a request would count as a login of 0 µs.
  coalesce(median(greatest(0, request_us - began_us)) FILTER (request_us IS NOT NULL), 0) AS login_us_median
FROM sessions LEFT JOIN first USING (connection) WHERE NOT joined_late
"""

DEFINITIONS = f"""
SELECT coalesce(sum(definition_bytes), 0)::BIGINT AS definition_bytes,
  coalesce(sum(bytes_received), 0)::BIGINT AS bytes_received,
  count(*) FILTER (definition_bytes >= {SEGMENT_BYTES}) AS large_answers,
  coalesce(sum(charged_us * definition_bytes / bytes_received) FILTER (definition_bytes >= {SEGMENT_BYTES}), 0)::DOUBLE
    AS large_us
FROM timeline
"""

# MySQL: 1205 ER_LOCK_WAIT_TIMEOUT, 1213 ER_LOCK_DEADLOCK, 3572 ER_LOCK_NOWAIT.
LOCK_ERRORS = """
WITH failed AS (
  SELECT connection, tx, exchange, own_us, CASE
    WHEN error_code = 1213 OR sqlstate = '40P01' THEN 'deadlock'
    WHEN error_code IN (1205, 3572) OR sqlstate = '55P03' THEN 'timeout'
    WHEN sqlstate = '40001' THEN 'serialization' END AS why,
    -- PostgreSQL skips what follows an error up to the next Sync: that has the error's SQLSTATE, and no lock of its own.
    coalesce(error_code = 0 AND sqlstate = lag(sqlstate) OVER w, false) AS skipped
  FROM timeline WINDOW w AS (PARTITION BY connection, tx ORDER BY request_us, exchange)
  QUALIFY error_code IS NOT NULL AND NOT skipped
), whole AS (
  SELECT sum(own_us + gap_us) AS time_us FROM timeline
  WHERE (connection, tx) IN (SELECT (connection, tx) FROM failed WHERE why IS NOT NULL AND tx IS NOT NULL)
)
SELECT count(*) FILTER (why = 'deadlock') AS deadlocks, count(*) FILTER (why = 'timeout') AS timeouts,
  count(*) FILTER (why = 'serialization') AS serialization,
  count(DISTINCT (connection, tx)) FILTER (why IS NOT NULL AND tx IS NOT NULL) AS transactions,
  (coalesce(sum(own_us) FILTER (why IS NOT NULL AND tx IS NULL), 0)
    + coalesce((SELECT time_us FROM whole), 0))::BIGINT AS time_us
FROM failed
"""

CLIENTS = """
WITH used AS (
  SELECT connection, count(DISTINCT tx) AS transactions, sum(own_us + gap_us) AS time_us FROM timeline GROUP BY connection
)
SELECT client AS name, client_version AS version, any_value(attributes) AS attributes, count(*) AS connections,
  count(*) FILTER (joined_late) AS joined_late, count(*) FILTER (tls) AS encrypted, count(*) FILTER (compressed) AS compressed,
  coalesce(sum(transactions), 0)::BIGINT AS transactions, coalesce(sum(time_us), 0)::BIGINT AS time_us
FROM sessions LEFT JOIN used USING (connection)
GROUP BY client, client_version, attributes->>'$._connector_name' ORDER BY time_us DESC, name, version
"""

WHOLE = """
WITH wide AS (SELECT count(*) AS requests FROM timeline WHERE tx IS NOT NULL GROUP BY connection, tx)
SELECT coalesce((SELECT max(requests) FROM wide), 0) AS widest_transaction,
  count(*) FILTER (verb = 'commit' AND executes) AS commits,
  coalesce(median(charged_server_us) FILTER (verb = 'commit' AND executes), 0) AS commit_us_median,
  -- Each execution's own, where the log tells them of all.
  CASE WHEN bool_and(lock_us IS NOT NULL) THEN sum(lock_us)::BIGINT END AS lock_us FROM timeline
"""
