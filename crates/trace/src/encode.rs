//! Records as bytes.

use wire::passive::{Compression, Counted, Exchange, Kind, SessionFacts, Side, Totals, Verb, Why};

use crate::bytes::{Bytes, Malformed, put_bytes, put_number, put_option, put_signed};
use crate::values::{parameters, put_parameters};

pub(crate) const TEXT: u8 = 1;
pub(crate) const CONNECTED: u8 = 2;
pub(crate) const SESSION: u8 = 3;
pub(crate) const EXCHANGE: u8 = 4;
pub(crate) const GAP: u8 = 5;
pub(crate) const UNREAD: u8 = 6;
pub(crate) const CLOSED: u8 = 7;
pub(crate) const LOST: u8 = 8;
pub(crate) const FORGET: u8 = 9;

/// In the order of their numbers in a trace, which never change.
const KINDS: [Kind; 16] = [
    Kind::Query,
    Kind::Prepare,
    Kind::Execute,
    Kind::BulkExecute,
    Kind::Fetch,
    Kind::CloseStatement,
    Kind::ResetStatement,
    Kind::LongData,
    Kind::Ping,
    Kind::ResetConnection,
    Kind::ChangeUser,
    Kind::InitDb,
    Kind::Statistics,
    Kind::Quit,
    Kind::Copy,
    Kind::Other,
];
/// The same; a trace has one more than the place, and 0 for none.
const VERBS: [Verb; 17] = [
    Verb::Select,
    Verb::Insert,
    Verb::Update,
    Verb::Delete,
    Verb::Replace,
    Verb::Call,
    Verb::Set,
    Verb::Begin,
    Verb::Commit,
    Verb::Rollback,
    Verb::Savepoint,
    Verb::Show,
    Verb::Explain,
    Verb::Ddl,
    Verb::Load,
    Verb::Use,
    Verb::Other,
];
const WHYS: [Why; 5] = [
    Why::Encrypted,
    Why::Compressed,
    Why::Replication,
    Why::NotTheProtocol,
    Why::TooMuch,
];
const COMPRESSIONS: [Compression; 3] = [Compression::None, Compression::Zlib, Compression::Zstd];

fn number_of<T: PartialEq>(all: &[T], one: &T) -> u8 {
    let place = all.iter().position(|each| each == one);
    u8::try_from(place.expect("every one is listed")).expect("few")
}

fn from_number<T: Copy>(all: &[T], number: u8) -> Result<T, Malformed> {
    all.get(usize::from(number)).copied().ok_or(Malformed)
}

pub(crate) fn put_why(out: &mut Vec<u8>, why: Why) {
    out.push(number_of(&WHYS, &why));
}

pub(crate) fn why(bytes: &mut Bytes<'_>) -> Result<Why, Malformed> {
    from_number(&WHYS, bytes.byte()?)
}

pub(crate) fn put_side(out: &mut Vec<u8>, side: Side) {
    out.push(u8::from(side == Side::Server));
}

pub(crate) fn side(bytes: &mut Bytes<'_>) -> Result<Side, Malformed> {
    Ok(match bytes.flag()? {
        false => Side::Client,
        true => Side::Server,
    })
}

pub(crate) fn put_totals(out: &mut Vec<u8>, totals: &Totals) {
    for number in [
        totals.bytes_sent,
        totals.bytes_received,
        totals.unread,
        totals.missing,
    ] {
        put_number(out, number);
    }
}

pub(crate) fn totals(bytes: &mut Bytes<'_>) -> Result<Totals, Malformed> {
    Ok(Totals {
        bytes_sent: bytes.number()?,
        bytes_received: bytes.number()?,
        unread: bytes.number()?,
        missing: bytes.number()?,
    })
}

fn put_text_option(out: &mut Vec<u8>, text: Option<&String>) {
    out.push(u8::from(text.is_some()));
    if let Some(text) = text {
        put_bytes(out, text.as_bytes());
    }
}

fn text_option(bytes: &mut Bytes<'_>) -> Result<Option<String>, Malformed> {
    bytes.flag()?.then(|| bytes.text()).transpose()
}

