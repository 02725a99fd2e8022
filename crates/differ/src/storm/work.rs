//! Connections whose statements check their own answers, one request after the other.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use wire::{Connection, Error, Fetch, ServerUrl, Statement, Value};

use super::may_come::A_STATEMENT;
use super::shared::Shared;
use super::{ACCOUNTS, Chance, EACH, ROWS, Rows, row_of, run_sql};

/// A server that takes no login for so long is lost.
const LOST_AFTER: Duration = Duration::from_secs(5);
const BETWEEN_LOGINS: Duration = Duration::from_millis(30);

const STATEMENTS: [&str; 10] = [
    "SELECT a, s, u FROM storm.kv WHERE k = ?",
    "SELECT a, s, u FROM storm.kv WHERE u = ?",
    "SELECT v FROM storm.parts WHERE x = ? AND y = ? AND z = ?",
    "SELECT COUNT(s) FROM storm.kv WHERE k BETWEEN ? AND ?",
    "SELECT id FROM storm.account WHERE owner = ?",
    "SELECT balance FROM storm.account WHERE id = ? FOR UPDATE",
    "UPDATE storm.account SET balance = balance - ? WHERE id = ?",
    "UPDATE storm.account SET balance = balance + ? WHERE owner = ?",
    "SELECT SUM(balance) FROM storm.account",
    "UPDATE storm.kv SET a = a WHERE k = ?",
];

struct Session {
    connection: Box<dyn Connection>,
    prepared: Vec<Option<Statement>>,
    /// The server's number of the connection.
    id: i64,
}

/// A connection of the thread with this number, by `login`, which hands back the server's number of it, too; None when the storm is over
/// or the server is lost. Nobody knows the number before and can kill it: a login that failed while the server was there is wrong.
pub(super) fn open<T>(
    shared: &Shared<'_>,
    number: usize,
    login: impl Fn() -> Result<(T, i64), Error>,
) -> Option<(T, i64)> {
    let begin = Instant::now();
    let mut failed = None;
    while begin.elapsed() < LOST_AFTER {
        match login() {
            Ok((connection, id)) => {
                if let Some(error) = failed {
                    shared.wrong(format!("a login: {error}"));
                }
                shared.with_numbers(|numbers| numbers.live.insert(number, id));
                return Some((connection, id));
            }
            Err(error) => failed = Some(error),
        }
        if shared.over.load(Ordering::Relaxed) {
            return None;
        }
        std::thread::sleep(BETWEEN_LOGINS);
    }
    shared.note(|found| found.lost = true);
    shared.over.store(true, Ordering::Relaxed);
    None
}

fn login(url: &ServerUrl) -> Result<(Session, i64), Error> {
    let mut connection = wire::connect(url)?;
    run_sql(
        &mut *connection,
        "SET lock_wait_timeout=3, innodb_lock_wait_timeout=2",
    )?;
    let rows = run_sql(&mut *connection, "SELECT CONNECTION_ID()")?;
    let id = number(&rows).ok_or_else(|| Error::Protocol("no CONNECTION_ID()".to_owned()))?;
    let prepared = STATEMENTS.iter().map(|_| None).collect();
    Ok((
        Session {
            connection,
            prepared,
            id,
        },
        id,
    ))
}

pub(super) fn work(shared: &Shared<'_>, url: &ServerUrl, number: usize, seed: u64) {
    let mut chance = Chance(seed);
    while !shared.over.load(Ordering::Relaxed) {
        let Some((mut session, _)) = open(shared, number, || login(url)) else {
            return;
        };
        while !shared.over.load(Ordering::Relaxed) {
            if let Err(error) = one(shared, &mut session, &mut chance) {
                if shared.error(&error, A_STATEMENT, session.id) {
                    shared.note(|found| found.reconnects += 1);
                    break;
                }
                // Whatever was open is rolled back; statements stay prepared.
                let rolled = run_sql(&mut *session.connection, "ROLLBACK");
                if rolled.is_err_and(|error| shared.error(&error, "ROLLBACK", session.id)) {
                    break;
                }
            }
        }
    }
}

/// The first cell of the first row.
fn number(rows: &Rows) -> Option<i64> {
    rows.0.first()?.first()?.as_ref()?.parse().ok()
}

