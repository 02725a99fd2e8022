//! Statements that set the session's state, ask for it, and change tables.

use super::dice::Dice;
use super::schema::Table;
use super::values::quoted;

/// Settings of a session. Those at the beginning are what most clients have: they come back often.
///
/// Not `big_tables`: MySQL 9.7.4 leaks internal temporary tables at the end of some sessions (its log says so). Of one on disk a page
/// stays fixed in the buffer pool, and the next session that gets its file hangs in `buf_page_create`.
pub fn setting(dice: &mut Dice) -> String {
    let fixed: &[&str] = &[
        "SET sql_select_limit=DEFAULT",
        "SET sql_mode=DEFAULT",
        "SET NAMES utf8mb4",
        "SET autocommit=1",
        "SET optimizer_switch=DEFAULT",
        "SET sql_safe_updates=0",
        "SET sql_select_limit=DEFAULT, sql_mode=DEFAULT, autocommit=1, character_set_results=utf8mb4",
        // One row of several without an order may be any of them; none, and more than there are, is the same on each server.
        "SET sql_select_limit=0",
        "SET sql_select_limit=1000000",
        "SET sql_mode=''",
        "SET sql_mode='ANSI'",
        "SET sql_mode='TRADITIONAL'",
        "SET sql_mode='PAD_CHAR_TO_FULL_LENGTH'",
        "SET sql_mode='NO_BACKSLASH_ESCAPES,STRICT_ALL_TABLES'",
        "SET sql_mode='ALLOW_INVALID_DATES,NO_UNSIGNED_SUBTRACTION'",
        "SET sql_mode='HIGH_NOT_PRECEDENCE,REAL_AS_FLOAT,PIPES_AS_CONCAT'",
        "SET sql_mode='TIME_TRUNCATE_FRACTIONAL'",
        "SET NAMES latin1",
        "SET NAMES utf8mb4 COLLATE utf8mb4_bin",
        "SET NAMES utf8mb4 COLLATE utf8mb4_general_ci",
        "SET character_set_results=NULL",
        "SET character_set_results=latin1",
        "SET character_set_results=utf8mb4",
        "SET collation_connection=utf8mb4_0900_as_cs",
        "SET character_set_client=latin1",
        "SET NAMES gbk",
        "SET NAMES binary",
        "SET collation_connection=utf16_general_ci",
        "SET autocommit=0",
        "SET sql_safe_updates=1",
        "SET sql_auto_is_null=1",
        "SET sql_auto_is_null=0",
        "SET foreign_key_checks=0",
        "SET foreign_key_checks=1",
        "SET unique_checks=0",
        "SET time_zone='+03:00'",
        "SET time_zone='-11:30'",
        "SET timestamp=1700000123.456",
        "SET optimizer_switch='condition_fanout_filter=off,derived_merge=off'",
        "SET optimizer_switch='use_invisible_indexes=on'",
        "SET optimizer_switch='index_merge=off,mrr=off,block_nested_loop=off'",
        "SET eq_range_index_dive_limit=1",
        "SET eq_range_index_dive_limit=DEFAULT",
        "SET div_precision_increment=9",
        "SET group_concat_max_len=10",
        "SET session_track_schema=OFF",
        "SET session_track_system_variables='autocommit,sql_mode,time_zone'",
        "SET session_track_state_change=1",
        "SET session_track_transaction_info='CHARACTERISTICS'",
        "SET session_track_transaction_info='OFF'",
        "SET session_track_gtids=OFF",
        "SET resultset_metadata=NONE",
        "SET resultset_metadata=FULL",
        "SET show_create_table_verbosity=1",
        "SET max_error_count=1",
        "SET max_error_count=DEFAULT",
        "SET sql_notes=0",
        "SET sql_notes=1",
        "SET last_insert_id=7",
        "SET insert_id=15",
        "SET optimizer_trace='enabled=on'",
        "SET optimizer_trace='enabled=off'",
        "SET max_execution_time=60000",
        "SET max_execution_time=0",
        "SET windowing_use_high_precision=OFF",
        "SET print_identified_with_as_hex=1",
        "SET transaction_read_only=1",
        "SET transaction_read_only=0",
        "SET completion_type=CHAIN",
        "SET completion_type=NO_CHAIN",
        "SET sql_log_off=1",
        "SET sql_buffer_result=1",
        "SET sql_buffer_result=0",
        "SET optimizer_prune_level=0",
        "SET optimizer_search_depth=1",
        "SET explicit_defaults_for_timestamp=0",
        "SET profiling=1",
        "SET profiling=0",
        "SET select_into_disk_sync=1",
        "SET updatable_views_with_limit=NO",
        "SET low_priority_updates=1",
        "SET use_secondary_engine=OFF",
    ];
    let at = if dice.chance(45) {
        dice.index(7)
    } else {
        dice.index(fixed.len())
    };
    fixed[at].to_owned()
}

