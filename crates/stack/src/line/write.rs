//! Records as lines.

use trace::Record;
use wire::passive::{Kind, SessionFacts};

use super::{Exchange, Line, Refusal, Session};
use crate::names::Name;
use crate::parameters;

impl From<&Record> for Line {
    fn from(record: &Record) -> Self {
        match record {
            Record::Connected {
                connection,
                at_ns,
                joined_late,
            } => Self::Connected {
                connection: *connection,
                at_ns: *at_ns,
                joined_late: *joined_late,
            },
            Record::Session { connection, facts } => {
                Self::Session(Box::new(session(*connection, facts)))
            }
            Record::Exchange {
                connection,
                exchange,
            } => Self::Exchange(Box::new(self::exchange(*connection, exchange))),
            Record::Gap {
                connection,
                at_ns,
                side,
                bytes,
            } => Self::Gap {
                connection: *connection,
                at_ns: *at_ns,
                side: Name(*side),
                bytes: *bytes,
            },
            Record::Unread {
                connection,
                at_ns,
                why,
            } => Self::Unread {
                connection: *connection,
                at_ns: *at_ns,
                why: Name(*why),
            },
            Record::Closed {
                connection,
                at_ns,
                totals,
            } => Self::Closed {
                connection: *connection,
                at_ns: *at_ns,
                bytes_sent: totals.bytes_sent,
                bytes_received: totals.bytes_received,
                unread_bytes: totals.unread,
                missing_bytes: totals.missing,
            },
            Record::Lost { exchanges } => Self::Lost {
                exchanges: *exchanges,
            },
        }
    }
}

fn session(connection: u32, facts: &SessionFacts) -> Session {
    let attributes = facts.attributes.iter();
    Session {
        connection,
        server_version: facts.server_version.clone(),
        client: facts.client.clone(),
        client_version: facts.client_version.clone(),
        database: facts.database.clone(),
        character_set: facts.character_set.clone(),
        attributes: attributes
            .map(|(name, value)| (name.clone(), value.clone().into()))
            .collect(),
        tls: facts.tls,
        compression: Name(facts.compression),
        joined_late: facts.joined_late,
        login_round_trips: facts.login_round_trips,
        packets_sent: facts.packets_sent,
        packets_received: facts.packets_received,
        bytes_sent: facts.bytes_sent,
        bytes_received: facts.bytes_received,
        began_ns: facts.began_ns,
        ready_ns: facts.ready_ns,
        refused: facts.refused.as_ref().map(Refusal::from),
    }
}

fn exchange(connection: u32, exchange: &wire::passive::Exchange) -> Exchange {
    let text = exchange.text.as_ref();
    let is_bulk = exchange.kind == Kind::BulkExecute;
    let parameters = exchange.parameters.as_ref();
    Exchange {
        connection,
        kind: Name(exchange.kind),
        verb: exchange.verb.map(Name),
        sql: text.map(|text| String::from_utf8_lossy(&text.bytes).into_owned()),
        sql_bytes: text.map(|text| text.length),
        parameters: parameters.map(|all| parameters::json(all, is_bulk)),
        backslash_escapes: exchange.backslash_escapes,
        transaction: exchange.transaction,
        request_ns: exchange.request_ns,
        request_end_ns: exchange.request_end_ns,
        first_byte_ns: exchange.answer_ns.map(|(first_ns, _)| first_ns),
        last_byte_ns: exchange.answer_ns.map(|(_, last_ns)| last_ns),
        round_trips: exchange.round_trips,
        packets_sent: exchange.packets_sent,
        packets_received: exchange.packets_received,
        bytes_sent: exchange.bytes_sent,
        bytes_received: exchange.bytes_received,
        definition_bytes: exchange.definition_bytes,
        rows: exchange.rows,
        affected: exchange.affected,
        warnings: exchange.warnings,
        fetch_size: exchange.fetch_size,
        cursor: exchange.cursor,
        early_close: exchange.early_close,
        statements_in_text: exchange.results,
        error: exchange.error.as_ref().map(Refusal::from),
        in_transaction_after: exchange.in_transaction_after,
        autocommit_after: exchange.autocommit_after,
        no_index_used: exchange.no_index_used,
        no_good_index_used: exchange.no_good_index_used,
        answer: exchange.answer.map(|hash| format!("{hash:016x}")),
        incomplete: exchange.incomplete,
        counted: exchange
            .counted
            .as_deref()
            .copied()
            .unwrap_or_default()
            .into(),
    }
}
