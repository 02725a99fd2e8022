//! Logs in which not every statement is.

use std::fs;

use crate::common::{Folder, program, text};
use crate::imported::whole;

/// An entry of a slow log, with more lines of figures.
fn entry(took_s: &str, examined: u32, more: &str, statement: &str) -> String {
    format!(
        "# Time: 2026-11-23T07:50:23.430719Z\n\
        # User@Host: root[root] @ localhost []  Id:     9\n\
        # Query_time: {took_s}  Lock_time: 0.000000 Rows_sent: 1  Rows_examined: {examined}{more}\n\
        SET timestamp=1795420223;\n\
        {statement};\n"
    )
}

const SCAN: &str = "SELECT * FROM t WHERE b = 1";

fn slow() -> String {
    entry("1.200000", 500_000, "", SCAN)
}

/// Whether short statements may be missing in a slow log, and what people are told.
fn misses_short_ones(log: &str) -> (bool, String) {
    let folder = Folder::new();
    let path = folder.file("log");
    fs::write(&path, log).expect("room");
    let imported = whole(&path, "mysql-slow", &[]);
    let lacks = imported.lacks();
    assert_eq!(lacks.contains("short_statements"), lacks.contains("gaps"));
    let trace = folder.file("t");
    let mut command = program();
    command.args(["import", text(&path), text(&trace)]);
    let done = command.args(["--format", "mysql-slow"]).output();
    let said = done.expect("runs").stdout;
    let said = String::from_utf8_lossy(&said).into_owned();
    (lacks.contains("short_statements"), said)
}

/// `log_queries_not_using_indexes` has them written whatever `long_query_time` is.
#[test]
fn fast_scans_do_not_prove_that_a_slow_log_has_every_statement() {
    let figures = |scans: u32| {
        format!(" Read_first: 0 Read_last: 0 Read_key: 1 Read_next: 0 Read_rnd_next: {scans}")
    };
    let plan = |scan: &str| format!("\n# Full_scan: {scan}  Full_join: No  Tmp_table: No");
    for (more, statement, misses) in [
        (String::new(), SCAN, true),
        (String::new(), "DELETE FROM t", true),
        (String::new(), "INSERT INTO u SELECT * FROM t", true),
        (String::new(), "CALL scans()", true),
        (figures(501), SCAN, true),
        (plan("Yes"), SCAN, true),
        (figures(0), SCAN, false),
        (plan("No"), SCAN, false),
        (String::new(), "COMMIT", false),
        (String::new(), "BEGIN", false),
        (String::new(), "SET NAMES utf8mb4", false),
        (String::new(), "SELECT @@version", false),
        (String::new(), "INSERT INTO t VALUES (1, 2)", false),
        (String::new(), "# administrator command: Quit", false),
    ] {
        let log = slow() + &entry("0.000200", 1, &more, statement);
        let (found, said) = misses_short_ones(&log);
        assert_eq!(found, misses, "{statement} {more}");
        assert_eq!(
            said.contains("because they used no index"),
            misses,
            "{said}"
        );
    }
    let (found, said) = misses_short_ones(&slow());
    assert!(
        found && said.contains("no statement below 1200.0 ms"),
        "{said}"
    );
}

/// As Percona Server says of `log_slow_rate_limit`.
#[test]
fn a_slow_log_of_one_statement_in_a_hundred_is_not_whole() {
    for (rate, misses) in [(100, true), (1, false)] {
        let more = format!("\n# Log_slow_rate_type: query  Log_slow_rate_limit: {rate}");
        let log = entry("0.000200", 0, "", "BEGIN") + &entry("0.000200", 0, &more, "COMMIT");
        let (found, said) = misses_short_ones(&log);
        assert_eq!(found, misses, "{rate}");
        assert_eq!(said.contains("one statement of 100"), misses, "{said}");
    }
}
