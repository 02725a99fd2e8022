//! What a trace has, connection by connection.

use std::collections::BTreeMap;

use serde_json::Value;

/// The records of each connection, without their times.
#[derive(Clone)]
pub struct Proxied(pub BTreeMap<u64, Vec<Value>>);

/// A request that changes, reads or bounds a transaction, as opposed to one that prepares or ends.
pub fn is_statement(record: &Value) -> bool {
    record["kind"] == "query" || record["kind"] == "execute"
}

pub fn number(record: &Value, key: &str) -> u64 {
    record[key].as_u64().unwrap_or_default()
}

impl Proxied {
    pub fn new(records: &[Value]) -> Self {
        let mut all: BTreeMap<u64, Vec<Value>> = BTreeMap::new();
        for record in records {
            if let (Some(connection), Some(keys)) =
                (record["connection"].as_u64(), record.as_object())
            {
                let timeless = keys.iter().filter(|(key, _)| !key.ends_with("_ns"));
                let timeless = timeless.map(|(key, value)| (key.clone(), value.clone()));
                let record = Value::Object(timeless.collect());
                all.entry(connection).or_default().push(record);
            }
        }
        Self(all)
    }

    /// All requests of all connections.
    pub fn exchanges(&self) -> impl Iterator<Item = &Value> {
        let all = self.0.values().flatten();
        all.filter(|record| record["record"] == "exchange")
    }

    pub fn requests(&self) -> usize {
        self.exchanges().count()
    }

    /// What a key of all logins and requests adds up to.
    pub fn sum(&self, key: &str) -> u64 {
        let all = self.0.values().flatten();
        let said = all.filter(|each| each["record"] == "session" || each["record"] == "exchange");
        said.map(|record| number(record, key)).sum()
    }

    /// Every connection was seen from its login to its end, and each of its bytes belongs to the login or to a request.
    pub fn is_whole(&self) {
        for (connection, records) in &self.0 {
            let own = Self([(*connection, records.clone())].into());
            let closed = &records[records.len() - 1];
            assert_eq!(closed["record"], "closed", "connection {connection}");
            for way in ["bytes_sent", "bytes_received"] {
                assert_eq!(own.sum(way), number(closed, way), "{way} of {connection}");
            }
            assert_eq!(closed["missing_bytes"], 0);
            let ends = own.exchanges().all(|each| each["incomplete"] == false);
            assert!(ends, "connection {connection}");
        }
    }

    /// What is otherwise in another trace of the same connections, in words.
    pub fn differs_from(&self, other: &Self) -> Vec<String> {
        let mut said = Vec::new();
        if self.0.len() != other.0.len() {
            let (ours, theirs) = (self.0.len(), other.0.len());
            said.push(format!("{ours} connections, {theirs} in the other trace"));
        }
        for (connection, ours) in &self.0 {
            let theirs = other.0.get(connection).map_or(&[][..], Vec::as_slice);
            if ours.len() != theirs.len() {
                let (ours, theirs) = (ours.len(), theirs.len());
                said.push(format!("{connection}: {ours} records, {theirs}"));
            }
            let pairs = ours.iter().zip(theirs);
            let first = pairs.enumerate().find(|(_, (ours, theirs))| ours != theirs);
            if let Some((place, (ours, theirs))) = first {
                said.push(format!("{connection}, record {place}: {ours}\n{theirs}"));
            }
        }
        said
    }

    /// The same, had one of the workload's statements not been seen.
    pub fn without_one(&self, verb: &str) -> Self {
        let mut less = self.clone();
        let (records, place) = less.records_with(|each| each["verb"] == verb && is_statement(each));
        records.remove(place);
        less
    }

    /// The same, had one row not been seen.
    pub fn with_a_row_less(&self) -> Self {
        let mut less = self.clone();
        let (records, place) = less.records_with(|each| {
            let sql = each["sql"].as_str().unwrap_or_default();
            sql.starts_with("SELECT c FROM sbtest1") && number(each, "rows") == 1
        });
        records[place]["rows"] = 0.into();
        less
    }

    /// A record that is so, in the middle of those that are, and what it stands in. Only connections with transactions count: a load
    /// asks the server on others, before and after, and records none of that.
    fn records_with(&mut self, so: impl Fn(&Value) -> bool) -> (&mut Vec<Value>, usize) {
        let works = |records: &[Value]| records.iter().any(|each| each["verb"] == "begin");
        let working = self.0.iter().filter(|(_, records)| works(records));
        let places = working.flat_map(|(connection, records)| {
            let found = records.iter().enumerate().filter(|(_, each)| so(each));
            found.map(|(place, _)| (*connection, place))
        });
        let places: Vec<(u64, usize)> = places.collect();
        let (connection, place) = places[places.len() / 2];
        (self.0.get_mut(&connection).expect("found there"), place)
    }
}
