//! The server's packets: login, and the answer to the first request of the queue.

use super::request::{After, Expect};
use super::{ANSWER_BYTES, Exchange, Kind, Message, Mysql, Out, Phase, Piece, Why, keep, login};
use crate::mysql::field::{End, Fields, end};
use crate::passive::{Compression, Observed, ServerError};

const IN_TRANSACTION: u16 = 0x01;
const AUTOCOMMIT: u16 = 0x02;
const MORE_RESULTS: u16 = 0x08;
const NO_GOOD_INDEX: u16 = 0x10;
const NO_INDEX: u16 = 0x20;
const CURSOR_EXISTS: u16 = 0x40;
const LAST_ROW_SENT: u16 = 0x80;
const NO_BACKSLASH_ESCAPES: u16 = 0x200;

/// Of the handshake.
const VERSION: u8 = 10;
const OK: u8 = 0x00;
const FILE: u8 = 0xFB;
const END: u8 = 0xFE;
const ERROR: u8 = 0xFF;
/// An EOF packet of old: its warnings and status.
const OLD_EOF_BYTES: u64 = 5;
/// MariaDB: no error but news of how far a statement is.
const PROGRESS: u16 = 0xFFFF;

impl Mysql {
    pub(super) fn server_step(
        &mut self,
        piece: Piece<'_>,
        message: Message,
        at_ns: u64,
        out: Out<'_>,
    ) -> Result<(), Why> {
        match piece {
            Piece::Begin => {
                self.kept.clear();
                self.is_row = false;
                Ok(())
            }
            Piece::Data(data) => {
                // The first bytes of the packet.
                let is_first = message.length == data.len() as u64;
                match self.phase {
                    Phase::Greeting if is_first && !matches!(data[0], VERSION | ERROR) => {
                        return Err(Why::NotTheProtocol);
                    }
                    Phase::Commands if is_first => self.answer_begins(data[0], message)?,
                    _ => {}
                }
                if self.is_row {
                    self.rows.update(data);
                } else {
                    keep(&mut self.kept, data, ANSWER_BYTES);
                }
                Ok(())
            }
            Piece::End => match self.phase {
                Phase::Greeting | Phase::Login => self.login_received(message, at_ns, out),
                Phase::Commands => self.answer_ends(message, at_ns, out),
                Phase::Lost => Ok(()),
            },
        }
    }

    fn login_received(&mut self, message: Message, at_ns: u64, out: Out<'_>) -> Result<(), Why> {
        self.facts.packets_received += message.packets;
        self.facts.bytes_received += message.bytes();
        self.facts.login_round_trips += u64::from(std::mem::take(&mut self.is_asked));
        let kept = std::mem::take(&mut self.kept);
        match (self.phase, kept.first()) {
            (_, Some(&ERROR)) => {
                self.facts.refused = error(&kept);
                self.tell(at_ns, out);
            }
            (Phase::Greeting, _) => {
                self.offered = login::greeting(&kept, &mut self.facts)?;
                self.phase = Phase::Login;
            }
            // Anything else is a plugin's.
            (_, Some(&OK)) => {
                self.see(status(&kept, message.length));
                let compression = self.facts.compression;
                self.tell(at_ns, out);
                self.phase = Phase::Commands;
                self.is_packed = compression != Compression::None;
            }
            _ => {}
        }
        self.kept = kept;
        Ok(())
    }

    /// Learn from an end packet what holds for what comes next.
    fn see(&mut self, end: Option<End>) {
        if let Some(end) = end {
            self.backslash_escapes = end.status & NO_BACKSLASH_ESCAPES == 0;
        }
    }

