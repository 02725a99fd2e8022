//! What the load client has to send for a captured request.

use serde::Serialize;
use wire::passive::{Exchange, Kind, Parameter, ParameterValue, Text, Verb};
use wire::sql::{bind_literals, has_literals, has_secret, positional};
use wire::{Dialect, Family, Value};

use super::about_session;
use super::ways::{Sort, is_several};
use crate::replay::tape::Counts;

/// `PostgreSQL`'s number of the type: its binary form is the bytes themselves.
const BYTEA: u32 = 17;

/// Why a request is not in the trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LeftOut {
    /// Long data, or more than a capture keeps of one request.
    NotCaptured,
    /// The statement was prepared before the capture began.
    UnknownText,
    /// Text that is not UTF-8 where no value stands, or the binary form of one of `PostgreSQL`'s types that is not read.
    Binary,
    /// It switches the database. A connection of a replay runs transactions of several captured ones, and goes itself to where a
    /// statement ran, or stays in the database that it was told.
    Database,
    /// It changes the session: `autocommit` beside other variables, another user.
    Session,
    /// COPY and LOAD DATA.
    Load,
    /// The server refused it, and its transaction went on.
    Refused,
    /// The capture ended, or lost bytes, before its answer was whole.
    Unanswered,
}

impl LeftOut {
    /// In words.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::NotCaptured => "have values that the capture did not keep",
            Self::UnknownText => "were prepared before the capture began",
            Self::Binary => {
                "have text that is not UTF-8, or values of types that import does not read"
            }
            Self::Database => {
                "switch the database: a replay goes there by itself where --server names none"
            }
            Self::Session => "change the session",
            Self::Load => "are COPY or LOAD DATA",
            Self::Refused => "were refused, and their transactions went on",
            Self::Unanswered => "have no whole answer in the capture",
        }
    }
}

/// What is to be sent.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Request {
    Begin,
    Commit,
    Rollback,
    Ping,
    Reset,
    Statement(Sent),
    /// The load client sends it by itself where its options ask for it.
    Implied,
    Leave(LeftOut),
}

/// A statement.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Sent {
    /// With `?` for parameters.
    pub(super) sql: String,
    /// [`super::RecordedStatement::types`].
    pub(super) types: Vec<u32>,
    pub(super) verb: &'static str,
    /// It sets or asks the session.
    pub(super) of_session: bool,
    pub(super) sort: Sort,
    /// One row of values; several of a bulk execution.
    pub(super) rows: Vec<Vec<Value>>,
    pub(super) is_bulk: bool,
    pub(super) counts: Counts,
}

/// What to send for a captured request.
pub(super) fn request(family: Family, exchange: &Exchange) -> Request {
    match asked(family, exchange) {
        Request::Implied => Request::Implied,
        // Nobody knows what came of it.
        _ if exchange.incomplete => Request::Leave(LeftOut::Unanswered),
        asked => asked,
    }
}

fn asked(family: Family, exchange: &Exchange) -> Request {
    match exchange.kind {
        Kind::Query | Kind::Execute | Kind::BulkExecute => {}
        Kind::LongData => return Request::Leave(LeftOut::NotCaptured),
        Kind::Ping if family == Family::Mysql => return Request::Ping,
        Kind::ResetConnection => return Request::Reset,
        Kind::InitDb => return Request::Leave(LeftOut::Database),
        Kind::ChangeUser => return Request::Leave(LeftOut::Session),
        Kind::Copy => return Request::Leave(LeftOut::Load),
        _ => return Request::Implied,
    }
    match exchange.verb {
        Some(Verb::Use) => Request::Leave(LeftOut::Database),
        Some(Verb::Load) => Request::Leave(LeftOut::Load),
        verb if is_several(family, exchange) => several(family, exchange, name(verb)),
        Some(Verb::Set) if says(exchange, ["discard", "all"]) => Request::Reset,
        // As a close of each. Sent, it would take what the replay has prepared.
        Some(Verb::Other) if says(exchange, ["deallocate", "all"]) => Request::Implied,
        Some(Verb::Begin) => Request::Begin,
        Some(Verb::Commit) => Request::Commit,
        Some(Verb::Rollback) => Request::Rollback,
        verb => {
            statement(family, exchange, name(verb)).map_or_else(Request::Leave, Request::Statement)
        }
    }
}

/// Whether a statement has these words alone.
fn says(exchange: &Exchange, words: [&str; 2]) -> bool {
    let text = exchange.text.as_ref().map_or(&[][..], |text| &text.bytes);
    let text = String::from_utf8_lossy(text).to_lowercase();
    about_session::statement(&text).split_whitespace().eq(words)
}

