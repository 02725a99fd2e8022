//! The packets that say how an answer goes on.

use std::io::{Error, ErrorKind};

use crate::answer::{Answer, Kind};

/// The last packet turns out to be of another kind.
pub fn relabel(answer: &mut Answer, kind: Kind) {
    if let Some(last) = answer.packets.last_mut() {
        last.1 = kind;
    }
}

/// The status of an OK packet; its warnings are noted.
pub fn ok_status(answer: &mut Answer, begin: usize) -> u16 {
    let mut at = begin + 1;
    lenenc(&answer.bytes, &mut at);
    lenenc(&answer.bytes, &mut at);
    let Some(found) = answer.bytes.get(at..at + 4) else {
        return 0;
    };
    answer.warnings = u16::from_le_bytes([found[2], found[3]]);
    u16::from_le_bytes([found[0], found[1]])
}

/// The status of an EOF packet; its warnings are noted.
pub fn eof_status(answer: &mut Answer, begin: usize) -> u16 {
    let Some(found) = answer.bytes.get(begin + 1..begin + 5) else {
        return 0;
    };
    answer.warnings = u16::from_le_bytes([found[0], found[1]]);
    u16::from_le_bytes([found[2], found[3]])
}

/// Where the payload of an OK or EOF packet has its status, and where it counts its warnings, in two bytes each.
pub fn status_and_warnings_at(payload: &[u8]) -> Option<(usize, usize)> {
    let (status, warnings) = match (payload.first()?, payload.len()) {
        (0xFE, 5) => (3, 1),
        (0 | 0xFE, _) => {
            let mut status = 1;
            lenenc(payload, &mut status);
            lenenc(payload, &mut status);
            (status, status + 2)
        }
        _ => return None,
    };
    (payload.len() >= status.max(warnings) + 2).then_some((status, warnings))
}

/// A number as the protocol writes lengths; 0 where it is cut off.
pub fn lenenc(bytes: &[u8], at: &mut usize) -> u64 {
    let first = bytes.get(*at).copied().unwrap_or(0);
    *at += 1;
    let width = match first {
        0xFC => 2,
        0xFD => 3,
        0xFE => 8,
        _ => return u64::from(first),
    };
    let mut number = [0; 8];
    if let Some(found) = bytes.get(*at..*at + width) {
        number[..width].copy_from_slice(found);
    }
    *at += width;
    u64::from_le_bytes(number)
}

/// The capabilities of a greeting.
pub fn offered(payload: &[u8]) -> Option<u32> {
    if payload.first() != Some(&10) {
        return None;
    }
    let version = payload.iter().position(|&byte| byte == 0)?;
    let at = version + 1 + 4 + 8 + 1;
    let low = payload.get(at..at + 2)?;
    let high = payload.get(at + 5..at + 7)?;
    Some(u32::from_le_bytes([low[0], low[1], high[0], high[1]]))
}

/// Whether a greeting is MariaDB's.
pub fn is_mariadb(greeting: &[u8]) -> bool {
    greeting.windows(7).any(|part| part == b"MariaDB")
}

/// What was read is not the protocol.
pub fn broken(what: &str) -> Error {
    Error::new(ErrorKind::InvalidData, what.to_owned())
}
