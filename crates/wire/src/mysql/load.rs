//! LOAD DATA LOCAL: rows as lines of text, without statements.

use super::field::refusal;
use super::packet::Packets;
use super::result::settle;
use crate::text::write_line;
use crate::{Error, Value};

/// Lines are sent when they are this long together, in bytes.
const CHUNK_BYTES: usize = 256 * 1024;

/// What servers say that forbid it: command not allowed, disabled on either side (MySQL, MariaDB).
const FORBIDDEN: [u16; 4] = [1148, 3948, 3950, 4166];

/// Send the rows and return how many the server took.
pub(super) fn load(
    packets: &mut Packets,
    table: &str,
    columns: &[&str],
    rows: &mut dyn Iterator<Item = Vec<Value>>,
) -> Result<u64, Error> {
    let names: Vec<String> = columns.iter().copied().map(quoted).collect();
    let table: Vec<String> = table.split('.').map(quoted).collect();
    let sql = format!(
        "LOAD DATA LOCAL INFILE 'rows' INTO TABLE {} CHARACTER SET utf8mb4 FIELDS ESCAPED BY 0x5C ({})",
        table.join("."),
        names.join(", ")
    );
    packets.command(|out| {
        out.push(super::COM_QUERY);
        out.extend_from_slice(sql.as_bytes());
    })?;
    let payload = packets.read()?;
    match payload.first() {
        Some(0xFB) => {}
        Some(0xFF) => return Err(unsupported(refusal(payload))),
        _ => return Err(Error::Protocol("no request for the rows".to_owned())),
    }
    let mut chunk = String::with_capacity(CHUNK_BYTES + 1024);
    let mut has_bytes = false;
    for row in rows {
        has_bytes = row.iter().any(|value| matches!(value, Value::Bytes(_)));
        if has_bytes {
            break;
        }
        write_line(&row, &mut chunk);
        if chunk.len() >= CHUNK_BYTES {
            packets.reply(|out| out.extend_from_slice(chunk.as_bytes()))?;
            chunk.clear();
        }
    }
    if !chunk.is_empty() {
        packets.reply(|out| out.extend_from_slice(chunk.as_bytes()))?;
    }
    packets.reply(|_| {})?;
    let loaded = settle(packets).map_err(unsupported)?;
    match has_bytes {
        true => Err(Error::Unsupported(
            "LOAD DATA LOCAL: bytes in lines of text".to_owned(),
        )),
        false => Ok(loaded),
    }
}

fn quoted(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}

fn unsupported(error: Error) -> Error {
    match error {
        Error::Server { code, message, .. } if FORBIDDEN.contains(&code) => {
            Error::Unsupported(format!("LOAD DATA LOCAL: {message}"))
        }
        other => other,
    }
}
