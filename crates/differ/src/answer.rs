//! What a server answers, packet by packet, as it stands on the wire.

/// What a packet is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// OK, or the packet that ends rows.
    End,
    /// ERR.
    Error,
    /// The number of columns.
    Count,
    /// A column or a parameter.
    Definition,
    /// A row.
    Row,
    /// The first packet that answers COM_STMT_PREPARE.
    Prepared,
    /// The request for a file.
    File,
}

/// The server's packets, each with its header.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Answer {
    /// All of them.
    pub bytes: Vec<u8>,
    /// Where each ends, and what it is.
    pub packets: Vec<(usize, Kind)>,
    /// Warnings, as the last packet counts them.
    pub warnings: u16,
    /// The server's error number; 0 without one.
    pub error: u16,
    /// Of all results.
    pub rows: u64,
}

impl Answer {
    /// Forget all.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.packets.clear();
        (self.warnings, self.error, self.rows) = (0, 0, 0);
    }

    /// Each packet: what it is, and its bytes, header first.
    pub fn each(&self) -> impl Iterator<Item = (Kind, &[u8])> {
        let begins = std::iter::once(0).chain(self.packets.iter().map(|&(end, _)| end));
        begins
            .zip(&self.packets)
            .map(|(begin, &(end, kind))| (kind, &self.bytes[begin..end]))
    }
}

/// A packet for a reader, who needs no more than its begin.
#[must_use]
pub fn shown(kind: Kind, packet: &[u8]) -> String {
    text(kind, packet, 200)
}

/// So many bytes of a packet as text; an error has all of its own.
#[must_use]
pub fn text(kind: Kind, packet: &[u8], bytes_max: usize) -> String {
    let payload = packet.get(4..).unwrap_or_default();
    if kind == Kind::Error && payload.len() > 3 {
        let code = u16::from_le_bytes([payload[1], payload[2]]);
        return format!("error {code} {}", String::from_utf8_lossy(&payload[3..]));
    }
    let text: String = payload
        .iter()
        .take(bytes_max)
        .map(|&byte| match byte {
            b'\\' => "\\\\".to_owned(),
            0x20..=0x7E => char::from(byte).to_string(),
            _ => format!("\\x{byte:02x}"),
        })
        .collect();
    let number = packet.get(3).copied().unwrap_or_default();
    format!("{kind:?} number {number}: {text}")
}
