//! What the server says to a request, up to the point where it waits for the next.

use std::sync::Arc;

use postgres_protocol::message::frontend;

use super::binary::{self, Column};
use super::{channel::Channel, login::Parameters, message};
use crate::{Cell, Done, Error, RowSink, RowsWanted};

/// Where a reply ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Until {
    /// The server is ready: after a simple query or a Sync.
    Ready,
    /// So many commands are complete (or suspended): after a Flush.
    Commands(usize),
}

/// A reply read to its end.
#[derive(Debug, Default)]
pub(super) struct Reply {
    pub(super) done: Done,
    /// The portal has more rows.
    pub(super) suspended: bool,
    /// The server takes the rows of a COPY; nothing else ends the reply before [`Until`].
    pub(super) copying: bool,
    /// How many a statement takes, where it was described.
    pub(super) parameters: Option<u16>,
    /// The RowDescription of a statement that was described; empty where it has no rows.
    pub(super) description: Vec<u8>,
}

/// Reads replies, with a row's cells in one place for all rows.
pub(super) struct Reader {
    cells: Vec<Cell<'static>>,
    /// What had to be written as text in a row of binary format.
    text: Vec<u8>,
    /// How the rows of the reply at hand are to be read; `None`: all of them as text.
    pub(super) columns: Option<Arc<[Column]>>,
    /// As the last ReadyForQuery said.
    pub(super) in_transaction: bool,
    pub(super) parameters: Parameters,
}

impl Reader {
    pub(super) fn new(parameters: Parameters) -> Self {
        Self {
            cells: Vec::new(),
            text: Vec::new(),
            columns: None,
            in_transaction: false,
            parameters,
        }
    }

    /// Read one reply. After a refusal everything up to ReadyForQuery is read too, so that the connection stays usable.
    ///
    /// # Errors
    /// [`Error::Server`], [`Error::Io`], [`Error::Protocol`].
    pub(super) fn read(
        &mut self,
        channel: &mut Channel,
        until: Until,
        wanted: RowsWanted,
        rows: &mut dyn RowSink,
    ) -> Result<Reply, Error> {
        let mut reply = Reply::default();
        let mut commands = 0;
        while until != Until::Commands(commands) && !reply.copying {
            let bytes_max = channel.limit;
            let received = channel.next()?;
            match received.tag {
                message::DATA_ROW => {
                    reply.done.rows += 1;
                    if wanted == RowsWanted::All || reply.done.rows == 1 {
                        self.row(received.body, bytes_max, rows)?;
                    }
                }
                message::COMMAND_COMPLETE => {
                    let affected = message::affected(received.body);
                    reply.done.affected = reply.done.affected.saturating_add(affected);
                    commands += 1;
                }
                message::EMPTY_QUERY => commands += 1,
                message::PORTAL_SUSPENDED => {
                    reply.suspended = true;
                    commands += 1;
                }
                message::PARAMETERS => reply.parameters = Some(message::count(received.body)?),
                message::ROW_DESCRIPTION if reply.parameters.is_some() => {
                    reply.description = received.body.to_vec();
                }
                message::ROW_DESCRIPTION => message::tell(received.body, rows)?,
                message::NOTICE => reply.done.warnings += 1,
                message::PARAMETER_STATUS => self.parameters.set(received.body),
                message::COPY_IN => reply.copying = true,
                message::READY => {
                    self.ready(received.body);
                    return Ok(reply);
                }
                message::ERROR => {
                    let refused = message::error(received.body);
                    return Err(self.recover(channel, until, refused));
                }
                message::PARSE_COMPLETE
                | message::BIND_COMPLETE
                | message::CLOSE_COMPLETE
                | message::NO_DATA
                | message::COPY_OUT
                | message::COPY_DATA
                | message::COPY_DONE => {}
                tag => return Err(message::unexpected(tag)),
            }
        }
        Ok(reply)
    }

    fn row(&mut self, body: &[u8], bytes_max: usize, rows: &mut dyn RowSink) -> Result<(), Error> {
        let mut cells = Cell::recycled(std::mem::take(&mut self.cells));
        message::row(body, &mut cells)?;
        if let Some(columns) = &self.columns {
            binary::read(columns, &mut cells, &mut self.text, bytes_max)?;
        }
        rows.row(&cells);
        self.cells = Cell::recycled(cells);
        Ok(())
    }

    fn ready(&mut self, body: &[u8]) {
        self.in_transaction = body != b"I";
    }

    /// Read until the server is ready; the refusal, also when the server hangs up after it.
    fn recover(&mut self, channel: &mut Channel, until: Until, refused: Error) -> Error {
        if until != Until::Ready && sync(channel).is_err() {
            return refused;
        }
        while let Ok(received) = channel.next() {
            match received.tag {
                // The refusal ended the transaction that had changed it.
                message::PARAMETER_STATUS => self.parameters.set(received.body),
                message::READY => {
                    self.ready(received.body);
                    break;
                }
                _ => {}
            }
        }
        refused
    }
}

/// End a row of requests that were only flushed.
///
/// # Errors
/// [`Error::Io`].
pub(super) fn sync(channel: &mut Channel) -> Result<(), Error> {
    channel.put(|out| {
        frontend::sync(out);
        Ok(())
    })?;
    channel.send()
}
