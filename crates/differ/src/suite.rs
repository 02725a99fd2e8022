//! The statements of MySQL's own tests, sent to both servers.
//!
//! Every test runs on an empty database, once as text and once prepared. Many of its statements have answers of their moment: the
//! number of a connection, a random value, a plan by sampled statistics. Where answers differ, the test therefore runs up to seven
//! times more: a difference counts if it comes again each time, and stock gives one and the same answer to it.

pub mod script;

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use regex::Regex;
use wire::{Cell, Fetch, RowSink, ServerUrl};

use crate::compare::{Rule, compared};
use crate::lockstep::{Pair, Place, Servers};
use crate::minimise::TRIALS_MAX;
use crate::random::{CLIENTS, explain, hang, is_hang, late, lost_besides};
use crate::report::{Difference, Report};
use crate::step::{Step, What};

/// What is not sent: what ends or hangs the server or the connection, or outlives the test on the whole server; and what asks for the
/// server's own state: its counters, its variables, its files. MySQL 9.7.4 executes a prepared SHOW CREATE USER without end now and
/// then, and nobody can log in meanwhile.
static LEFT_OUT: LazyLock<Regex> = LazyLock::new(|| {
    let begins = [
        r"shutdown|restart|kill|clone|change|(start|stop)\s+(replica|slave|group)|reset|purge|install|uninstall|import|xa\b",
        r"alter\s+instance|(create|alter|drop)\s+((undo\s+)?tablespace|server|resource)|lock\s+instance",
        r"set\s[^=]*(global|persist)|show\s+(global\s+|session\s+|local\s+)?(status\s*$|variables)|show\s+(full\s+)?processlist",
        r"show\s+(create\s+user|binary\s+log|binlog|replica)|use\s+`?mysql\b|set\s+password|(alter|drop|rename)\s+user\s+(current_user|user\s*\()",
        r"(grant|revoke)\b.*\bcurrent_user|(explain|describe|desc)\b.*\banalyze",
    ];
    let holds = [
        r"\bmysql\s*\.|\bsleep\s*\(|\bbenchmark\s*\(|\bget_lock\s*\(|\broot\b|\bwait_for_executed_gtid|\b(master|source)_pos_wait",
        r"\b(performance_schema|sys)\s*\.|\b(use|from|in)\s+performance_schema|information_schema\s*\.\s*(processlist|innodb_)",
        r"@@(global\s*\.\s*)?(server_uuid|hostname|pid_file|socket|datadir|tmpdir|log_error|(general|slow_query)_log_file|gtid_\w+)\b",
    ];
    let text = format!(r"(?is)^\s*({})|{}", begins.join("|"), holds.join("|"));
    Regex::new(&text).expect("an expression")
});
/// What COM_STMT_PREPARE takes of them.
static PREPARED: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r"(?i)^\W*(select|with|table|values|insert|update|delete|replace|show|call|do|set)\b",
    )
    .expect("an expression")
});
/// What changes nothing, mostly: it is executed again, for what patches keep in a prepared statement.
static READS: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?i)^\W*(select|with|table|values|show)\b").expect("an expression")
});
/// What reads the data dictionary: [`Rule::Dictionary`].
static DICTIONARY: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"(?i)\binformation_schema\b|^\W*show\b").expect("an expression"));
const RULE: &str =
    "of statements that read the data dictionary, rows in any order and errors alone are compared";