fn statement(family: Family, exchange: &Exchange, verb: &'static str) -> Result<Sent, LeftOut> {
    let text = exchange.text.as_ref().ok_or(LeftOut::UnknownText)?;
    let dialect = dialect(family, exchange);
    let mut text = whole(dialect, text)?;
    if exchange.verb == Some(Verb::Set) {
        let set = utf8(text)?;
        if set.to_ascii_lowercase().contains("autocommit") {
            // A replay's own BEGIN and COMMIT bound its transactions: what stays is the round trip.
            let same = about_session::with_own_autocommit(set).ok_or(LeftOut::Session)?;
            text = same.as_bytes();
        }
    }
    let mut types = Vec::new();
    let (sql, rows) = match &exchange.parameters {
        Some(parameters) if exchange.kind != Kind::Query => {
            if parameters.cut {
                return Err(LeftOut::NotCaptured);
            }
            let text = utf8(text)?;
            let (sql, places) = positional(dialect, text);
            if let Some(row) = parameters.rows.first() {
                types = types_of(family, row, &places);
            }
            let rows = parameters.rows.iter();
            let rows: Result<Vec<_>, _> = rows.map(|row| values(family, row, &places)).collect();
            (sql, rows?)
        }
        _ if takes_parameters(exchange.verb) => {
            let (sql, values) = bind_literals(dialect, text).ok_or(LeftOut::Binary)?;
            (sql, vec![values])
        }
        _ => (utf8(text)?.to_owned(), vec![Vec::new()]),
    };
    Ok(Sent {
        of_session: about_session::is_about_session(exchange.verb, &sql),
        sql,
        verb,
        types,
        sort: Sort::of(family, exchange),
        rows,
        is_bulk: exchange.kind == Kind::BulkExecute,
        counts: counts(exchange),
    })
}

/// Texts of several statements go as they are: what is in the middle of one could end a statement.
fn several(family: Family, exchange: &Exchange, verb: &'static str) -> Request {
    let text = exchange.text.as_ref().ok_or(LeftOut::UnknownText);
    let dialect = dialect(family, exchange);
    match text.and_then(|text| whole(dialect, text)).and_then(utf8) {
        Err(why) => Request::Leave(why),
        Ok(text) => Request::Statement(Sent {
            sql: text.to_owned(),
            types: Vec::new(),
            verb,
            // What stands behind the first one is not looked into.
            of_session: false,
            sort: Sort::Several,
            rows: vec![Vec::new()],
            is_bulk: false,
            counts: counts(exchange),
        }),
    }
}

fn counts(exchange: &Exchange) -> Counts {
    Counts {
        rows: exchange.rows,
        affected: exchange.affected,
    }
}

/// Whether a value in it can be a parameter: SHOW ... LIKE and SET want literals.
fn takes_parameters(verb: Option<Verb>) -> bool {
    matches!(
        verb,
        Some(Verb::Select | Verb::Insert | Verb::Update | Verb::Delete | Verb::Replace)
    )
}

pub(super) fn dialect(family: Family, exchange: &Exchange) -> Dialect {
    Dialect {
        family,
        backslash_escapes: exchange.backslash_escapes,
    }
}

fn whole(dialect: Dialect, text: &Text) -> Result<&[u8], LeftOut> {
    let is_cut = text.bytes.len() as u64 != text.length;
    // A capture masks the literals of a statement that may say a password, numbers in their own length.
    let is_masked = has_secret(&text.bytes) && has_literals(dialect, &text.bytes);
    match is_cut || is_masked {
        true => Err(LeftOut::NotCaptured),
        false => Ok(&text.bytes),
    }
}

fn utf8(text: &[u8]) -> Result<&str, LeftOut> {
    std::str::from_utf8(text).map_err(|_| LeftOut::Binary)
}

/// The types of a row's parameters in the order in which the text has its `?`; empty where none is known. Without them the server works a
/// parameter's type out, and finds text where nothing tells otherwise, as in `CASE a WHEN ? THEN ? END`.
fn types_of(family: Family, row: &[Parameter], places: &[usize]) -> Vec<u32> {
    let one = |place: &usize| row.get(*place).map_or(0, |parameter| own(parameter.kind));
    let types: Vec<_> = match family {
        Family::Postgres => places.iter().map(one).collect(),
        Family::Mysql => Vec::new(),
    };
    match types.iter().all(|kind| *kind == 0) {
        true => Vec::new(),
        false => types,
    }
}

/// None for a type that is not PostgreSQL's own: its oid is another one on another server.
fn own(oid: u32) -> u32 {
    // access/transam.h: FirstNormalObjectId.
    if oid < 16_384 { oid } else { 0 }
}

