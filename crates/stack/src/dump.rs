//! A trace as JSON, one line for each record.

use std::io::Write;
use std::path::Path;

use serde_json::{Map, Value, json};
use trace::{Begin, Record, TraceReader};
use wire::passive::{Exchange, Kind, ServerError, SessionFacts};

use crate::{names, parameters};

/// Write the lines: what the trace says at its begin, its records in their order, what it says at its end.
///
/// # Errors
/// The trace's ([`trace::TraceError`]) and the system's.
pub fn run(trace: &Path, out: &mut dyn Write) -> anyhow::Result<()> {
    let mut reader = TraceReader::open(trace)?;
    line(out, begin(reader.begin()))?;
    while let Some(read) = reader.next()? {
        line(out, record(&read))?;
    }
    let ending = serde_json::to_value(reader.ending())?;
    line(
        out,
        json!({"record": "end", "whole": !ending.is_null(), "ending": ending}),
    )?;
    out.flush()?;
    Ok(())
}

fn line(out: &mut dyn Write, value: Value) -> anyhow::Result<()> {
    serde_json::to_writer(&mut *out, &value)?;
    out.write_all(b"\n")?;
    Ok(())
}

fn begin(begin: &Begin) -> Value {
    let mut all = json!({"record": "begin", "version": trace::VERSION});
    if let (Value::Object(all), Ok(Value::Object(more))) = (&mut all, serde_json::to_value(begin)) {
        all.extend(more);
    }
    all
}

fn record(record: &Record) -> Value {
    match record {
        Record::Connected {
            connection,
            at_ns,
            joined_late,
        } => json!({
            "record": "connected", "connection": connection, "at_ns": at_ns, "joined_late": joined_late,
        }),
        Record::Session { connection, facts } => session(*connection, facts),
        Record::Exchange {
            connection,
            exchange,
        } => self::exchange(*connection, exchange),
        Record::Gap {
            connection,
            at_ns,
            side,
            bytes,
        } => json!({
            "record": "gap", "connection": connection, "at_ns": at_ns, "side": names::side(*side), "bytes": bytes,
        }),
        Record::Unread {
            connection,
            at_ns,
            why,
        } => json!({
            "record": "unread", "connection": connection, "at_ns": at_ns, "why": why.name(),
        }),
        Record::Closed {
            connection,
            at_ns,
            totals,
        } => json!({
            "record": "closed", "connection": connection, "at_ns": at_ns,
            "bytes_sent": totals.bytes_sent, "bytes_received": totals.bytes_received,
            "unread_bytes": totals.unread, "missing_bytes": totals.missing,
        }),
        Record::Lost { exchanges } => json!({"record": "lost", "exchanges": exchanges}),
    }
}

fn session(connection: u32, facts: &SessionFacts) -> Value {
    let attributes: Map<String, Value> = facts
        .attributes
        .iter()
        .map(|(name, value)| (name.clone(), value.clone().into()))
        .collect();
    json!({
        "record": "session", "connection": connection,
        "server_version": facts.server_version,
        "client": facts.client, "client_version": facts.client_version, "attributes": attributes,
        "tls": facts.tls, "compression": names::compression(facts.compression),
        "joined_late": facts.joined_late, "login_round_trips": facts.login_round_trips,
        "packets_sent": facts.packets_sent, "packets_received": facts.packets_received,
        "bytes_sent": facts.bytes_sent, "bytes_received": facts.bytes_received,
        "began_ns": facts.began_ns, "ready_ns": facts.ready_ns,
        "refused": facts.refused.as_ref().map(error),
    })
}

fn error(error: &ServerError) -> Value {
    json!({"code": error.code, "sqlstate": error.sqlstate})
}

fn exchange(connection: u32, exchange: &Exchange) -> Value {
    let sql = exchange
        .text
        .as_ref()
        .map(|text| String::from_utf8_lossy(&text.bytes).into_owned());
    let is_bulk = exchange.kind == Kind::BulkExecute;
    let parameters = exchange
        .parameters
        .as_ref()
        .map(|all| parameters::json(all, is_bulk));
    json!({
        "record": "exchange", "connection": connection,
        "kind": names::kind(exchange.kind), "verb": exchange.verb.map(names::verb),
        "sql": sql, "sql_bytes": exchange.text.as_ref().map(|text| text.length),
        "parameters": parameters,
        "transaction": exchange.transaction,
        "request_ns": exchange.request_ns, "request_end_ns": exchange.request_end_ns,
        "first_byte_ns": exchange.answer_ns.map(|(first_ns, _)| first_ns),
        "last_byte_ns": exchange.answer_ns.map(|(_, last_ns)| last_ns),
        "round_trips": exchange.round_trips,
        "packets_sent": exchange.packets_sent, "packets_received": exchange.packets_received,
        "bytes_sent": exchange.bytes_sent, "bytes_received": exchange.bytes_received,
        "definition_bytes": exchange.definition_bytes,
        "rows": exchange.rows, "affected": exchange.affected, "warnings": exchange.warnings,
        "fetch_size": exchange.fetch_size, "cursor": exchange.cursor, "early_close": exchange.early_close,
        "statements_in_text": exchange.results,
        "error": exchange.error.as_ref().map(error),
        "in_transaction_after": exchange.in_transaction_after, "autocommit_after": exchange.autocommit_after,
        "no_index_used": exchange.no_index_used, "no_good_index_used": exchange.no_good_index_used,
        "answer": exchange.answer.map(|hash| format!("{hash:016x}")),
        "incomplete": exchange.incomplete,
    })
}