const EXECUTIONS: usize = 3;
/// Of a test whose answers differ. Of two plans that cost the same each server takes either one: that they differ eight times, and
/// stock takes the same one seven times, has a chance of one in 2^14.
const PASSES: usize = 8;
/// Differences that are worth a script; of others the test is named.
const SCRIPTS_MAX: usize = 10;
const SLOT: u32 = 1;
/// In what differs, of a server that hung up alone.
const HUNG_UP: &str = "connection is lost";
/// A server that takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// Send the statements of these tests. `root` is the folder mysql-test of MySQL's source; `keep` gets what there is of the report now
/// and then.
///
/// # Errors
/// A server that cannot be reached, a file that cannot be read.
pub fn run(
    place: &Place,
    root: &Path,
    tests: &[PathBuf],
    say: &dyn Fn(&str),
    keep: &dyn Fn(&Report),
) -> io::Result<Report> {
    let begin = Instant::now();
    let mut all = Report::new("tests", 0);
    all.rules.push(RULE);
    let mut said = Instant::now();
    for (number, test) in tests.iter().enumerate() {
        let sent: Vec<String> = script::statements(root, test)?
            .into_iter()
            .filter(|sql| !LEFT_OUT.is_match(sql))
            .collect();
        let name = test.file_stem().unwrap_or_default().to_string_lossy();
        for (group, steps) in [("text", as_text(&sent)), ("prepared", as_prepared(&sent))] {
            let place = Place {
                wanted: CLIENTS[number % CLIENTS.len()],
                ..place.clone()
            };
            let scripts = all.steady() < SCRIPTS_MAX;
            let found = match one(&place, &steps, scripts) {
                // What was found before a server was gone says why it is.
                Err(error) if all.counted() > 0 => {
                    say(&format!("the run ends early, {name}, {group}: {error}"));
                    all.wall_s = begin.elapsed().as_secs_f64();
                    return Ok(all);
                }
                other => {
                    other.map_err(|error| io::Error::other(format!("{name}, {group}: {error}")))?
                }
            };
            all.add(Report {
                differences: found
                    .differences
                    .into_iter()
                    .map(|each| Difference {
                        what: format!("{name}, {group}: {}", each.what),
                        ..each
                    })
                    .collect(),
                ..found
            });
        }
        if said.elapsed().as_secs() >= 10 {
            said = Instant::now();
            all.wall_s = begin.elapsed().as_secs_f64();
            keep(&all);
            let steady = all.steady();
            say(&format!(
                "{} of {} tests, {} statements, {steady} differences: {name}",
                number + 1,
                tests.len(),
                all.statements
            ));
        }
    }
    all.wall_s = begin.elapsed().as_secs_f64();
    Ok(all)
}

fn as_text(sent: &[String]) -> Vec<Step> {
    sent.iter()
        .map(|sql| Step {
            dictionary: DICTIONARY.is_match(sql),
            ..Step::query("text", sql)
        })
        .collect()
}

fn as_prepared(sent: &[String]) -> Vec<Step> {
    let mut steps = Vec::new();
    for sql in sent {
        let dictionary = DICTIONARY.is_match(sql);
        if !PREPARED.is_match(sql) {
            steps.push(Step {
                dictionary,
                ..Step::query("prepared", sql)
            });
            continue;
        }
        let step = |what: What| Step {
            dictionary,
            ..Step::new("prepared", what)
        };
        let times = if READS.is_match(sql) { EXECUTIONS } else { 1 };
        steps.push(step(What::Prepare(SLOT, sql.clone())));
        for _ in 0..times {
            let what = What::Execute {
                slot: SLOT,
                values: Vec::new(),
                cursor: false,
                rebind: false,
            };
            steps.push(step(what));
        }
        steps.push(step(What::Close(SLOT)));
    }
    steps
}

/// What a step came to.
struct Seen {
    /// A digest of stock's answer, and of its warnings.
    stock: u64,
    differs: Option<String>,
}

/// Steps by their number, with what differs.
type Differing = BTreeMap<usize, String>;

/// One test: what differs, steadily or not.
fn one(place: &Place, steps: &[Step], scripts: bool) -> io::Result<Report> {
    let mut report = Report::new("tests", 0);
    let mut pair = Pair::new(place.clone());
    let mut differ = Differing::new();
    let repeated = repeated(&mut pair, place, steps, &mut report, &mut differ);
    report.allowed = pair.allowed;
    let left = match repeated {
        // The patched server is gone, or hangs, and that is what is wrong with it.
        Err(_) if pair.lost.is_some() => BTreeSet::new(),
        Err(error) if is_hang(&error) => {
            let hang = hang(&mut pair, &error, 0, &[]);
            report.differences.push(hang);
            report.differences.extend(late(&mut pair, 0));
            return Ok(report);
        }
        other => other?,
    };
    let silence = pair.unanswered();
    let found = |at: usize, what: &str, steady: bool| Difference {
        what: what.to_owned(),
        statement: asked(steps, at),
        steady,
        ..Difference::default()
    };
    // One of each kind: what follows may follow from it. A connection that is lost counts, though it is not lost again.
    let unsteady = || differ.iter().filter(|(at, _)| !left.contains(at));
    let lost = unsteady().find(|(_, what)| what.contains(HUNG_UP));
    if let Some((&at, what)) = lost.or_else(|| unsteady().next()) {
        report.differences.push(found(at, what, false));
    }
    if let Some(&at) = left.first() {
        let what = &differ[&at];
        let mut steady = found(at, what, true);
        if scripts {
            // Without those before it that differ for reasons of their own.
            let kept = (0..=at).filter(|number| *number == at || !differ.contains_key(number));
            let kept: Vec<Step> = kept.map(|number| steps[number].clone()).collect();
            emptied(place)?;
            let made = explain(&mut pair, place, &[], &kept, what.clone(), 0, TRIALS_MAX)?;
            if made.steady {
                steady = made;
            }
        }
        report.differences.push(steady);
    }
    // Also one that was lost when the test ran again, at whichever statement.
    report
        .differences
        .extend(lost_besides(&mut pair, &report, 0));
    let mut lost = report.differences.iter_mut();
    if let Some(lost) = lost.find(|each| each.what.contains(HUNG_UP)) {
        lost.silence = silence.or(lost.silence.take());
    }
    report.differences.extend(late(&mut pair, 0));
    Ok(report)
}