    fn answer_begins(&mut self, first: u8, message: Message) -> Result<(), Why> {
        let Some(request) = self.queue.front_mut() else {
            return Ok(());
        };
        if !self.is_answering && !request.is_over {
            // Where packets are compressed, servers and clients number the ordinary ones by the others.
            let due = request.sequence.wrapping_add(1);
            // An error may come at any time, and the EOF packet that a stream joined late did not wait for.
            let is_late = self.agreed.old_eof.is_none() && first == END;
            let is_due = message.sequence == due || self.is_packed;
            if request.is_whole && !is_due && first != ERROR {
                return if is_late {
                    Ok(())
                } else {
                    Err(Why::NotTheProtocol)
                };
            }
            self.is_answering = true;
            self.is_asked = false;
            self.expect = request.expects()?;
            self.rows.reset();
            request.exchange.answer_ns = Some((message.began_ns, message.began_ns));
            self.held -= request.payload.len();
            request.read(self.backslash_escapes, self.agreed, &mut self.statements);
        } else if message.sequence != self.due && !self.is_packed && first != ERROR {
            return Err(Why::NotTheProtocol);
        }
        let is_last = first == ERROR || (first == END && !message.is_long);
        self.is_row = self.expect == Expect::Rows && !is_last;
        Ok(())
    }

    fn answer_ends(&mut self, message: Message, at_ns: u64, out: Out<'_>) -> Result<(), Why> {
        self.due = message.sequence.wrapping_add(1);
        let kept = std::mem::take(&mut self.kept);
        let ended = match self.is_answering {
            true => self.answer(&kept, message, at_ns),
            false => self.unasked(&kept, message, at_ns, out).map(|()| false),
        };
        self.kept = kept;
        if ended? {
            self.finish(out);
        }
        Ok(())
    }

    /// A packet that nobody waits for: the server says why it hangs up.
    fn unasked(
        &mut self,
        kept: &[u8],
        message: Message,
        at_ns: u64,
        out: Out<'_>,
    ) -> Result<(), Why> {
        let goodbye = match kept.first() {
            Some(&ERROR) => error(kept),
            _ => None,
        };
        let Some(goodbye) = goodbye else {
            // A stream joined late did not wait for it.
            let is_eof = kept.first() == Some(&END) && message.length == OLD_EOF_BYTES;
            if !is_eof || self.agreed.old_eof.is_some() {
                return Err(Why::NotTheProtocol);
            }
            self.agreed.old_eof = Some(true);
            self.unread += message.bytes();
            return Ok(());
        };
        let mut exchange = Exchange::new(Kind::Other, message.began_ns);
        exchange.answer_ns = Some((message.began_ns, at_ns));
        exchange.packets_received = message.packets;
        exchange.bytes_received = message.bytes();
        exchange.results = 1;
        exchange.error = Some(goodbye);
        self.transactions.place(&mut exchange, None);
        out(Observed::Exchange(Box::new(exchange)));
        Ok(())
    }

    /// A packet of the first request's answer; whether it is the last.
    fn answer(&mut self, kept: &[u8], message: Message, at_ns: u64) -> Result<bool, Why> {
        let Some(request) = self.queue.front_mut() else {
            return Ok(false);
        };
        let exchange = &mut request.exchange;
        exchange.packets_received += message.packets;
        exchange.bytes_received += message.bytes();
        exchange.answer_ns = exchange.answer_ns.map(|(first, _)| (first, at_ns));
        if self.is_row {
            exchange.rows += 1;
            self.rows.update(&message.length.to_le_bytes());
            return Ok(false);
        }
        let first = kept.first().copied();
        if first == Some(ERROR) {
            let refusal = error(kept).ok_or(Why::NotTheProtocol)?;
            if refusal.code == PROGRESS {
                return Ok(false);
            }
            exchange.results += 1;
            exchange.error = Some(refusal);
            return Ok(true);
        }
        match self.expect {
            Expect::Result => match first {
                Some(OK) => self.result_ended(kept, message),
                Some(FILE) => {
                    self.expect = Expect::File;
                    self.is_asked = true;
                    Ok(false)
                }
                _ => self.columns(kept, message.length),
            },
            Expect::Rows => self.result_ended(kept, message),
            Expect::Definitions(left, after) => {
                exchange.definition_bytes += message.bytes();
                match left {
                    0 | 1 => self.defined(after),
                    _ => {
                        self.expect = Expect::Definitions(left - 1, after);
                        Ok(false)
                    }
                }
            }
            Expect::EndOfDefinitions(after) => self.end_of_definitions(kept, message, after),
            Expect::Prepared => self.prepared(kept),
            Expect::Login => match first {
                Some(OK) => {
                    self.forget_session(kept, message);
                    Ok(true)
                }
                _ => {
                    self.is_asked = true;
                    Ok(false)
                }
            },
            Expect::File => Err(Why::NotTheProtocol),
            Expect::One => {
                if exchange.kind == Kind::ResetConnection {
                    self.forget_session(kept, message);
                } else if matches!(first, Some(OK | END)) {
                    self.apply(status(kept, message.length));
                }
                if let Some(request) = self.queue.front_mut() {
                    request.exchange.results += 1;
                }
                Ok(true)
            }
        }
    }