/// Times are relative to the trace's begin already.
pub(crate) fn put_session(out: &mut Vec<u8>, facts: &SessionFacts) {
    put_bytes(out, facts.server_version.as_bytes());
    put_text_option(out, facts.client.as_ref());
    put_text_option(out, facts.client_version.as_ref());
    put_text_option(out, facts.database.as_ref());
    put_text_option(out, facts.character_set.as_ref());
    put_number(out, facts.attributes.len() as u64);
    for (name, value) in &facts.attributes {
        put_bytes(out, name.as_bytes());
        put_bytes(out, value.as_bytes());
    }
    out.push(u8::from(facts.tls));
    out.push(number_of(&COMPRESSIONS, &facts.compression));
    out.push(u8::from(facts.joined_late));
    for number in [
        facts.login_round_trips,
        facts.packets_sent,
        facts.packets_received,
        facts.bytes_sent,
        facts.bytes_received,
        facts.began_ns,
        facts.ready_ns,
    ] {
        put_number(out, number);
    }
    put_error(out, facts.refused.as_ref());
}

pub(crate) fn session(bytes: &mut Bytes<'_>) -> Result<SessionFacts, Malformed> {
    let server_version = bytes.text()?;
    let (client, client_version) = (text_option(bytes)?, text_option(bytes)?);
    let (database, character_set) = (text_option(bytes)?, text_option(bytes)?);
    let count = bytes.number()?;
    let attributes = (0..count).map(|_| Ok((bytes.text()?, bytes.text()?)));
    Ok(SessionFacts {
        server_version,
        client,
        client_version,
        database,
        character_set,
        attributes: attributes.collect::<Result<_, _>>()?,
        tls: bytes.flag()?,
        compression: from_number(&COMPRESSIONS, bytes.byte()?)?,
        joined_late: bytes.flag()?,
        login_round_trips: bytes.number()?,
        packets_sent: bytes.number()?,
        packets_received: bytes.number()?,
        bytes_sent: bytes.number()?,
        bytes_received: bytes.number()?,
        began_ns: bytes.number()?,
        ready_ns: bytes.number()?,
        refused: error(bytes)?,
    })
}

type Refusal = wire::passive::ServerError;

fn put_error(out: &mut Vec<u8>, error: Option<&Refusal>) {
    out.push(u8::from(error.is_some()));
    if let Some(error) = error {
        put_number(out, error.code.into());
        put_bytes(out, error.sqlstate.as_bytes());
    }
}

fn error(bytes: &mut Bytes<'_>) -> Result<Option<Refusal>, Malformed> {
    let read = |bytes: &mut Bytes<'_>| {
        Ok(Refusal {
            code: bytes.small()?,
            sqlstate: bytes.text()?,
        })
    };
    bytes.flag()?.then(|| read(bytes)).transpose()
}

/// A reader that knows fewer cannot tell what follows.
const BITS: usize = 13;

/// What an exchange says by single bits, from the lowest on.
fn bits(exchange: &Exchange) -> [bool; BITS] {
    [
        exchange.cursor,
        exchange.early_close,
        exchange.no_index_used,
        exchange.no_good_index_used,
        exchange.backslash_escapes,
        exchange.incomplete,
        exchange.in_transaction_after.is_some(),
        exchange.in_transaction_after == Some(true),
        exchange.autocommit_after.is_some(),
        exchange.autocommit_after == Some(true),
        exchange.answer_ns.is_some(),
        exchange.answer.is_some(),
        exchange.counted.is_some(),
    ]
}

fn put_counted(out: &mut Vec<u8>, counted: &Counted) {
    for number in [
        counted.rows_examined,
        counted.lock_ns,
        counted.full_scan.map(u64::from),
        counted.sort_rows,
        counted.temporary_tables,
        counted.temporary_disk_tables,
    ] {
        put_option(out, number);
    }
}

fn counted(bytes: &mut Bytes<'_>) -> Result<Counted, Malformed> {
    Ok(Counted {
        rows_examined: bytes.option()?,
        lock_ns: bytes.option()?,
        full_scan: match bytes.option()? {
            None => None,
            Some(0) => Some(false),
            Some(1) => Some(true),
            Some(_) => return Err(Malformed),
        },
        sort_rows: bytes.option()?,
        temporary_tables: bytes.option()?,
        temporary_disk_tables: bytes.option()?,
    })
}