/// What differs in the first pass, into `differ`; which of it does in every other pass, too, while stock's answer stays the same.
fn repeated(
    pair: &mut Pair,
    place: &Place,
    steps: &[Step],
    report: &mut Report,
    differ: &mut Differing,
) -> io::Result<BTreeSet<usize>> {
    emptied(place)?;
    let mut before = once(pair, steps, Some(report))?;
    let first = before.iter().enumerate();
    differ.extend(first.filter_map(|(at, each)| Some((at, each.differs.clone()?))));
    let mut left: BTreeSet<usize> = differ.keys().copied().collect();
    for pass in 1..PASSES {
        if left.is_empty() {
            break;
        }
        emptied(place)?;
        let seen = once(pair, steps, None)?;
        left.retain(|&at| {
            let again = seen.get(at).is_some_and(|each| each.differs.is_some());
            let stock = |seen: &[Seen]| seen.get(at).map(|each| each.stock);
            // The first pass may have begun with what an earlier test had left.
            again && (pass == 1 || stock(&before) == stock(&seen))
        });
        before = seen;
    }
    Ok(left)
}

/// A step for a reader, with the text of the statement that it executes.
fn asked(steps: &[Step], at: usize) -> String {
    let text = steps[..at].iter().rev().find_map(|step| match &step.what {
        What::Prepare(_, sql) => Some(sql),
        _ => None,
    });
    match (&steps[at].what, text) {
        (What::Execute { .. }, Some(sql)) => format!("{}: {sql}", steps[at].shown()),
        _ => steps[at].shown(),
    }
}

/// All steps; the first pass is counted.
fn once(
    pair: &mut Pair,
    steps: &[Step],
    mut counted: Option<&mut Report>,
) -> io::Result<Vec<Seen>> {
    pair.fresh()?;
    let mut found = Vec::with_capacity(steps.len());
    for step in steps {
        let differs = pair.step(step)?;
        if let Some(report) = &mut counted {
            report.statements += 1;
            let count = report.groups.entry(step.group.to_string()).or_default();
            count.statements += 1;
            count.errors += u64::from(pair.answers.0.error != 0);
            count.rows += pair.answers.0.rows;
        }
        let mut digest = DefaultHasher::new();
        let warnings = compared(&pair.warnings, Rule::Whole);
        for (_, packet) in compared(&pair.answers.0, step.rule())
            .into_iter()
            .chain(warnings)
        {
            packet.hash(&mut digest);
        }
        let lost = differs.as_ref().is_some_and(|what| what.contains(HUNG_UP));
        found.push(Seen {
            stock: digest.finish(),
            differs,
        });
        if lost {
            break;
        }
    }
    Ok(found)
}

/// Rows of one column.
#[derive(Default)]
struct Names(Vec<String>);

