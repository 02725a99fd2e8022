//! A capture of an application's traffic, made into a trace that can be replayed.
//!
//! The way of an import: a capture's [`trace::Record`]s -> [`request`] (what the load client has to send for each) -> [`transactions`]
//! (requests of one connection, put together) -> [`super::TraceWriter`]. The capture is read twice: a trace names its statements first.

mod about_session;
mod databases;
mod request;
#[cfg(test)]
mod tests;
mod transactions;
mod ways;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use trace::{Lack, Record, TraceReader};
use wire::Family;
use wire::passive::Exchange;

use self::databases::Databases;
use self::request::{Request, Sent, request};
use self::transactions::{KINDS, Transactions};
use self::ways::{Sort, Ways};
use super::format::{Ending, Meta, RecordedStatement};
use super::writer::TraceWriter;
use crate::failure::Failure;
use crate::measure::Names;
use crate::session::StatementId;

pub use self::request::LeftOut;

/// A result tells no more statements apart.
const STATEMENTS_MAX: usize = Names::STATEMENTS_MAX;

/// A statement that the trace does not list: the transaction that sent it is lost, and is not written.
const UNLISTED: StatementId = StatementId(u16::MAX);
const _: () = assert!(STATEMENTS_MAX <= UNLISTED.0 as usize);

/// What an import made.
#[derive(Debug)]
pub struct Imported {
    /// Transactions and requests of the trace.
    pub ending: Ending,
    /// Connections that sent them.
    pub connections: u32,
    /// How many connections of the capture were open at the same time, at most.
    pub at_once: u32,
    /// Different statements.
    pub statements: usize,
    /// Requests that a replay cannot send, by reason.
    pub left_out: BTreeMap<LeftOut, u64>,
    /// The capture has its ending, and nothing was lost while it was written.
    pub whole: bool,
}

/// Make the trace `to` of the capture `from`.
///
/// # Errors
/// A file that is no capture, a masked one, one with nothing to replay or with too many different statements; a trace that cannot be
/// written, or that would take the capture's place.
pub fn import(from: &Path, to: &Path) -> anyhow::Result<Imported> {
    if let (Ok(capture), Ok(trace)) = (from.canonicalize(), to.canonicalize())
        && capture == trace
    {
        let message = format!("the trace would overwrite the capture {}", from.display());
        return Err(Failure::new(message, "name another file for the trace").into());
    }
    write(&Known::read(from)?, from, to)
}

/// Make the trace of what a first reading has found: a capture that still runs may have more by now.
fn write(known: &Known, from: &Path, to: &Path) -> anyhow::Result<Imported> {
    let meta = known.meta(from);
    let writer = TraceWriter::create(to, &meta, Arc::new(AtomicBool::new(false)))?;
    let mut left_out = BTreeMap::new();
    let mut capture = open(from)?;
    let pauses = !capture.begin().lacks(Lack::Gaps);
    let mut transactions = Transactions::new(Some(&writer), known.family, pauses);
    let mut databases = Databases::default();
    for _ in 0..known.records {
        let Some(record) = next(&mut capture)? else {
            break;
        };
        match record {
            Record::Session { connection, facts } => databases.logged_in(connection, &facts),
            Record::Exchange {
                connection,
                exchange,
            } => {
                transactions.passed(connection, &exchange);
                let database = databases.of(connection).cloned();
                databases.passed(connection, &exchange);
                let asked = match request(known.family, &exchange) {
                    Request::Leave(why) => {
                        *left_out.entry(why).or_insert(0) += 1;
                        continue;
                    }
                    asked => asked,
                };
                let id_of = |sent: &Sent| known.id_of(sent, database.as_ref());
                if !transactions.take(connection, &exchange, asked, id_of) {
                    *left_out.entry(LeftOut::Refused).or_insert(0) += 1;
                }
            }
            Record::Closed { connection, .. } => {
                transactions.lose(connection);
                databases.closed(connection);
            }
            Record::Unread { connection, .. } | Record::Gap { connection, .. } => {
                transactions.lose(connection);
            }
            Record::Lost { .. } => transactions.lose_all(),
            Record::Connected { .. } => {}
        }
    }
    let put = transactions.finish();
    Ok(Imported {
        ending: writer.finish()?,
        connections: put.connections,
        at_once: known.at_once,
        statements: meta.statements.len(),
        left_out,
        whole: known.whole,
    })
}

/// What a first reading of the capture finds.
struct Known {
    family: Family,
    version: String,
    /// Numbers of statements: one that was sent in two ways or databases is two.
    ids: HashMap<(String, Sort, Option<String>), StatementId>,
    /// In the order of their numbers, with the text as it was sent.
    statements: Vec<(RecordedStatement, Sort, Box<[u8]>)>,
    ways: Ways,
    databases: Databases,
    connections: u32,
    /// Connections that are open, and how many were at most.
    open: u32,
    at_once: u32,
    records: u64,
    /// As [`Imported::whole`].
    whole: bool,
}