/// A row's values in the order in which the text has its `?`.
fn values(family: Family, row: &[Parameter], places: &[usize]) -> Result<Vec<Value>, LeftOut> {
    let one = |place: &usize| match row.get(*place) {
        Some(parameter) => value(family, parameter),
        None => Err(LeftOut::NotCaptured),
    };
    places.iter().map(one).collect()
}

fn value(family: Family, parameter: &Parameter) -> Result<Value, LeftOut> {
    Ok(match &parameter.value {
        ParameterValue::Null => Value::Null,
        ParameterValue::Int(number) => Value::Int(*number),
        // MySQL compares a text with a text where it would compare a number with the number that the text begins with.
        ParameterValue::UInt(number) if family == Family::Mysql => Value::UInt(*number),
        ParameterValue::Double(number) if family == Family::Mysql => Value::Double(*number),
        // MySQL makes this double of it.
        ParameterValue::Float(number) if family == Family::Mysql => {
            Value::Double(f64::from(*number))
        }
        ParameterValue::UInt(number) => match i64::try_from(*number) {
            Ok(number) => Value::Int(number),
            Err(_) => Value::Text(number.to_string()),
        },
        ParameterValue::Float(number) => Value::Text(number.to_string()),
        ParameterValue::Double(number) => Value::Text(number.to_string()),
        ParameterValue::Text(bytes) => Value::Text(utf8(bytes)?.to_owned()),
        ParameterValue::Binary(bytes) if family == Family::Mysql || parameter.kind == BYTEA => {
            Value::Bytes(bytes.clone())
        }
        ParameterValue::Binary(_) => return Err(LeftOut::Binary),
        _ => return Err(LeftOut::NotCaptured),
    })
}

fn name(verb: Option<Verb>) -> &'static str {
    match verb {
        Some(Verb::Select) => "select",
        Some(Verb::Insert) => "insert",
        Some(Verb::Update) => "update",
        Some(Verb::Delete) => "delete",
        Some(Verb::Replace) => "replace",
        Some(Verb::Call) => "call",
        Some(Verb::Set) => "set",
        Some(Verb::Show) => "show",
        Some(Verb::Ddl) => "ddl",
        _ => "statement",
    }
}

#[cfg(test)]
mod tests {
    use wire::passive::Kept;

    use super::*;

    #[test]
    fn what_takes_all_prepared_statements_is_no_text() {
        let sent = |sql: &str| {
            let mut exchange = Exchange::new(Kind::Query, 0);
            let family = Family::Postgres;
            exchange.state(family.into(), sql.as_bytes(), None, Kept::BOUNDED);
            request(family, &exchange)
        };
        assert_eq!(sent("DISCARD ALL"), Request::Reset);
        assert_eq!(sent("deallocate  all;"), Request::Implied);
        for text in ["DISCARD PLANS", "DEALLOCATE a"] {
            assert!(matches!(sent(text), Request::Statement(_)), "{text}");
        }
    }

    #[test]
    fn masked_literals_are_no_values() {
        let why = |sql: &str| {
            let mut exchange = Exchange::new(Kind::Query, 0);
            let sent = sql.as_bytes();
            exchange.state(Family::Mysql.into(), sent, None, Kept::BOUNDED);
            match request(Family::Mysql, &exchange) {
                Request::Leave(why) => Some(why),
                _ => None,
            }
        };
        for (sql, expected) in [
            ("SELECT name FROM user WHERE id = 42", None),
            ("SELECT name, password FROM user", None),
            // As long as what the capture has in its place.
            (
                "SELECT name, password FROM user WHERE id = 42",
                Some(LeftOut::NotCaptured),
            ),
            (
                "SELECT password FROM user WHERE name = 'of eighteen bytes'",
                Some(LeftOut::NotCaptured),
            ),
            (
                "SELECT password FROM user LIMIT 1; SELECT 2",
                Some(LeftOut::NotCaptured),
            ),
        ] {
            assert_eq!(why(sql), expected, "{sql}");
        }
    }

    #[test]
    fn a_number_of_mysqls_stays_one() {
        let text = |text: &str| Value::Text(text.to_owned());
        for (value, mysql, postgres) in [
            (
                ParameterValue::Double(10.0),
                Value::Double(10.0),
                text("10"),
            ),
            // The number that the server makes of it.
            (
                ParameterValue::Float(0.1),
                Value::Double(0.100_000_001_490_116_12),
                text("0.1"),
            ),
            (ParameterValue::UInt(5), Value::UInt(5), Value::Int(5)),
            (
                ParameterValue::UInt(u64::MAX),
                Value::UInt(u64::MAX),
                text("18446744073709551615"),
            ),
        ] {
            let parameter = Parameter { kind: 0, value };
            assert_eq!(super::value(Family::Mysql, &parameter), Ok(mysql));
            assert_eq!(super::value(Family::Postgres, &parameter), Ok(postgres));
        }
    }
}
