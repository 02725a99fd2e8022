//! The server's messages: whose answers they are.

use super::fields::{Fields, sqlstate};
use super::frames::{Message, Piece};
use super::group::{Answer, Group};
use super::login::LENGTH_MAX;
use super::{LOGIN_BYTES, Out, Phase, Postgres, keep};
use crate::passive::{Exchange, Kind, Observed, ServerError, Verb, Why};
use crate::postgres::message;
use crate::sql::deallocated;
use crate::{Dialect, Family};

const COPY_BOTH: u8 = b'W';
const FUNCTION_RESULT: u8 = b'V';
/// What is kept of other messages than rows: an error's SQLSTATE stands at its begin.
const ANSWER_BYTES: usize = 1024;

impl Postgres {
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
                let is_login = self.phase != Phase::Commands;
                if !is_answer(message.tag) || (is_login && message.length > LENGTH_MAX) {
                    return Err(Why::NotTheProtocol);
                }
                Ok(())
            }
            Piece::Data(data) => {
                match message.tag {
                    message::DATA_ROW if self.phase == Phase::Commands => self.rows.update(data),
                    message::ROW_DESCRIPTION | message::COPY_DATA => {}
                    message::PARAMETERS => keep(&mut self.kept, data, LOGIN_BYTES),
                    _ => keep(&mut self.kept, data, ANSWER_BYTES),
                }
                Ok(())
            }
            Piece::End if self.phase == Phase::Commands => self.answer(message, at_ns, out),
            Piece::End => self.login_answer(message, at_ns, out),
        }
    }

    fn answer(&mut self, message: Message, at_ns: u64, out: Out<'_>) -> Result<(), Why> {
        if message.tag == message::PARAMETER_STATUS {
            self.status_of_parameter();
        }
        let Some(due) = self.due.front().copied() else {
            return self.unasked(message, at_ns, out);
        };
        let Some(group) = self.group(due.group) else {
            return Err(Why::NotTheProtocol);
        };
        group.received(message, at_ns);
        let exchange = &mut group.exchange;
        match message.tag {
            message::PARAMETER_STATUS | message::NOTIFICATION => {}
            message::NOTICE => exchange.warnings += 1,
            message::ERROR => self.refused(due.answer),
            message::READY => return self.ready(due.answer, out),
            message::DATA_ROW => {
                exchange.rows += 1;
                self.rows.update(&message.bytes.to_le_bytes());
            }
            message::ROW_DESCRIPTION | message::NO_DATA => {
                exchange.definition_bytes += message.bytes;
                if due.answer == Answer::Described {
                    self.pop();
                }
            }
            message::PARAMETERS => {
                exchange.definition_bytes += message.bytes;
                self.described();
            }
            message::PARSE_COMPLETE => self.pop_if(due.answer, Answer::Parsed)?,
            message::BIND_COMPLETE => self.pop_if(due.answer, Answer::Bound)?,
            message::CLOSE_COMPLETE => self.pop_if(due.answer, Answer::Closed)?,
            message::COMMAND_COMPLETE => {
                let tag = std::mem::take(&mut self.kept);
                self.completed(due.answer, &tag);
                self.kept = tag;
            }
            message::EMPTY_QUERY => {
                exchange.results += 1;
                self.executed(due.answer);
            }
            message::PORTAL_SUSPENDED => {
                exchange.cursor = true;
                exchange.results += 1;
                let portal = group.portal.clone().unwrap_or_default();
                if let Some(portal) = self.names.portal(&portal) {
                    portal.is_suspended = true;
                }
                self.executed(due.answer);
            }
            message::COPY_IN => {
                exchange.kind = Kind::Copy;
                group.is_copy_in = true;
                self.is_copying = true;
                self.copy_ended = false;
                if due.answer == Answer::Executed {
                    self.forget_syncs();
                }
                self.is_asked = true;
            }
            message::COPY_OUT => exchange.kind = Kind::Copy,
            COPY_BOTH => return Err(Why::Replication),
            message::COPY_DATA | message::COPY_DONE | FUNCTION_RESULT => {}
            _ => return Err(Why::NotTheProtocol),
        }
        self.settle(out);
        Ok(())
    }

    /// The server reads over a Sync that comes before the client's rows have ended: the exchange ends with the one behind them.
    fn forget_syncs(&mut self) {
        let Some(number) = self.due.front().map(|due| due.group) else {
            return;
        };
        let before = self.due.len();
        self.due
            .retain(|due| due.group != number || due.answer != Answer::Ready);
        let forgotten = before - self.due.len();
        if let Some(group) = self.group(number) {
            group.due -= forgotten;
            group.is_synced = false;
            group.is_open = true;
        }
    }

    /// A message that nobody waits for.
    fn unasked(&mut self, message: Message, at_ns: u64, out: Out<'_>) -> Result<(), Why> {
        match message.tag {
            message::NOTICE | message::NOTIFICATION | message::PARAMETER_STATUS => {
                self.unread += message.bytes;
            }
            // The server says why it hangs up.
            message::ERROR => {
                let mut exchange = Exchange::new(Kind::Other, message.began_ns);
                exchange.answer_ns = Some((message.began_ns, at_ns));
                exchange.packets_received = 1;
                exchange.bytes_received = message.bytes;
                exchange.results = 1;
                exchange.error = Some(self.error());
                exchange.in_transaction_after = Some(false);
                self.transactions.place(&mut exchange, None);
                out(Observed::Exchange(Box::new(exchange)));
            }
            _ => return Err(Why::NotTheProtocol),
        }
        Ok(())
    }

    fn error(&self) -> ServerError {
        ServerError {
            code: 0,
            sqlstate: sqlstate(&self.kept),
        }
    }

    /// The answer that is due has come.
    fn pop(&mut self) {
        let Some(due) = self.due.pop_front() else {
            return;
        };
        self.is_copying = false;
        let rows = self.rows.digest();
        let Some(group) = self.group(due.group) else {
            return;
        };
        group.due -= 1;
        if due.answer == Answer::Executed || due.answer == Answer::UntilReady {
            if group.exchange.rows > 0 {
                group.exchange.answer = Some(rows);
            }
            self.rows.reset();
        }
    }

    fn pop_if(&mut self, due: Answer, expected: Answer) -> Result<(), Why> {
        if due != expected {
            return Err(Why::NotTheProtocol);
        }
        self.pop();
        Ok(())
    }

    /// An Execute has ended; a simple query goes on.
    fn executed(&mut self, due: Answer) {
        if due == Answer::Executed {
            self.pop();
        }
        self.is_copying = false;
    }

    fn completed(&mut self, due: Answer, tag: &[u8]) {
        let Some(group) = self.due.front().map(|due| due.group) else {
            return;
        };
        let Some(group) = self.group(group) else {
            return;
        };
        let exchange = &mut group.exchange;
        exchange.results += 1;
        let count = message::affected(tag);
        if exchange.kind == Kind::Copy && !group.is_copy_in {
            exchange.rows += count;
        } else {
            exchange.affected = exchange.affected.saturating_add(count);
        }
        let words = tag.strip_suffix(b"\0").unwrap_or(tag);
        match words {
            b"BEGIN" | b"START TRANSACTION" => exchange.in_transaction_after = Some(true),
            // ROLLBACK TO SAVEPOINT says ROLLBACK, too.
            b"ROLLBACK" if exchange.verb == Some(Verb::Savepoint) => {}
            b"COMMIT" | b"ROLLBACK" => exchange.in_transaction_after = Some(false),
            _ => {}
        }
        let portal = group.portal.clone();
        let is_one = words == b"DEALLOCATE";
        let name = is_one.then(|| deallocated_by(exchange, due)).flatten();
        let prepared = group.prepared;
        match (words, name) {
            (_, Some(name)) => self.names.deallocate(&name, prepared),
            (b"DEALLOCATE ALL" | b"DISCARD ALL", _) => self.names.deallocate_all(prepared),
            _ => {}
        }
        if let Some(portal) = portal.and_then(|name| self.names.portal(&name)) {
            portal.is_suspended = false;
        }
        self.executed(due);
    }

    /// The types of a statement's parameters.
    fn described(&mut self) {
        let kept = std::mem::take(&mut self.kept);
        let mut fields = Fields(&kept);
        let count = fields.u16().unwrap_or(0);
        let types: Vec<u32> = (0..count).map_while(|_| fields.u32()).collect();
        let name = self
            .due
            .front()
            .map(|due| due.group)
            .and_then(|group| self.group(group)?.statement.clone());
        if let Some(statement) = name.and_then(|name| self.names.statement(&name)) {
            statement.types = types;
        }
        self.kept = kept;
    }

    /// An error: of an extended query the server reads over what comes before the next Sync.
    fn refused(&mut self, due: Answer) {
        let error = self.error();
        self.is_copying = false;
        if let Some(group) = self.due.front().map(|due| due.group)
            && let Some(group) = self.group(group)
        {
            group.exchange.results += 1;
            group.exchange.error = Some(error.clone());
            if let Some(parsed) = &mut group.parsed {
                parsed.refused();
            }
        }
        if due == Answer::UntilReady {
            return;
        }
        let mut parsed = Vec::new();
        while let Some(due) = self.due.front().copied() {
            if matches!(due.answer, Answer::Ready | Answer::UntilReady) {
                break;
            }
            self.pop();
            if let Some(group) = self.group(due.group) {
                group.exchange.error.get_or_insert_with(|| error.clone());
                if due.answer == Answer::Parsed {
                    parsed.extend(group.parsed.take());
                }
            }
        }
        // Several may have one name: the last one has it.
        for each in parsed.into_iter().rev() {
            self.names.take_back(each);
        }
        if self.due.is_empty() {
            self.skips = Some(error);
        }
    }

    fn ready(&mut self, due: Answer, out: Out<'_>) -> Result<(), Why> {
        let status = self.kept.first().copied();
        if !matches!(due, Answer::Ready | Answer::UntilReady) {
            return Err(Why::NotTheProtocol);
        }
        let is_open = matches!(status, Some(b'T' | b'E'));
        let early = !is_open && self.names.end_portals();
        let group = self.due.front().map(|due| due.group);
        self.pop();
        if let Some(group) = group.and_then(|group| self.group(group)) {
            group.exchange.in_transaction_after = Some(is_open);
            group.exchange.autocommit_after = Some(true);
            group.exchange.early_close |= early;
            group.is_synced = true;
        }
        self.settle(out);
        Ok(())
    }

    /// Whether a transaction is open behind an exchange of the extended protocol: all up to a Sync are one.
    pub(super) fn transaction_after(&self, group: &Group) -> Option<bool> {
        let exchange = &group.exchange;
        let works = matches!(exchange.kind, Kind::Execute | Kind::Fetch | Kind::Copy)
            && exchange.verb != Some(Verb::Set);
        (!group.is_synced && works && exchange.in_transaction_after.is_none()).then_some(true)
    }
}