impl Known {
    fn read(from: &Path) -> anyhow::Result<Self> {
        let mut capture = open(from)?;
        if capture.begin().masked {
            return Err(Failure::new(
                format!(
                    "{} is masked: its statements have no values",
                    from.display()
                ),
                "capture without --mask what you want to replay",
            )
            .into());
        }
        let mut known = Self {
            family: capture.begin().family(),
            version: String::new(),
            ids: HashMap::new(),
            statements: Vec::new(),
            ways: Ways::default(),
            databases: Databases::default(),
            connections: 0,
            open: 0,
            at_once: 0,
            records: 0,
            whole: false,
        };
        let mut transactions = Transactions::new(None, known.family, false);
        while let Some(record) = next(&mut capture)? {
            known.records += 1;
            match record {
                Record::Session { connection, facts } => {
                    known.databases.logged_in(connection, &facts);
                    if known.version.is_empty() {
                        known.version = facts.server_version;
                    }
                }
                Record::Closed { connection, .. } => {
                    transactions.lose(connection);
                    known.databases.closed(connection);
                    known.open = known.open.saturating_sub(1);
                }
                Record::Unread { connection, .. } | Record::Gap { connection, .. } => {
                    transactions.lose(connection);
                }
                Record::Connected { .. } => {
                    known.connections += 1;
                    known.open += 1;
                    known.at_once = known.at_once.max(known.open);
                }
                Record::Exchange {
                    connection,
                    exchange,
                } => known.add(&mut transactions, connection, &exchange),
                Record::Lost { .. } => transactions.lose_all(),
            }
        }
        known.whole = capture.ending().is_some_and(trace::Ending::is_whole);
        if known.ids.len() > STATEMENTS_MAX {
            let message = format!(
                "{} has {} different statements, and a trace holds {STATEMENTS_MAX}",
                from.display(),
                known.ids.len()
            );
            return Err(Failure::new(message, "capture a shorter time").into());
        }
        known.keep(&transactions.finish().sent);
        if known.ids.is_empty() {
            return Err(Failure::new(
                format!("{} has no statement that can be replayed", from.display()),
                "`upshift stack dump` shows what it has",
            )
            .into());
        }
        Ok(known)
    }

    fn add(&mut self, transactions: &mut Transactions, connection: u32, exchange: &Exchange) {
        self.ways.learn(connection, exchange);
        transactions.passed(connection, exchange);
        let database = self.databases.of(connection).cloned();
        self.databases.passed(connection, exchange);
        let asked = request(self.family, exchange);
        if let (Request::Statement(sent), Some(text)) = (&asked, exchange.text.as_ref()) {
            self.learn(sent, &text.bytes, database.as_ref());
        }
        if !matches!(asked, Request::Leave(_)) {
            let id_of = |sent: &Sent| self.id_of(sent, database.as_ref());
            transactions.take(connection, exchange, asked, id_of);
        }
    }

    fn learn(&mut self, sent: &Sent, text: &[u8], database: Option<&String>) {
        let key = (sent.sql.clone(), sent.sort, database.cloned());
        if self.ids.contains_key(&key) {
            return;
        }
        // One too many is enough to know that there are too many.
        let id = StatementId(u16::try_from(self.ids.len()).unwrap_or(u16::MAX));
        let statement = RecordedStatement {
            name: sent.verb.to_owned(),
            sql: key.0.clone(),
            database: key.2.clone(),
            types: sent.types.clone(),
            first_row: false,
            of_session: sent.of_session,
            way: None,
        };
        self.statements.push((statement, key.1, text.into()));
        self.ids.insert(key, id);
    }

    /// Number and name the statements that a transaction sends, and forget the others: a replay asks its server for all that are listed,
    /// and one that the captured server refused may be no statement at all.
    fn keep(&mut self, sent: &HashSet<StatementId>) {
        let mut numbers = HashMap::new();
        for (number, mut statement) in (0..).zip(std::mem::take(&mut self.statements)) {
            let id = StatementId(number);
            if sent.contains(&id) {
                numbers.insert(id, StatementId(self.statements.len() as u16));
                let recorded = &mut statement.0;
                recorded.name = format!("{}_{}", recorded.name, self.statements.len() + 1);
                self.statements.push(statement);
            }
        }
        self.ids.retain(|_, id| match numbers.get(id) {
            Some(number) => {
                *id = *number;
                true
            }
            None => false,
        });
    }

    fn id_of(&self, sent: &Sent, database: Option<&String>) -> StatementId {
        let key = (sent.sql.clone(), sent.sort, database.cloned());
        self.ids.get(&key).copied().unwrap_or(UNLISTED)
    }

    /// A statement with the way in which the application sent it.
    fn sent(&self, statement: &(RecordedStatement, Sort, Box<[u8]>)) -> RecordedStatement {
        let (statement, sort, text) = statement;
        RecordedStatement {
            way: Some(self.ways.way(*sort, text)),
            ..statement.clone()
        }
    }

    fn meta(&self, from: &Path) -> Meta {
        let name = from.file_stem().unwrap_or_default().to_string_lossy();
        Meta {
            workload: format!("capture {name}"),
            family: match self.family {
                Family::Mysql => "mysql".to_owned(),
                Family::Postgres => "postgres".to_owned(),
            },
            version: self.version.clone(),
            connections: self.connections,
            seed: 0,
            knobs: serde_json::json!({}),
            transactions: KINDS.iter().map(ToString::to_string).collect(),
            statements: self.statements.iter().map(|each| self.sent(each)).collect(),
        }
    }
}

fn open(from: &Path) -> Result<TraceReader, Failure> {
    TraceReader::open(from).map_err(|error| Failure::new(error.message, error.hint))
}

fn next(capture: &mut TraceReader) -> Result<Option<Record>, Failure> {
    capture
        .next()
        .map_err(|error| Failure::new(error.message, error.hint))
}
