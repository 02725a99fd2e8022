//! MySQL's slow log, with or without log_slow_extra, Percona Server's and MariaDB's.

use wire::Family;
use wire::passive::{Counted, Kind, ServerError, Verb};
use wire::sql::verb;

use super::event::{Event, Read, Request, When};
use super::lines::{Lines, has_word, split, trimmed};
use super::when::{Shown, short_time, span_ns, time};
use crate::failure::Failure;

const USER: &[u8] = b"# User@Host: ";
const TIME: &[u8] = b"# Time: ";
const COMMAND: &[u8] = b"# administrator command: ";

/// Tell what the log says.
///
/// # Errors
/// The file's, and `tell`'s.
pub(super) fn read(
    lines: &mut Lines,
    tell: &mut dyn FnMut(Event) -> Result<(), Failure>,
) -> Result<Read, Failure> {
    let mut read = Read::default();
    let mut entry: Option<Entry> = None;
    // MariaDB writes a time where its second has changed.
    let mut written = None;
    let mut tells_waits = false;
    while let Some(line) = lines.next()? {
        if let Some(version) = version(&line, lines.ahead()) {
            finish(&mut entry, &mut read, tell)?;
            tells_waits = is_wait(&version);
            tell(Event::Version(version))?;
            tell(Event::Opened)?;
            // The two lines of the header that follow; a log begins with it again after FLUSH LOGS and each start.
            lines.next()?;
            lines.next()?;
        } else if let Some(shown) = shown(&line, lines.ahead()) {
            finish(&mut entry, &mut read, tell)?;
            written = Some(shown);
        } else if line.starts_with(USER) && begins_figures(lines.ahead()) {
            finish(&mut entry, &mut read, tell)?;
            entry = Some(Entry::new(&line, written.clone(), tells_waits));
        } else if let Some(entry) = &mut entry {
            entry.add(&line);
        } else {
            read.unread_lines += 1;
        }
    }
    if let Some(last) = &entry
        && !last.is_whole()
    {
        read.cut += 1;
        entry = None;
    }
    finish(&mut entry, &mut read, tell)?;
    Ok(read)
}

/// `/usr/sbin/mysqld, Version: 9.7.4 (Source distribution). started with:`, which begins a log of MySQL or MariaDB.
pub(super) fn version(line: &[u8], ahead: &[u8]) -> Option<String> {
    if !trimmed(line).ends_with(b"started with:") || !ahead.starts_with(b"Tcp port:") {
        return None;
    }
    let (_, rest) = split(line, b", Version: ")?;
    let end = rest.iter().position(|byte| *byte == b' ')?;
    Some(text(&rest[..end]))
}

/// Whether a server's Lock_time is what a statement waited for locks: MySQL's is from 8.0.28 on. Before, and in MariaDB, it is the time
/// until the tables are locked, with what parsing takes.
fn is_wait(version: &str) -> bool {
    let digits = version.split(|sign: char| !sign.is_ascii_digit());
    let numbers: Vec<u32> = digits.map_while(|number| number.parse().ok()).collect();
    !version.to_ascii_lowercase().contains("mariadb") && numbers[..] >= [8, 0, 28][..]
}

/// `# Time: 2026-11-23T07:50:22.926772Z` before an entry.
fn shown(line: &[u8], ahead: &[u8]) -> Option<Shown> {
    let shown = text(line.strip_prefix(TIME)?);
    let shown = time(&shown).or_else(|| short_time(&shown))?;
    let begins = ahead.is_empty() || ahead.starts_with(USER);
    begins.then_some(shown)
}

/// MySQL's first line of figures, MariaDB's, or Percona Server's.
fn begins_figures(line: &[u8]) -> bool {
    [&b"# Query_time: "[..], b"# Thread_id: ", b"# Schema: "]
        .iter()
        .any(|first| line.starts_with(first))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim().to_owned()
}

/// An entry whose lines are being gathered.
struct Entry {
    /// When it was written.
    written: Option<Shown>,
    figures: Vec<(String, String)>,
    /// Its Lock_time is what it waited for locks.
    tells_waits: bool,
    /// `SET timestamp=...;` stands before the statement.
    in_body: bool,
    body: Vec<u8>,
}

impl Entry {
    fn new(user: &[u8], written: Option<Shown>, tells_waits: bool) -> Self {
        let mut entry = Self {
            written,
            tells_waits,
            figures: Vec::new(),
            in_body: false,
            body: Vec::new(),
        };
        let id = split(user, b"  Id: ").map(|(_, id)| text(id));
        entry.figures.extend(id.map(|id| ("Id".to_owned(), id)));
        entry
    }

    fn add(&mut self, line: &[u8]) {
        if self.in_body {
            self.body.extend_from_slice(line);
        } else if line.starts_with(b"#") {
            self.figures.extend(figures(&text(line)));
        } else if line.starts_with(b"SET ") {
            self.in_body = true;
        }
        // What else stands there is `use DATABASE;`.
    }

    fn is_whole(&self) -> bool {
        self.body.ends_with(b";\n")
    }

    fn figure(&self, name: &str) -> Option<&str> {
        let found = self.figures.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }

    fn count(&self, name: &str) -> Option<u64> {
        self.figure(name)?.parse().ok()
    }