/// An exchange: `text` is the number of its text, `base_ns` the time that its own is relative to. All else that is in `exchange`.
pub(crate) fn put_exchange(
    out: &mut Vec<u8>,
    exchange: &Exchange,
    text: Option<u64>,
    base_ns: u64,
) {
    out.push(number_of(&KINDS, &exchange.kind));
    out.push(exchange.verb.map_or(0, |verb| 1 + number_of(&VERBS, &verb)));
    put_option(out, text);
    let bits = bits(exchange);
    let set = bits.iter().enumerate().filter(|(_, bit)| **bit);
    put_number(out, set.map(|(place, _)| 1 << place).sum());
    put_signed(out, exchange.request_ns.wrapping_sub(base_ns) as i64);
    let request_ns = exchange.request_end_ns.wrapping_sub(exchange.request_ns);
    put_signed(out, request_ns as i64);
    if let Some((first_ns, last_ns)) = exchange.answer_ns {
        put_signed(out, first_ns.wrapping_sub(exchange.request_end_ns) as i64);
        put_signed(out, last_ns.wrapping_sub(first_ns) as i64);
    }
    put_option(out, exchange.transaction);
    for number in [
        exchange.round_trips.into(),
        exchange.packets_sent,
        exchange.packets_received,
        exchange.bytes_sent,
        exchange.bytes_received,
        exchange.definition_bytes,
        exchange.rows,
        exchange.affected,
        exchange.warnings,
        exchange.results.into(),
    ] {
        put_number(out, number);
    }
    put_option(out, exchange.fetch_size);
    if let Some(answer) = exchange.answer {
        out.extend_from_slice(&answer.to_le_bytes());
    }
    put_error(out, exchange.error.as_ref());
    out.push(u8::from(exchange.parameters.is_some()));
    if let Some(parameters) = &exchange.parameters {
        put_parameters(out, parameters);
    }
    if let Some(counted) = &exchange.counted {
        put_counted(out, counted);
    }
}

/// An exchange without its text, and the number of that.
pub(crate) fn exchange(
    bytes: &mut Bytes<'_>,
    base_ns: u64,
) -> Result<(Exchange, Option<u64>), Malformed> {
    let kind = from_number(&KINDS, bytes.byte()?)?;
    let verb = bytes.byte()?.checked_sub(1);
    let text = bytes.option()?;
    let set = bytes.number()?;
    if set >> BITS != 0 {
        return Err(Malformed);
    }
    let bit = |place: u32| set & (1 << place) != 0;
    let request_ns = base_ns.wrapping_add(bytes.signed()? as u64);
    let mut exchange = Exchange::new(kind, request_ns);
    exchange.verb = verb.map(|verb| from_number(&VERBS, verb)).transpose()?;
    exchange.request_end_ns = request_ns.wrapping_add(bytes.signed()? as u64);
    if bit(10) {
        let first_ns = exchange.request_end_ns.wrapping_add(bytes.signed()? as u64);
        let last_ns = first_ns.wrapping_add(bytes.signed()? as u64);
        exchange.answer_ns = Some((first_ns, last_ns));
    }
    exchange.cursor = bit(0);
    exchange.early_close = bit(1);
    exchange.no_index_used = bit(2);
    exchange.no_good_index_used = bit(3);
    exchange.backslash_escapes = bit(4);
    exchange.incomplete = bit(5);
    exchange.in_transaction_after = bit(6).then(|| bit(7));
    exchange.autocommit_after = bit(8).then(|| bit(9));
    exchange.transaction = bytes.option()?;
    exchange.round_trips = bytes.small()?;
    exchange.packets_sent = bytes.number()?;
    exchange.packets_received = bytes.number()?;
    exchange.bytes_sent = bytes.number()?;
    exchange.bytes_received = bytes.number()?;
    exchange.definition_bytes = bytes.number()?;
    exchange.rows = bytes.number()?;
    exchange.affected = bytes.number()?;
    exchange.warnings = bytes.number()?;
    exchange.results = bytes.small()?;
    exchange.fetch_size = bytes.option()?;
    if bit(11) {
        exchange.answer = Some(u64::from_le_bytes(bytes.array()?));
    }
    exchange.error = error(bytes)?;
    if bytes.flag()? {
        exchange.parameters = Some(parameters(bytes)?);
    }
    if bit(12) {
        exchange.counted = Some(Box::new(counted(bytes)?));
    }
    Ok((exchange, text))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn garbage_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..96), base_ns: u64) {
            let _ = exchange(&mut Bytes(&bytes), base_ns);
            let _ = session(&mut Bytes(&bytes));
            let _ = parameters(&mut Bytes(&bytes));
        }
    }
}
