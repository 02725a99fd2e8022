"""What a server is asked: only SELECTs, of what a login with SELECT and PROCESS may see."""

from __future__ import annotations

OTHERS = "('mysql', 'sys', 'information_schema', 'performance_schema')"
STORED = "('BASE TABLE', 'SYSTEM VERSIONED')"
"""MariaDB's tables that keep their history are of the second type."""
TABLES = f"""SELECT table_schema, table_name, engine, row_format, table_rows, data_length, index_length, data_free,
    auto_increment, table_collation, create_options
  FROM information_schema.tables WHERE table_type IN {STORED} AND table_schema NOT IN {OTHERS}"""
INDEXES = """SELECT table_schema, table_name, index_name, non_unique, index_type, {visible}, column_name, sub_part, collation,
    nullable
  FROM information_schema.statistics WHERE table_schema NOT IN {others}
  ORDER BY table_schema, table_name, index_name, seq_in_index"""
COLUMNS = f"""SELECT c.table_schema, c.table_name, c.column_name, c.column_type, c.character_set_name, c.extra,
    c.column_comment
  FROM information_schema.columns c JOIN information_schema.tables t
    ON t.table_schema = c.table_schema AND t.table_name = c.table_name AND t.table_type IN {STORED}
  WHERE c.table_schema NOT IN {OTHERS} AND (c.character_set_name IS NOT NULL OR c.extra LIKE '%auto_increment%')"""
ATTRIBUTES = f"""SELECT table_schema, table_name, column_name FROM information_schema.columns_extensions
  WHERE (engine_attribute IS NOT NULL OR secondary_engine_attribute IS NOT NULL) AND table_schema NOT IN {OTHERS}"""
REFERENCES = f"""SELECT table_schema, table_name, column_name FROM information_schema.key_column_usage
  WHERE referenced_table_name IS NOT NULL AND table_schema NOT IN {OTHERS}"""
PERSISTED = "SELECT variable_name FROM performance_schema.persisted_variables"
STATISTICS = f"""SELECT database_name, table_name, n_rows, TIMESTAMPDIFF(SECOND, last_update, NOW())
  FROM mysql.innodb_table_stats WHERE database_name NOT IN {OTHERS}"""
INDEX_USE = f"""SELECT object_schema, object_name, index_name, count_read
  FROM performance_schema.table_io_waits_summary_by_index_usage
  WHERE index_name IS NOT NULL AND object_schema NOT IN {OTHERS}"""
INSTRUMENTS = """SELECT COUNT(*) FROM performance_schema.setup_instruments
  WHERE name LIKE 'wait/synch/%' AND enabled = 'YES' AND timed = 'YES'"""
METRICS = """SELECT name, count FROM information_schema.innodb_metrics
  WHERE name IN ('trx_rseg_history_len', 'adaptive_hash_searches', 'adaptive_hash_searches_btree')"""
TRANSACTIONS = """SELECT trx_mysql_thread_id, TIMESTAMPDIFF(SECOND, trx_started, NOW()), trx_rows_modified
  FROM information_schema.innodb_trx WHERE trx_mysql_thread_id <> CONNECTION_ID()"""
STATEMENTS = """SELECT id, time, LEFT(info, 1000) FROM {processes}
  WHERE command IN ('Query', 'Execute') AND info IS NOT NULL AND id <> CONNECTION_ID()"""
