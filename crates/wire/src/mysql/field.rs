//! The parts that payloads are made of.

use crate::Error;

/// Takes a payload apart from its begin.
pub(crate) struct Fields<'a>(pub(crate) &'a [u8]);

impl<'a> Fields<'a> {
    pub(crate) fn bytes(&mut self, count: usize) -> Result<&'a [u8], Error> {
        if count > self.0.len() {
            return Err(Error::Protocol("a packet ends too early".to_owned()));
        }
        let (taken, rest) = self.0.split_at(count);
        self.0 = rest;
        Ok(taken)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        let bytes = self.bytes(N)?;
        Ok(bytes.try_into().expect("as many as asked for"))
    }

    pub(crate) fn u8(&mut self) -> Result<u8, Error> {
        Ok(self.array::<1>()?[0])
    }

    pub(crate) fn u16(&mut self) -> Result<u16, Error> {
        self.array().map(u16::from_le_bytes)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Error> {
        self.array().map(u32::from_le_bytes)
    }

    /// Text up to a zero byte, or to the end.
    pub(crate) fn zero_ended(&mut self) -> &'a [u8] {
        let end = self.0.iter().position(|byte| *byte == 0);
        let text = &self.0[..end.unwrap_or(self.0.len())];
        self.0 = &self.0[end.map_or(self.0.len(), |end| end + 1)..];
        text
    }

    /// A number that says in its first byte how long it is.
    pub(crate) fn length(&mut self) -> Result<u64, Error> {
        match self.u8()? {
            small @ 0..=0xFA => Ok(u64::from(small)),
            0xFC => self.u16().map(u64::from),
            0xFD => {
                let [low, middle, high] = self.array()?;
                Ok(u64::from(u32::from_le_bytes([low, middle, high, 0])))
            }
            0xFE => self.array().map(u64::from_le_bytes),
            other => Err(Error::Protocol(format!("length begins with {other}"))),
        }
    }

    /// Bytes after their length.
    pub(crate) fn text(&mut self) -> Result<&'a [u8], Error> {
        let length = self.length()?;
        self.bytes(usize::try_from(length).unwrap_or(usize::MAX))
    }
}

/// Write a number as [`Fields::length`] reads it.
fn put_length(out: &mut Vec<u8>, length: usize) {
    let bytes = length.to_le_bytes();
    match length {
        0..=0xFA => out.push(bytes[0]),
        0xFB..=0xFFFF => {
            out.push(0xFC);
            out.extend_from_slice(&bytes[..2]);
        }
        0x1_0000..=0xFF_FFFF => {
            out.push(0xFD);
            out.extend_from_slice(&bytes[..3]);
        }
        _ => {
            out.push(0xFE);
            out.extend_from_slice(&bytes);
        }
    }
}

/// Write bytes after their length, which says in its first byte how long it is itself.
pub fn put_text(out: &mut Vec<u8>, text: &[u8]) {
    put_length(out, text.len());
    out.extend_from_slice(text);
}

/// How a statement or a result set ended.
pub(crate) struct End {
    pub(crate) affected: u64,
    pub(crate) last_insert_id: u64,
    pub(crate) status: u16,
    pub(crate) warnings: u16,
}

/// An OK packet, whatever its first byte.
pub(crate) fn end(payload: &[u8]) -> Result<End, Error> {
    let mut fields = Fields(payload);
    fields.u8()?;
    Ok(End {
        affected: fields.length()?,
        last_insert_id: fields.length()?,
        status: fields.u16()?,
        warnings: fields.u16()?,
    })
}

/// An ERR packet as the error that it is.
pub(super) fn refusal(payload: &[u8]) -> Error {
    let mut fields = Fields(payload);
    let Ok((_, code)) = fields.u8().and_then(|head| Ok((head, fields.u16()?))) else {
        return Error::Protocol("an error packet without a number".to_owned());
    };
    let (sqlstate, message) = match fields.0 {
        // Before the login the server leaves the SQLSTATE out.
        [b'#', rest @ ..] if rest.len() >= 5 => rest.split_at(5),
        rest => (b"HY000".as_slice(), rest),
    };
    Error::Server {
        code,
        sqlstate: String::from_utf8_lossy(sqlstate).into_owned(),
        message: String::from_utf8_lossy(message).into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn lengths_come_back(length in any::<usize>()) {
            let mut out = Vec::new();
            put_length(&mut out, length);
            prop_assert_eq!(Fields(&out).length().expect("valid"), length as u64);
        }

        #[test]
        fn garbage_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let _ = end(&bytes);
            let _ = refusal(&bytes);
            let _ = Fields(&bytes).text();
        }
    }
}
