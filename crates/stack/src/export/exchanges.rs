//! exchanges.parquet: a row an exchange.

use std::path::Path;

use trace::{Begin, Lack};
use wire::passive::{Exchange, Kind};

use super::digests::Digests;
use super::table::{Table, Type, Value};
use crate::names::Named;
use crate::parameters;

const COLUMNS: [(&str, Type); 39] = [
    ("exchange", Type::Int),
    ("connection", Type::Int),
    ("transaction", Type::Int),
    ("kind", Type::Text),
    ("verb", Type::Text),
    ("statement", Type::Text),
    ("digest_text", Type::Text),
    ("sql", Type::Text),
    ("parameters", Type::Text),
    ("request_us", Type::Int),
    ("request_end_us", Type::Int),
    ("first_byte_us", Type::Int),
    ("last_byte_us", Type::Int),
    ("round_trips", Type::Int),
    ("packets_sent", Type::Int),
    ("packets_received", Type::Int),
    ("bytes_sent", Type::Int),
    ("bytes_received", Type::Int),
    ("definition_bytes", Type::Int),
    ("rows", Type::Int),
    ("affected", Type::Int),
    ("warnings", Type::Int),
    ("fetch_size", Type::Int),
    ("cursor", Type::Bool),
    ("early_close", Type::Bool),
    ("statements_in_text", Type::Int),
    ("error_code", Type::Int),
    ("sqlstate", Type::Text),
    ("in_transaction_after", Type::Bool),
    ("autocommit_after", Type::Bool),
    ("no_index_used", Type::Bool),
    ("no_good_index_used", Type::Bool),
    ("answer", Type::Text),
    ("rows_examined", Type::Int),
    ("lock_us", Type::Int),
    ("full_scan", Type::Bool),
    ("sort_rows", Type::Int),
    ("temporary_tables", Type::Int),
    ("temporary_disk_tables", Type::Int),
];

pub(super) struct Exchanges {
    table: Table,
    begin: Begin,
    number: i64,
    digests: Digests,
}

impl Exchanges {
    /// # Errors
    /// The system's, with the file's name.
    pub(super) fn create(path: &Path, begin: &Begin) -> anyhow::Result<Self> {
        Ok(Self {
            table: Table::create(path, &COLUMNS)?,
            begin: begin.clone(),
            number: 0,
            digests: Digests::new(begin.family()),
        })
    }

    /// Add the next exchange.
    ///
    /// # Errors
    /// The system's, with the file's name.
    pub(super) fn add(&mut self, connection: u32, exchange: &Exchange) -> anyhow::Result<()> {
        self.number += 1;
        let number = self.number;
        let digest = self.digests.of(exchange);
        let (statement, digest_text) = digest
            .as_ref()
            .and_then(|digest| digest.digest.clone())
            .unzip();
        let is_bulk = exchange.kind == Kind::BulkExecute;
        let parameters = exchange
            .parameters
            .as_ref()
            .map(|all| parameters::json(all, is_bulk).to_string());
        let us = |ns: u64| Value::count(ns / 1000);
        let error = exchange.error.as_ref();
        // Not every log has it.
        let sqlstate = error
            .map(|error| &error.sqlstate)
            .filter(|sqlstate| !sqlstate.is_empty());
        let counted = exchange.counted.as_deref().copied().unwrap_or_default();
        let has = |lack: Lack, value: Value| match self.begin.lacks(lack) {
            true => Value::Null,
            false => value,
        };
        let row = [
            Value::Int(number),
            Value::Int(connection.into()),
            Value::option(exchange.transaction, Value::count),
            Value::text(exchange.kind.name()),
            Value::option(exchange.verb, |verb| Value::text(verb.name())),
            Value::option(statement, Value::Text),
            Value::option(digest_text, Value::Text),
            Value::option(digest, |digest| Value::Text(digest.sql)),
            Value::option(parameters, Value::text),
            us(exchange.request_ns),
            us(exchange.request_end_ns),
            Value::option(exchange.answer_ns, |(first_ns, _)| us(first_ns)),
            Value::option(exchange.answer_ns, |(_, last_ns)| us(last_ns)),
            has(Lack::RoundTrips, Value::Int(exchange.round_trips.into())),
            has(Lack::Packets, Value::count(exchange.packets_sent)),
            has(Lack::Packets, Value::count(exchange.packets_received)),
            has(Lack::Bytes, Value::count(exchange.bytes_sent)),
            has(Lack::Bytes, Value::count(exchange.bytes_received)),
            has(Lack::Answers, Value::count(exchange.definition_bytes)),
            has(Lack::Rows, Value::count(exchange.rows)),
            has(Lack::Affected, Value::count(exchange.affected)),
            has(Lack::Answers, Value::count(exchange.warnings)),
            Value::option(exchange.fetch_size, Value::count),
            has(Lack::Fetches, Value::Bool(exchange.cursor)),
            has(Lack::Fetches, Value::Bool(exchange.early_close)),
            has(Lack::Answers, Value::Int(exchange.results.into())),
            Value::option(error, |error| Value::Int(error.code.into())),
            Value::option(sqlstate, Value::text),
            Value::option(exchange.in_transaction_after, Value::Bool),
            Value::option(exchange.autocommit_after, Value::Bool),
            has(Lack::Answers, Value::Bool(exchange.no_index_used)),
            has(Lack::Answers, Value::Bool(exchange.no_good_index_used)),
            Value::option(exchange.answer, |hash| Value::text(format!("{hash:016x}"))),
            Value::option(counted.rows_examined, Value::count),
            Value::option(counted.lock_ns, us),
            Value::option(counted.full_scan, Value::Bool),
            Value::option(counted.sort_rows, Value::count),
            Value::option(counted.temporary_tables, Value::count),
            Value::option(counted.temporary_disk_tables, Value::count),
        ];
        debug_assert_eq!(row.len(), COLUMNS.len());
        self.table.add(row)
    }

    /// # Errors
    /// The system's, with the file's name.
    pub(super) fn finish(self) -> anyhow::Result<()> {
        self.table.finish()
    }
}