/// What the session says of itself and of the statement before.
pub fn asking(dice: &mut Dice) -> String {
    let fixed: &[&str] = &[
        "SELECT ROW_COUNT(), FOUND_ROWS(), LAST_INSERT_ID()",
        "SELECT FOUND_ROWS()",
        "SELECT @@warning_count, @@error_count",
        "SHOW WARNINGS",
        "SHOW ERRORS",
        "SHOW COUNT(*) WARNINGS",
        "GET DIAGNOSTICS @n = NUMBER, @r = ROW_COUNT",
        "SELECT @n, @r, @seen",
        "SELECT @@autocommit, @@transaction_isolation, @@sql_mode, @@sql_select_limit",
        "SELECT DATABASE(), USER()",
        "SELECT NOW(6), CURDATE(), UTC_TIMESTAMP()",
        "SELECT 1 WHERE 1 = 0",
        "SELECT NULL, 1.5, 'text', X'00FF', 1e0, CURRENT_TIMESTAMP",
        "DO 1",
        "SELECT * FROM log ORDER BY id DESC LIMIT 3",
        "SHOW TABLES",
        "SHOW SESSION STATUS LIKE 'Last_query_cost_none'",
        "SELECT 1/0",
        "SELECT CAST('x' AS SIGNED)",
        "SELECT COUNT(*) FROM information_schema.innodb_trx WHERE trx_mysql_thread_id = CONNECTION_ID() AND 0",
        "SELEC 1",
        "SELECT missing FROM log",
        "SELECT * FROM missing",
        "KILL 0",
        "SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'own', MYSQL_ERRNO = 1234",
    ];
    fixed[dice.index(fixed.len())].to_owned()
}

/// A statement that changes a table's definition, or all that servers keep of it.
pub fn definition(dice: &mut Dice, table: &Table, number: u32) -> Vec<String> {
    let name = &table.name;
    if table.is_view {
        return vec![
            format!("CHECK TABLE {name}"),
            format!("FLUSH TABLES {name}"),
        ];
    }
    let column = table.other(dice);
    let index = table
        .uniques
        .first()
        .or(table.indexes.first())
        .map_or("f0", |each| each.name.as_str());
    let one = |sql: String| vec![sql];
    match dice.below(32) {
        0 => one(format!(
            "ALTER TABLE {name} ADD COLUMN x{number} INT DEFAULT {number}"
        )),
        1 => one(format!(
            "ALTER TABLE {name} ADD COLUMN y{number} VARCHAR(10) DEFAULT 'y' FIRST"
        )),
        2 => one(format!(
            "ALTER TABLE {name} ADD INDEX z{number} ({})",
            column.name
        )),
        3 => one(format!(
            "ALTER TABLE {name} ADD UNIQUE INDEX z{number} ({})",
            column.name
        )),
        4 => one(format!("ALTER TABLE {name} ALTER INDEX {index} INVISIBLE")),
        5 => one(format!("ALTER TABLE {name} ALTER INDEX {index} VISIBLE")),
        6 => one(format!("ALTER TABLE {name} DROP INDEX {index}")),
        7 | 8 => vec![
            format!("RENAME TABLE {name} TO moved"),
            format!("SELECT * FROM {name} WHERE k0 = 1"),
            format!("RENAME TABLE moved TO {name}"),
        ],
        9..=11 => one(format!("ANALYZE TABLE {name}")),
        12..=14 => one(format!("FLUSH TABLES {name}")),
        15 => one(format!("ALTER TABLE {name} FORCE")),
        16 => one(format!("ALTER TABLE {name} MODIFY k0 BIGINT NOT NULL")),
        17 => one(format!(
            "ALTER TABLE {name} MODIFY k0 VARCHAR(30) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL"
        )),
        18 => one(format!(
            "ALTER TABLE {name} RENAME COLUMN {0} TO {0}r, RENAME INDEX {index} TO {index}r",
            column.name
        )),
        19 => one(format!(
            "CREATE TEMPORARY TABLE {name} (k0 INT PRIMARY KEY, c0 VARCHAR(10)) SELECT 1 AS k0, 'own' AS c0"
        )),
        20 | 21 => one(format!("DROP TEMPORARY TABLE IF EXISTS {name}")),
        22 => one(format!(
            "CREATE TEMPORARY TABLE copy{number} SELECT * FROM {name}"
        )),
        23 => one(format!("TRUNCATE TABLE {name}")),
        24 => vec![
            format!("CREATE TABLE new{number} LIKE {name}"),
            format!("INSERT IGNORE INTO new{number} SELECT * FROM {name}"),
            format!("RENAME TABLE {name} TO old{number}, new{number} TO {name}"),
            format!("DROP TABLE old{number}"),
        ],
        25 => one(format!("ALTER TABLE {name} COMMENT {}", quoted("changed"))),
        // These read all rows by a handle of the table that the next statement may get.
        26..=28 => one(format!("CHECK TABLE {name}")),
        29 => one(format!("CHECK TABLE {name} EXTENDED")),
        30 => one(format!("CHECKSUM TABLE {name}")),
        _ => one(format!("OPTIMIZE TABLE {name}")),
    }
}
