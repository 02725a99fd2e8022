//! The columns of a result. A statement's are the same at each execution: they are compared as they stand on the wire, and read only
//! where they have changed.

use super::binary::Column;
use super::field::Fields;
use super::packet::Packets;
use crate::{ColumnDefinition, Error, RowSink};

/// Definitions that are longer together are read anew each time, and cannot be told where the server leaves them out, in bytes.
const KEPT_BYTES_MAX: usize = 1 << 20;

/// Column definitions as they came last.
#[derive(Default)]
pub(super) struct Definitions {
    pub(super) columns: Vec<Column>,
    /// Their packets with headers; empty where they are not kept.
    packets: Vec<u8>,
}

impl Definitions {
    /// Read so many definitions.
    pub(super) fn read(
        &mut self,
        packets: &mut Packets,
        count: u16,
        sink: &mut dyn RowSink,
    ) -> Result<(), Error> {
        let is_known = self.columns.len() == usize::from(count);
        if is_known && packets.skip(&self.packets, count) {
            return self.tell(sink);
        }
        self.columns.clear();
        self.packets.clear();
        let mut is_kept = true;
        let wanted = sink.wants_columns();
        for _ in 0..count {
            let packet = packets.read_with_header()?;
            let definition = parse(packet.payload)?;
            self.columns.push(Column::of(&definition));
            if wanted {
                sink.column(&definition);
            }
            is_kept &= self.packets.len() + packet.payload.len() < KEPT_BYTES_MAX;
            if is_kept {
                self.packets.extend_from_slice(&packet.header);
                self.packets.extend_from_slice(packet.payload);
            }
        }
        if !is_kept {
            self.packets = Vec::new();
        }
        Ok(())
    }

    /// Hand on what is known, where the sink wants it.
    ///
    /// # Errors
    /// [`Error::Protocol`] where it was too long to be kept: a result must not look as if it had no columns.
    pub(super) fn tell(&self, sink: &mut dyn RowSink) -> Result<(), Error> {
        if !sink.wants_columns() {
            return Ok(());
        }
        if self.packets.is_empty() && !self.columns.is_empty() {
            return Err(Error::Protocol(format!(
                "the definitions of {} columns take {KEPT_BYTES_MAX} bytes or more: use metadata=on for this statement",
                self.columns.len()
            )));
        }
        let mut rest = self.packets.as_slice();
        while let [low, middle, high, _number, after @ ..] = rest {
            let length = u32::from_le_bytes([*low, *middle, *high, 0]) as usize;
            let (payload, next) = after.split_at(length);
            sink.column(&parse(payload)?);
            rest = next;
        }
        Ok(())
    }
}

/// A column definition packet.
pub(super) fn parse(payload: &[u8]) -> Result<ColumnDefinition<'_>, Error> {
    let mut fields = Fields(payload);
    // Catalog, schema, the table's alias and name.
    for _ in 0..4 {
        fields.text()?;
    }
    let name = fields.text()?;
    // The name in the table, and how long the rest is.
    fields.text()?;
    fields.length()?;
    Ok(ColumnDefinition {
        name,
        collation: fields.u16()?,
        length: fields.u32()?,
        kind: fields.u8()?.into(),
        flags: fields.u16()?,
        decimals: fields.u8()?,
    })
}