    fn event(&self, clock: &mut Option<String>) -> Option<Event> {
        let session = self.figure("Id").or_else(|| self.figure("Thread_id"))?;
        let lasted_ns = span_ns(self.figure("Query_time")?, 1e9)?;
        let when = self.when(lasted_ns, clock)?;
        let statement = self.body.strip_suffix(b";\n")?;
        let command = statement.strip_prefix(COMMAND);
        let mut request = Request::new(command.map_or(Kind::Query, kind), when);
        if command.is_none() {
            request.text = Some(statement.to_vec());
        }
        request.rows = self.count("Rows_sent");
        request.affected = self.count("Rows_affected");
        request.bytes = self.count("Bytes_received").zip(self.count("Bytes_sent"));
        request.error = self
            .count("Errno")
            .and_then(|code| u16::try_from(code).ok())
            .filter(|code| *code > 0)
            .map(|code| ServerError {
                code,
                sqlstate: String::new(),
            });
        request.counted = self.counted().known();
        request.one_of = self.count("Log_slow_rate_limit");
        request.by_time = match &request.text {
            Some(text) => self.used_index() || reads_no_table(text),
            None => !matches!(
                request.kind,
                Kind::Execute | Kind::BulkExecute | Kind::Fetch
            ),
        };
        Some(Event::Request {
            session: session.to_owned(),
            request,
        })
    }

    fn counted(&self) -> Counted {
        let waited = self.figure("Lock_time").filter(|_| self.tells_waits);
        // MariaDB names tables on disk where there are temporary tables; else it says that there was none.
        let none = self.figure("Tmp_table") == Some("No");
        let temporary = |name: &str, of_mariadb: &str| {
            let counted = self.count(name).or_else(|| self.count(of_mariadb));
            counted.or_else(|| none.then_some(0))
        };
        Counted {
            rows_examined: self.count("Rows_examined"),
            lock_ns: waited.and_then(|waited| span_ns(waited, 1e9)),
            full_scan: self.full_scan(),
            sort_rows: self.count("Sort_rows"),
            temporary_tables: temporary("Created_tmp_tables", "Tmp_tables"),
            temporary_disk_tables: temporary("Created_tmp_disk_tables", "Tmp_disk_tables"),
        }
    }

    /// MariaDB has a word for it. Of MySQL's counts, rows that were read in the order of a table tell, unless a temporary table is one of
    /// those that were read.
    fn full_scan(&self) -> Option<bool> {
        if let Some(scan) = self.figure("Full_scan") {
            return Some(scan == "Yes" || self.figure("Full_join") == Some("Yes"));
        }
        let (examined, in_order) = (self.count("Rows_examined")?, self.count("Read_rnd_next")?);
        let is_table = in_order == 0 || self.count("Created_tmp_tables") == Some(0);
        is_table.then_some(in_order > 0 && in_order >= examined.div_ceil(2))
    }

    /// Whether log_queries_not_using_indexes, which has scans written however short they are, cannot be why it was written.
    fn used_index(&self) -> bool {
        if let Some(scan) = self.figure("Full_scan") {
            return scan == "No" && self.figure("Full_join") != Some("Yes");
        }
        let scans = ["Read_first", "Read_last", "Read_rnd_next"];
        self.count("Read_key") > Some(0) && scans.iter().all(|name| self.count(name) == Some(0))
    }

    /// The clock shows when the entry was written. A session can set the time that `Start` and `SET timestamp` have.
    fn when(&self, lasted_ns: u64, clock: &mut Option<String>) -> Option<When> {
        let Shown {
            at_ns,
            clock: of_entry,
        } = self.written.clone()?;
        *clock = of_entry;
        Some(When::Until(at_ns, lasted_ns))
    }
}

/// Whether a statement uses no table, or only adds rows to one: it cannot be one that used no index.
fn reads_no_table(statement: &[u8]) -> bool {
    let verbs = [
        Verb::Begin,
        Verb::Commit,
        Verb::Rollback,
        Verb::Savepoint,
        Verb::Set,
        Verb::Select,
        Verb::Insert,
        Verb::Replace,
    ];
    verbs.contains(&verb(Family::Mysql, statement))
        && !["FROM", "TABLE"]
            .iter()
            .any(|word| has_word(statement, word))
}

/// `# Query_time: 0.000006  Lock_time: 0.000000 ...`; a value may be empty.
fn figures(line: &str) -> Vec<(String, String)> {
    let mut found: Vec<(String, String)> = Vec::new();
    for word in line.trim_start_matches('#').split_whitespace() {
        match word.strip_suffix(':') {
            Some(name) => found.push((name.to_owned(), String::new())),
            None => {
                if let Some((_, value)) = found.last_mut()
                    && value.is_empty()
                {
                    word.clone_into(value);
                }
            }
        }
    }
    found
}

fn kind(command: &[u8]) -> Kind {
    super::general::kind(&String::from_utf8_lossy(command))
}

fn finish(
    entry: &mut Option<Entry>,
    read: &mut Read,
    tell: &mut dyn FnMut(Event) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let Some(entry) = entry.take() else {
        return Ok(());
    };
    let Some(event) = entry.event(&mut read.clock) else {
        read.cut += 1;
        return Ok(());
    };
    let ended = match &event {
        Event::Request { session, request } if request.kind == Kind::Quit => {
            let at_ns = request.when.placed_ns(0).1.unwrap_or_default();
            Some((session.clone(), at_ns))
        }
        _ => None,
    };
    tell(event)?;
    match ended {
        Some((session, at_ns)) => tell(Event::Ended { session, at_ns }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_later_servers_of_mysql_tell_what_a_statement_waited() {
        for version in ["8.0.28", "8.0.36-28", "8.4.3-log", "9.7.4"] {
            assert!(is_wait(version), "{version}");
        }
        for version in ["8.0.27", "5.7.44-log", "10.11.19-MariaDB-0+deb12u1-log", ""] {
            assert!(!is_wait(version), "{version}");
        }
    }
}