fn ask(
    shared: &Shared<'_>,
    session: &mut Session,
    which: usize,
    values: &[Value],
) -> Result<Rows, Error> {
    if session.prepared[which].is_none() {
        session.prepared[which] = Some(session.connection.prepare(STATEMENTS[which])?);
    }
    let mut rows = Rows::default();
    if let Some(statement) = &session.prepared[which] {
        session
            .connection
            .execute(statement, values, Fetch::ALL, &mut rows)?;
    }
    shared.statements.fetch_add(1, Ordering::Relaxed);
    Ok(rows)
}

fn expect(
    shared: &Shared<'_>,
    what: &str,
    key: &[i64],
    found: Rows,
    due: Vec<Vec<Option<String>>>,
) {
    if found.0 != due {
        shared.wrong(format!("{what} {key:?}: {:?} in place of {due:?}", found.0));
    }
}

fn one(shared: &Shared<'_>, session: &mut Session, chance: &mut Chance) -> Result<(), Error> {
    let some = |texts: Vec<String>| vec![texts.into_iter().map(Some).collect::<Vec<_>>()];
    let choice = chance.below(100);
    match choice {
        0..=59 => {
            // A key beyond the last has no row.
            let key = chance.below(ROWS + 20);
            let by_unique = choice >= 40;
            let value = match (by_unique, chance.below(10)) {
                (false, 0) => Value::Text(key.to_string()),
                (false, _) => Value::Int(key),
                (true, _) => Value::Int(key + 1_000_000),
            };
            let rows = ask(shared, session, usize::from(by_unique), &[value])?;
            let due = if key < ROWS {
                some(row_of(key).to_vec())
            } else {
                Vec::new()
            };
            expect(
                shared,
                STATEMENTS[usize::from(by_unique)],
                &[key],
                rows,
                due,
            );
        }
        60..=69 => {
            let key = chance.below(ROWS + 20);
            let values = [
                Value::Int(key % 7),
                Value::Int(key % 11),
                Value::Text(format!("z{key}")),
            ];
            let rows = ask(shared, session, 2, &values)?;
            let due = if key < ROWS {
                some(vec![key.to_string()])
            } else {
                Vec::new()
            };
            expect(shared, STATEMENTS[2], &[key], rows, due);
        }
        70..=74 => {
            let (from, width) = (chance.below(ROWS - 100), chance.below(100));
            let rows = ask(
                shared,
                session,
                3,
                &[Value::Int(from), Value::Int(from + width)],
            )?;
            expect(
                shared,
                STATEMENTS[3],
                &[from, width],
                rows,
                some(vec![(width + 1).to_string()]),
            );
        }
        75..=79 => {
            let id = chance.below(ACCOUNTS);
            let rows = ask(shared, session, 4, &[Value::Text(format!("owner {id}"))])?;
            expect(
                shared,
                STATEMENTS[4],
                &[id],
                rows,
                some(vec![id.to_string()]),
            );
        }
        80..=83 => {
            let key = chance.below(ROWS);
            ask(shared, session, 9, &[Value::Int(key)])?;
        }
        84..=88 => {
            let rows = ask(shared, session, 8, &[])?;
            expect(
                shared,
                STATEMENTS[8],
                &[],
                rows,
                some(vec![(ACCOUNTS * EACH).to_string()]),
            );
        }
        _ => transfer(shared, session, chance)?,
    }
    Ok(())
}

fn transfer(shared: &Shared<'_>, session: &mut Session, chance: &mut Chance) -> Result<(), Error> {
    let (from, to, amount) = (
        chance.below(ACCOUNTS),
        chance.below(ACCOUNTS),
        chance.below(20),
    );
    if from == to {
        return Ok(());
    }
    run_sql(&mut *session.connection, "START TRANSACTION")?;
    let before = ask(shared, session, 5, &[Value::Int(from)])?;
    ask(shared, session, 6, &[Value::Int(amount), Value::Int(from)])?;
    ask(
        shared,
        session,
        7,
        &[Value::Int(amount), Value::Text(format!("owner {to}"))],
    )?;
    let after = ask(shared, session, 5, &[Value::Int(from)])?;
    let due = number(&before).map(|before| before - amount);
    if due.is_none() || due != number(&after) {
        shared.wrong(format!(
            "account {from} had {:?}, gave {amount}, and has {:?}",
            before.0, after.0
        ));
    }
    // One in ten is undone.
    run_sql(
        &mut *session.connection,
        if chance.below(10) == 0 {
            "ROLLBACK"
        } else {
            "COMMIT"
        },
    )?;
    Ok(())
}
