//! COPY FROM STDIN.

use postgres_protocol::message::frontend::{self, CopyData};

use super::{Postgres, answer::Until};
use crate::{Error, RowsWanted, Value, text::plain};

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
        let answer = self.answer(Until::Ready, RowsWanted::All, &mut ())?;
        if !answer.copying {
            return Err(Error::Protocol("COPY without copying".to_owned()));
        }
        let mut lines = String::with_capacity(CHUNK_BYTES + 1024);
        for row in rows {
            write_row(&row, &mut lines);
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
        let answer = self.answer(Until::Ready, RowsWanted::All, &mut ())?;
        Ok(answer.done.affected)
    }

    /// End a COPY that was not asked for here; why it is refused, or what broke.
    pub(super) fn refuse_copy(&mut self, why: &str) -> Error {
        let ended = self
            .channel
            .put(|out| frontend::copy_fail(why, out))
            .and_then(|()| self.channel.send())
            .and_then(|()| self.answer(Until::Ready, RowsWanted::All, &mut ()));
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

/// A row of COPY's text format added to `lines`, its line end included.
fn write_row(row: &[Value], lines: &mut String) {
    for (column, value) in row.iter().enumerate() {
        if column > 0 {
            lines.push('\t');
        }
        match value {
            Value::Null => lines.push_str("\\N"),
            Value::Text(characters) => write_escaped(characters, lines),
            value => plain(value, lines),
        }
    }
    lines.push('\n');
}

fn write_escaped(characters: &str, lines: &mut String) {
    for character in characters.chars() {
        match character {
            '\\' => lines.push_str("\\\\"),
            '\t' => lines.push_str("\\t"),
            '\n' => lines.push_str("\\n"),
            '\r' => lines.push_str("\\r"),
            character => lines.push(character),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copied_row_escapes_what_separates() {
        let mut line = String::new();
        let row = [
            Value::Text("a\tb\\\n".to_owned()),
            Value::Null,
            Value::Int(-3),
        ];
        write_row(&row, &mut line);
        assert_eq!(line, "a\\tb\\\\\\n\t\\N\t-3\n");
    }
}
