//! Whether a trace only reads: then it can be sent again and again, with the same answers.

use super::tape::Event;
use super::trace::Trace;

/// What only reads.
const READS: [&str; 6] = ["SELECT", "SHOW", "TABLE", "VALUES", "EXPLAIN", "WITH"];
/// What such a statement has in it when it changes something all the same: a WITH before a change, a SELECT into a table, a file
/// or a variable, a lock or a sequence that outlives it, an EXPLAIN that executes.
const CHANGES: [&str; 17] = [
    "INSERT",
    "UPDATE",
    "DELETE",
    "MERGE",
    "REPLACE",
    "INTO",
    "ANALYZE",
    "NEXTVAL",
    "SETVAL",
    "LAST_INSERT_ID",
    "GET_LOCK",
    "RELEASE_LOCK",
    "PG_ADVISORY_LOCK",
    "PG_ADVISORY_UNLOCK",
    "SET_CONFIG",
    "CALL",
    "NEXT",
];

/// The name of the first statement of a trace that may change something; none if it only reads.
///
/// # Errors
/// A file that has changed since it was opened.
pub(super) fn first_change(trace: &Trace) -> anyhow::Result<Option<String>> {
    // What sets the session sets it to the same again; what stands behind the first of several is not looked into.
    let statements = trace.meta.statements.iter();
    let only_read = statements.map(|one| {
        one.of_session || one.spec(trace.meta.family()).is_preparable() && only_reads(&one.sql)
    });
    let only_read: Vec<bool> = only_read.collect();
    let mut reader = trace.reader()?;
    while let Some(recorded) = reader.next_transaction()? {
        for event in recorded.events()? {
            let (Event::Statement { id, .. } | Event::Batch { id, .. }) = event else {
                continue;
            };
            let place = usize::from(id.0);
            if !only_read[place] {
                return Ok(Some(trace.meta.statements[place].name.clone()));
            }
        }
    }
    Ok(None)
}

/// Whether a statement cannot change anything, by its words. A function of the user's own is not looked into; one that has a changing
/// word for a name, in quotes too, counts as a change.
fn only_reads(sql: &str) -> bool {
    let text = sql.to_uppercase();
    let mut words = text
        .split(|letter: char| !letter.is_alphanumeric() && letter != '_')
        .filter(|word| !word.is_empty())
        .peekable();
    let begins = words.peek().is_some_and(|first| READS.contains(first));
    // A lock on rows ends with its transaction.
    let text = words.collect::<Vec<_>>().join(" ");
    let text = text
        .replace("FOR UPDATE", "")
        .replace("FOR NO KEY UPDATE", "");
    begins && !text.split(' ').any(|word| CHANGES.contains(&word))
}

#[cfg(test)]
mod tests {
    use super::only_reads;

    #[test]
    fn a_statement_reads_or_may_change_something() {
        for read in [
            "SELECT 1",
            "(select a from t where update_time = ?) union all select 2",
            "/* hint */ SELECT c FROM t FOR UPDATE",
            "WITH x AS (SELECT 1) SELECT * FROM x",
            "SHOW TABLES",
            "VALUES (1)",
        ] {
            // A comment before it is no read that we know.
            assert_eq!(only_reads(read), !read.starts_with("/*"), "{read}");
        }
        for change in [
            "INSERT INTO t VALUES (1)",
            "update t set a = 1",
            "WITH x AS (DELETE FROM t RETURNING a) SELECT * FROM x",
            "SELECT a INTO OUTFILE 'x' FROM t",
            "SELECT nextval('s')",
            "SELECT NEXT VALUE FOR s",
            "SELECT get_lock('a', 1)",
            "EXPLAIN ANALYZE DELETE FROM t",
            "SET a = 1",
            "CALL p()",
            "",
        ] {
            assert!(!only_reads(change), "{change}");
        }
    }
}