impl RowSink for Names {
    fn row(&mut self, cells: &[Cell<'_>]) {
        self.0.extend(cells.first().and_then(Cell::to_text));
    }
}

/// Drop the databases and users that tests have left on both servers.
fn emptied(place: &Place) -> io::Result<()> {
    const DATABASES: &str = "SELECT CONCAT('DATABASE `', schema_name, '`') FROM information_schema.schemata WHERE schema_name \
                             NOT IN ('mysql', 'sys', 'information_schema', 'performance_schema')";
    const USERS: &str = "SELECT CONCAT('USER ', QUOTE(user), '@', QUOTE(host)) FROM mysql.user WHERE user NOT LIKE 'mysql.%' AND \
                         user NOT IN ('root', 'mariadb.sys')";
    for socket in [&place.stock, &place.patched] {
        let text = format!("mysql://root@/?socket={}", socket.display());
        let mut url = ServerUrl::parse(&text).map_err(io::Error::other)?;
        url.limits.read = Some(PATIENCE);
        let mut connection = wire::connect(&url).map_err(io::Error::other)?;
        let mut names = Names::default();
        for sql in ["SET lock_wait_timeout=5", DATABASES, USERS] {
            connection
                .query(sql, Fetch::ALL, &mut names)
                .map_err(io::Error::other)?;
        }
        for name in names.0 {
            // A table that a hanging statement has open stays.
            let _ = connection.query(&format!("DROP {name}"), Fetch::ALL, &mut ());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;
    use crate::fake::{Fakes, Says};

    #[test]
    fn what_harms_the_server_or_asks_for_its_own_state_is_left_out() {
        for sql in [
            "SHUTDOWN",
            "kill 7",
            "SET GLOBAL x = 1",
            "set @@persist.x = 1",
            "show global variables like 'x'",
            "SELECT * FROM performance_schema.threads",
            "delete from mysql.user",
            "REVOKE ALL ON *.* FROM CURRENT_USER()",
            "EXPLAIN FORMAT=TREE ANALYZE SELECT 1",
            "select @@global.datadir",
        ] {
            assert!(LEFT_OUT.is_match(sql), "{sql}");
        }
        for sql in [
            "SET @a = 1",
            "SELECT a FROM t WHERE global = 1",
            "show status like 'Handler%'",
            "create table resets (a int)",
            "explain select 1",
            "ANALYZE TABLE t",
            "grant select on t to one@localhost",
        ] {
            assert!(!LEFT_OUT.is_match(sql), "{sql}");
        }
    }

    #[test]
    fn of_what_reads_the_dictionary_each_step_knows_it() {
        let sent = [
            "SHOW EVENTS",
            "select * from INFORMATION_SCHEMA.tables",
            "select shown from shows",
        ]
        .map(str::to_owned);
        let known = |steps: Vec<Step>| -> Vec<bool> {
            let asked = steps
                .iter()
                .filter(|step| !matches!(step.what, What::Close(_)));
            asked.map(|step| step.dictionary).collect()
        };
        assert_eq!(known(as_text(&sent)), [true, true, false]);
        let each = 1 + EXECUTIONS;
        let due = [vec![true; 2 * each], vec![false; each]].concat();
        assert_eq!(known(as_prepared(&sent)), due);
    }

    #[test]
    fn warnings_of_their_moment_are_no_steady_difference() {
        let asked = AtomicU64::new(0);
        let said = |sql: &str, warning: &'static str| match sql.contains("SHOW WARNINGS") {
            true => Says::Row("w", warning),
            false if sql.contains("each") => Says::Error(1),
            false => Says::Fine,
        };
        // Stock does not repeat its own.
        let moment = move |sql: &str| {
            let number = match sql.contains("SHOW WARNINGS") {
                true => asked.fetch_add(1, Ordering::Relaxed),
                false => 0,
            };
            said(sql, ["1", "2"][number as usize % 2])
        };
        let fakes = Fakes::new(moment, move |sql| said(sql, "3"));
        let steps = as_text(&["each".to_owned()]);
        let found = one(&fakes.place, &steps, false).expect("two servers");
        assert_eq!((found.differences.len(), found.counted()), (1, 0));
    }

    #[test]
    fn a_script_says_of_which_client_and_in_which_database_it_ran() {
        let patched = |sql: &str| match sql.contains("differs") {
            true => Says::Error(1),
            false => Says::Fine,
        };
        let fakes = Fakes::new(|_| Says::Fine, patched);
        let place = Place {
            wanted: CLIENTS[4],
            ..fakes.place.clone()
        };
        let steps = as_text(&["nothing", "differs"].map(str::to_owned));
        let found = one(&place, &steps, true).expect("two servers");
        let [difference] = &found.differences[..] else {
            panic!("{:?}", found.differences);
        };
        let [step] = &difference.steps[..] else {
            panic!("{}", difference.script);
        };
        assert_eq!(step.fresh, Some(CLIENTS[4]));
        assert_eq!(step.database.as_deref(), Some("fake"));
    }

    #[test]
    fn a_connection_that_is_lost_when_the_test_runs_again_is_told() {
        let asked = AtomicU64::new(0);
        let patched = move |sql: &str| {
            let number = match sql.contains("each") {
                true => asked.fetch_add(1, Ordering::Relaxed),
                false => return Says::Fine,
            };
            match (number, sql.contains("first")) {
                (0, true) => Says::Error(1),
                (3, false) => Says::HangUp,
                _ => Says::Fine,
            }
        };
        let fakes = Fakes::new(|_| Says::Fine, patched);
        let sent = ["each first", "each other"].map(str::to_owned);
        let found = one(&fakes.place, &as_text(&sent), true).expect("two servers");
        assert_eq!(found.counted(), 1, "{:?}", found.differences);
        assert_eq!(found.differences[1].statement, "each other;");
    }
}
