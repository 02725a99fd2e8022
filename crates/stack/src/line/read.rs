//! Lines as records.

use serde_json::Value;
use trace::Record;
use wire::Family;
use wire::passive::{Kept, Kind, SessionFacts, Totals, names_a_user};

use super::{Exchange, Line, Session};
use crate::parameters;

impl Line {
    /// The record of a trace of this family; none of a line that is the trace's begin or end, or says what no record can.
    ///
    /// A line may come from anywhere: what no trace holds, such as a password in a statement, is left out as a capture leaves it out.
    #[must_use]
    pub fn record(self, family: Family) -> Option<Record> {
        Some(match self {
            Self::Begin { .. } | Self::End { .. } => return None,
            Self::Connected {
                connection,
                at_ns,
                joined_late,
            } => Record::Connected {
                connection,
                at_ns,
                joined_late,
            },
            Self::Session(session) => Record::Session {
                connection: session.connection,
                facts: Box::new(facts(*session)?),
            },
            Self::Exchange(line) => Record::Exchange {
                connection: line.connection,
                exchange: Box::new(exchange(*line, family)?),
            },
            Self::Gap {
                connection,
                at_ns,
                side,
                bytes,
            } => Record::Gap {
                connection,
                at_ns,
                side: side.0,
                bytes,
            },
            Self::Unread {
                connection,
                at_ns,
                why,
            } => Record::Unread {
                connection,
                at_ns,
                why: why.0,
            },
            Self::Closed {
                connection,
                at_ns,
                bytes_sent,
                bytes_received,
                unread_bytes,
                missing_bytes,
            } => Record::Closed {
                connection,
                at_ns,
                totals: Totals {
                    bytes_sent,
                    bytes_received,
                    unread: unread_bytes,
                    missing: missing_bytes,
                },
            },
            Self::Lost { exchanges } => Record::Lost { exchanges },
        })
    }
}

fn facts(session: Session) -> Option<SessionFacts> {
    let text = |value: Value| match value {
        Value::String(text) => Some(text),
        _ => None,
    };
    let attributes = session.attributes.into_iter();
    let attributes = attributes
        .filter(|(name, _)| !names_a_user(name))
        .map(|(name, value)| Some((name, text(value)?)));
    Some(SessionFacts {
        server_version: session.server_version,
        client: session.client,
        client_version: session.client_version,
        database: session.database,
        character_set: session.character_set,
        attributes: attributes.collect::<Option<_>>()?,
        tls: session.tls,
        compression: session.compression.0,
        joined_late: session.joined_late,
        login_round_trips: session.login_round_trips,
        packets_sent: session.packets_sent,
        packets_received: session.packets_received,
        bytes_sent: session.bytes_sent,
        bytes_received: session.bytes_received,
        began_ns: session.began_ns,
        ready_ns: session.ready_ns,
        refused: session.refused.map(Into::into),
    })
}

fn exchange(line: Exchange, family: Family) -> Option<wire::passive::Exchange> {
    let kind = line.kind.0;
    let mut exchange = wire::passive::Exchange::new(kind, line.request_ns);
    exchange.backslash_escapes = line.backslash_escapes;
    let is_bulk = kind == Kind::BulkExecute;
    let parameters = line.parameters.as_ref();
    let parameters = parameters.map(|all| parameters::read(all, is_bulk));
    let parameters = match parameters {
        Some(read) => Some(read?),
        None => None,
    };
    match line.sql {
        Some(sql) => {
            let dialect = wire::Dialect {
                family,
                backslash_escapes: line.backslash_escapes,
            };
            exchange.state(dialect, sql.as_bytes(), parameters, Kept::WHOLE);
        }
        None => exchange.parameters = parameters,
    }
    if let (Some(text), Some(length)) = (&mut exchange.text, line.sql_bytes) {
        text.length = length;
    }
    exchange.verb = line.verb.map(|verb| verb.0);
    exchange.request_end_ns = line.request_end_ns;
    exchange.answer_ns = line.first_byte_ns.zip(line.last_byte_ns);
    exchange.transaction = line.transaction;
    exchange.round_trips = line.round_trips;
    exchange.packets_sent = line.packets_sent;
    exchange.packets_received = line.packets_received;
    exchange.bytes_sent = line.bytes_sent;
    exchange.bytes_received = line.bytes_received;
    exchange.definition_bytes = line.definition_bytes;
    exchange.rows = line.rows;
    exchange.affected = line.affected;
    exchange.warnings = line.warnings;
    exchange.fetch_size = line.fetch_size;
    exchange.cursor = line.cursor;
    exchange.early_close = line.early_close;
    exchange.results = line.statements_in_text;
    exchange.error = line.error.map(Into::into);
    exchange.in_transaction_after = line.in_transaction_after;
    exchange.autocommit_after = line.autocommit_after;
    exchange.no_index_used = line.no_index_used;
    exchange.no_good_index_used = line.no_good_index_used;
    if let Some(digits) = line.answer {
        exchange.answer = Some(u64::from_str_radix(&digits, 16).ok()?);
    }
    exchange.incomplete = line.incomplete;
    exchange.counted = wire::passive::Counted::from(line.counted).known();
    Some(exchange)
}