    fn forget_session(&mut self, kept: &[u8], message: Message) {
        let had_cursor = self.statements.clear();
        self.apply(status(kept, message.length));
        if let Some(request) = self.queue.front_mut() {
            request.exchange.early_close = had_cursor;
        }
    }

    /// The header of a result with rows.
    fn columns(&mut self, kept: &[u8], length: u64) -> Result<bool, Why> {
        let mut fields = Fields(kept);
        let count = fields.length().map_err(|_| Why::NotTheProtocol)?;
        let announces = self
            .agreed
            .announces_columns
            .unwrap_or(length > (kept.len() - fields.0.len()) as u64);
        let follow = !announces || fields.u8().map_err(|_| Why::NotTheProtocol)? != 0;
        if count == 0 {
            return Err(Why::NotTheProtocol);
        }
        if follow {
            self.expect = Expect::Definitions(count, After::Rows);
            return Ok(false);
        }
        self.defined(After::Rows)
    }

    /// All definitions of a kind were read.
    fn defined(&mut self, after: After) -> Result<bool, Why> {
        match (self.agreed.old_eof, after) {
            (Some(true), _) => self.expect = Expect::EndOfDefinitions(after),
            (Some(false), _) => return Ok(self.go_on(after)),
            // Nobody knows whether an EOF packet follows: the next packet tells, where there is one.
            (None, After::Nothing) => return Ok(true),
            (None, _) => self.expect = Expect::EndOfDefinitions(after),
        }
        Ok(false)
    }

    fn go_on(&mut self, after: After) -> bool {
        match after {
            After::Rows => self.expect = Expect::Rows,
            After::Columns(count) => self.expect = Expect::Definitions(count, After::Nothing),
            After::Nothing => return true,
        }
        false
    }

    fn end_of_definitions(
        &mut self,
        kept: &[u8],
        message: Message,
        after: After,
    ) -> Result<bool, Why> {
        let is_eof = kept.first() == Some(&END) && message.length == OLD_EOF_BYTES;
        match (self.agreed.old_eof, is_eof) {
            (_, true) => {
                self.agreed.old_eof = Some(true);
                let end = status(kept, message.length);
                let opened = end
                    .as_ref()
                    .is_some_and(|end| end.status & CURSOR_EXISTS != 0);
                if after == After::Rows && opened {
                    return self.result_ended(kept, message);
                }
                Ok(self.go_on(after))
            }
            (Some(_), false) => Err(Why::NotTheProtocol),
            (None, false) => {
                self.agreed.old_eof = Some(false);
                let done = self.go_on(after);
                if done {
                    return Ok(true);
                }
                self.reread(kept, message)
            }
        }
    }

    /// The packet was no EOF but what comes behind it: counted already.
    fn reread(&mut self, kept: &[u8], message: Message) -> Result<bool, Why> {
        if self.expect != Expect::Rows {
            if let (Expect::Definitions(left, after), Some(request)) =
                (self.expect, self.queue.front_mut())
            {
                request.exchange.definition_bytes += message.bytes();
                if left <= 1 {
                    return self.defined(after);
                }
                self.expect = Expect::Definitions(left - 1, after);
            }
            return Ok(false);
        }
        if kept.first() == Some(&END) && !message.is_long {
            return self.result_ended(kept, message);
        }
        // Of a longer row only what was kept counts.
        self.rows.update(kept);
        self.rows.update(&message.length.to_le_bytes());
        if let Some(request) = self.queue.front_mut() {
            request.exchange.rows += 1;
        }
        Ok(false)
    }

