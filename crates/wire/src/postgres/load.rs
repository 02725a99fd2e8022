//! COPY FROM STDIN.

use postgres_protocol::message::frontend::{self, CopyData};

use super::{Postgres, reply::Until};
use crate::{Error, RowsWanted, Value, text::write_line};

/// Rows are sent when so much of them waits, in bytes.
const CHUNK_BYTES: usize = 64 * 1024;

impl Postgres {
    /// Fill a table. All rows are sent before the server is heard: after a refusal it throws away the rest of them.
    ///
    /// # Errors
    /// Any [`Error`].
    pub(super) fn copy_in(
        &mut self,
        table: &str,
        columns: &[&str],
        rows: &mut dyn Iterator<Item = Vec<Value>>,
    ) -> Result<u64, Error> {
        let sql = format!("COPY {table} ({}) FROM STDIN", columns.join(", "));
        self.channel.put(|out| frontend::query(&sql, out))?;
        self.channel.send()?;
        let reply = self.reply(Until::Ready, RowsWanted::All, &mut ())?;
        if !reply.copying {
            return Err(Error::Protocol("COPY without copying".to_owned()));
        }
        let mut lines = String::with_capacity(CHUNK_BYTES + 1024);
        for row in rows {
            write_line(&row, &mut lines);
            if lines.len() >= CHUNK_BYTES {
                self.send_lines(&mut lines)?;
            }
        }
        if !lines.is_empty() {
            self.send_lines(&mut lines)?;
        }
        self.channel.put(|out| {
            frontend::copy_done(out);
            Ok(())
        })?;
        self.channel.send()?;
        let reply = self.reply(Until::Ready, RowsWanted::All, &mut ())?;
        Ok(reply.done.affected)
    }

    /// End a COPY that was not asked for here; why it is refused, or what broke. While rows are due the server ignores a Sync, so that a
    /// statement of the extended protocol needs one more.
    pub(super) fn refuse_copy(&mut self, is_extended: bool) -> Error {
        let why = "COPY FROM STDIN as a statement: use load";
        let ended = self
            .channel
            .put(|out| {
                frontend::copy_fail(why, out)?;
                if is_extended {
                    frontend::sync(out);
                }
                Ok(())
            })
            .and_then(|()| self.channel.send())
            .and_then(|()| self.reply(Until::Ready, RowsWanted::All, &mut ()));
        match ended {
            Err(error) if error.is_disconnect() => error,
            _ => Error::Unsupported(why.to_owned()),
        }
    }

    fn send_lines(&mut self, lines: &mut String) -> Result<(), Error> {
        self.channel.put(|out| {
            CopyData::new(lines.as_bytes())?.write(out);
            Ok(())
        })?;
        lines.clear();
        self.channel.send()
    }
}
