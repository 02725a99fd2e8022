//! What the server says to a request, up to the point where it waits for the next.

use std::sync::Arc;

use postgres_protocol::message::frontend;

use super::binary::{self, Column};
use super::{channel::Channel, login::Parameters, message};
use crate::{Cell, Done, Error, RowSink, RowsWanted};

/// Where an answer ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Until {
    /// The server is ready: after a simple query or a Sync.
    Ready,
    /// So many commands are complete (or suspended): after a Flush.
    Commands(usize),
}

/// An answer read to its end.
#[derive(Debug, Default)]
pub(super) struct Answer {
    pub(super) done: Done,
    /// The portal has more rows.
    pub(super) suspended: bool,
    /// The server takes the rows of a COPY; nothing else ends the answer before [`Until`].
    pub(super) copying: bool,
    pub(super) parameters: u16,
    pub(super) columns: u16,
    /// Its columns, where they are to be read from their types.
    pub(super) described: Vec<Column>,
}

/// Reads answers, with a row's cells in one place for all rows.
pub(super) struct Reader {
    cells: Vec<Cell<'static>>,
    /// What had to be written as text in a row of binary format.
    text: Vec<u8>,
    /// How the rows of the answer at hand are to be read; `None`: all of them as text.
    pub(super) columns: Option<Arc<[Column]>>,
    /// Whether the columns of a statement that is described are to be read from their types.
    pub(super) binary: bool,
    /// As the last ReadyForQuery said.
    pub(super) in_transaction: bool,
    pub(super) parameters: Parameters,
}

impl Reader {
    pub(super) fn new(parameters: Parameters, binary: bool) -> Self {
        Self {
            cells: Vec::new(),
            text: Vec::new(),
            columns: None,
            binary,
            in_transaction: false,
            parameters,
        }
    }

    /// Read one answer. After a refusal everything up to ReadyForQuery is read too, so that the connection stays usable.
    ///
    /// # Errors
    /// [`Error::Server`], [`Error::Io`], [`Error::Protocol`].
    pub(super) fn read(
        &mut self,
        channel: &mut Channel,
        until: Until,
        wanted: RowsWanted,
        rows: &mut dyn RowSink,
    ) -> Result<Answer, Error> {
        let mut answer = Answer::default();
        let mut commands = 0;
        while until != Until::Commands(commands) && !answer.copying {
            let received = channel.next()?;
            match received.tag {
                message::DATA_ROW => {
                    answer.done.rows += 1;
                    if wanted == RowsWanted::All || answer.done.rows == 1 {
                        self.row(received.body, rows)?;
                    }
                }
                message::COMMAND_COMPLETE => {
                    answer.done.affected += message::affected(received.body);
                    commands += 1;
                }
                message::EMPTY_QUERY => commands += 1,
                message::PORTAL_SUSPENDED => {
                    answer.suspended = true;
                    commands += 1;
                }
                message::PARAMETERS => answer.parameters = message::count(received.body)?,
                message::ROW_DESCRIPTION => {
                    answer.columns = message::count(received.body)?;
                    if self.binary {
                        let types = message::column_types(received.body)?;
                        answer.described = types.into_iter().map(Column::of).collect();
                    }
                }
                message::PARAMETER_STATUS => self.parameters.set(received.body),
                message::COPY_IN => answer.copying = true,
                message::READY => {
                    self.ready(received.body);
                    return Ok(answer);
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
        Ok(answer)
    }

    fn row(&mut self, body: &[u8], rows: &mut dyn RowSink) -> Result<(), Error> {
        // The same allocation for every row, though each row's cells borrow from another message.
        let mut cells: Vec<Cell<'_>> = std::mem::take(&mut self.cells);
        message::row(body, &mut cells)?;
        if let Some(columns) = &self.columns {
            binary::read(columns, &mut cells, &mut self.text)?;
        }
        rows.row(&cells);
        cells.clear();
        self.cells = cells.into_iter().map(|_| Cell::Null).collect();
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
            if received.tag == message::READY {
                self.ready(received.body);
                break;
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