/// The name of the prepared statement that was freed by what was answered last.
fn deallocated_by(exchange: &Exchange, due: Answer) -> Option<Vec<u8>> {
    let text = exchange.text.as_ref()?;
    let is_whole = text.length == text.bytes.len() as u64;
    let dialect = Dialect {
        family: Family::Postgres,
        backslash_escapes: exchange.backslash_escapes,
    };
    let number = match due {
        Answer::UntilReady => exchange.results.checked_sub(1)?,
        _ => 0,
    };
    is_whole
        .then(|| deallocated(dialect, &text.bytes, number as usize))
        .flatten()
}

fn is_answer(tag: u8) -> bool {
    matches!(
        tag,
        message::AUTHENTICATION
            | message::BIND_COMPLETE
            | message::CLOSE_COMPLETE
            | message::COMMAND_COMPLETE
            | message::COPY_DATA
            | message::COPY_DONE
            | message::COPY_IN
            | message::COPY_OUT
            | COPY_BOTH
            | message::DATA_ROW
            | message::EMPTY_QUERY
            | message::ERROR
            | message::KEY_DATA
            | message::NO_DATA
            | message::NOTICE
            | message::NOTIFICATION
            | message::PARAMETERS
            | message::PARAMETER_STATUS
            | message::PARSE_COMPLETE
            | message::PORTAL_SUSPENDED
            | message::READY
            | message::ROW_DESCRIPTION
            | FUNCTION_RESULT
            | b'v'
    )
}