    fn prepared(&mut self, kept: &[u8]) -> Result<bool, Why> {
        let (Some(request), mut fields) = (self.queue.front(), Fields(kept)) else {
            return Ok(true);
        };
        let mut read = || {
            let first = fields.u8()?;
            let numbers = (fields.u32()?, fields.u16()?, fields.u16()?);
            Ok::<_, crate::Error>((first, numbers))
        };
        let Ok((OK, (id, columns, parameters))) = read() else {
            return Err(Why::NotTheProtocol);
        };
        self.statements.add(id, request.prepared(parameters));
        let follow = kept.get(12).is_none_or(|flag| *flag != 0);
        if !follow {
            return Ok(true);
        }
        let next = match columns {
            0 => After::Nothing,
            count => After::Columns(count.into()),
        };
        if parameters > 0 {
            self.expect = Expect::Definitions(parameters.into(), next);
            return Ok(false);
        }
        Ok(self.go_on(next))
    }

    /// OK, or the end of rows: whether another result follows.
    fn result_ended(&mut self, kept: &[u8], message: Message) -> Result<bool, Why> {
        let end = status(kept, message.length).ok_or(Why::NotTheProtocol)?;
        let status = end.status;
        self.apply(Some(end));
        let Some(request) = self.queue.front_mut() else {
            return Ok(true);
        };
        request.exchange.results += 1;
        let is_fetch = request.exchange.kind == Kind::Fetch;
        let has_rows = status & LAST_ROW_SENT == 0 && (is_fetch || status & CURSOR_EXISTS != 0);
        if let Some(id) = request.statement {
            self.statements.get(id).has_cursor = has_rows;
            if request.exchange.kind == Kind::Execute {
                request.exchange.cursor |= status & CURSOR_EXISTS != 0;
            }
        }
        if status & MORE_RESULTS == 0 {
            return Ok(true);
        }
        self.expect = Expect::Result;
        Ok(false)
    }

    fn apply(&mut self, end: Option<End>) {
        let (Some(end), Some(request)) = (end, self.queue.front_mut()) else {
            return;
        };
        let exchange = &mut request.exchange;
        exchange.affected = exchange.affected.saturating_add(end.affected);
        exchange.warnings = end.warnings.into();
        exchange.in_transaction_after = Some(end.status & IN_TRANSACTION != 0);
        exchange.autocommit_after = Some(end.status & AUTOCOMMIT != 0);
        exchange.no_index_used |= end.status & NO_INDEX != 0;
        exchange.no_good_index_used |= end.status & NO_GOOD_INDEX != 0;
        self.see(Some(end));
    }

    /// The first request's answer is whole.
    fn finish(&mut self, out: Out<'_>) {
        self.is_answering = false;
        if let Some(request) = self.queue.front_mut() {
            if request.exchange.rows > 0 {
                request.exchange.answer = Some(self.rows.digest());
            }
            request.is_over = true;
        }
        self.settle(out);
    }
}

/// An end packet, new or old.
fn status(kept: &[u8], length: u64) -> Option<End> {
    if kept.first() == Some(&END) && length == OLD_EOF_BYTES {
        let mut fields = Fields(&kept[1..]);
        let (warnings, status) = (fields.u16().ok()?, fields.u16().ok()?);
        return Some(End {
            affected: 0,
            last_insert_id: 0,
            status,
            warnings,
        });
    }
    end(kept).ok()
}

fn error(kept: &[u8]) -> Option<ServerError> {
    let mut fields = Fields(kept.get(1..)?);
    let code = fields.u16().ok()?;
    let sqlstate = match fields.0 {
        [b'#', state @ ..] if state.len() >= 5 => String::from_utf8_lossy(&state[..5]).into_owned(),
        // Before the login the server leaves it out.
        _ => "HY000".to_owned(),
    };
    Some(ServerError { code, sqlstate })
}
