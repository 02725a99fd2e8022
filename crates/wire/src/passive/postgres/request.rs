//! The client's messages: which exchange each belongs to.

use super::fields::{Fields, MADE_BYTES_MAX, parameters};
use super::frames::{Message, Piece};
use super::group::{Answer, Due, Group};
use super::names::{Portal, Statement};
use super::{GROUPS_MAX, HELD_BYTES_MAX, Out, Postgres, keep};
use crate::passive::mysql::{PARAMETERS_BYTES_MAX, TEXT_BYTES_MAX};
use crate::passive::{Kind, Parameters, Text, Why};
use crate::sql::verb;
use crate::{Dialect, Family};

/// A message's tag and length.
const HEAD_BYTES: u64 = 5;
/// What names may add to what is kept, in bytes.
const NAME_BYTES: usize = 1024;

const QUERY: u8 = b'Q';
const PARSE: u8 = b'P';
const BIND: u8 = b'B';
const DESCRIBE: u8 = b'D';
const EXECUTE: u8 = b'E';
const CLOSE: u8 = b'C';
const SYNC: u8 = b'S';
const FLUSH: u8 = b'H';
const FUNCTION: u8 = b'F';
const TERMINATE: u8 = b'X';
const COPY_DATA: u8 = b'd';
const COPY_DONE: u8 = b'c';
const COPY_FAIL: u8 = b'f';

impl Postgres {
    pub(super) fn request_step(
        &mut self,
        piece: Piece<'_>,
        message: Message,
        at_ns: u64,
        out: Out<'_>,
    ) -> Result<(), Why> {
        match piece {
            Piece::Begin => {
                self.sent.clear();
                self.request_begins(message.tag)
            }
            Piece::Data(data) => {
                let most = match message.tag {
                    _ if self.held > HELD_BYTES_MAX => NAME_BYTES,
                    QUERY | PARSE => TEXT_BYTES_MAX + NAME_BYTES,
                    BIND => PARAMETERS_BYTES_MAX + NAME_BYTES,
                    DESCRIBE | EXECUTE | CLOSE => NAME_BYTES,
                    _ => 0,
                };
                // Once a part was left out, so is what follows: a hole would end a literal elsewhere.
                let before = message.bytes - HEAD_BYTES - data.len() as u64;
                if self.sent.len() as u64 == before {
                    keep(&mut self.sent, data, most);
                }
                Ok(())
            }
            Piece::End => {
                let sent = std::mem::take(&mut self.sent);
                self.request(&sent, message, at_ns);
                self.sent = sent;
                self.settle(out);
                Ok(())
            }
        }
    }

    fn request_begins(&mut self, tag: u8) -> Result<(), Why> {
        if !is_request(tag) {
            return Err(Why::NotTheProtocol);
        }
        if self.groups.len() >= GROUPS_MAX || self.due.len() >= 8 * GROUPS_MAX {
            return Err(Why::TooMuch);
        }
        if matches!(tag, COPY_DATA | COPY_DONE | COPY_FAIL) {
            let is_asked = self.is_copying && std::mem::take(&mut self.is_asked);
            if let (true, Some(group)) = (is_asked, self.groups.front_mut()) {
                group.exchange.round_trips += 1;
            }
        }
        Ok(())
    }

    fn request(&mut self, sent: &[u8], message: Message, at_ns: u64) {
        let mut fields = Fields(sent);
        // Length of the body, of which `sent` is the first part.
        let length = message.bytes - HEAD_BYTES;
        match message.tag {
            QUERY => {
                let kept = sent.strip_suffix(b"\0").unwrap_or(sent);
                self.begin(Kind::Query, message);
                self.text(kept, length.saturating_sub(1));
                self.wait(Answer::UntilReady);
                self.close_last();
            }
            FUNCTION => {
                self.begin(Kind::Other, message);
                self.wait(Answer::UntilReady);
                self.close_last();
            }
            PARSE | BIND | EXECUTE | CLOSE => self.extended(fields, message, length),
            DESCRIBE => {
                let what = fields.u8();
                let name = fields.text().unwrap_or_default();
                if !self.groups.back().is_some_and(|group| group.is_open) {
                    self.begin(Kind::Other, message);
                }
                if let (Some(b'S'), Some(group)) = (what, self.groups.back_mut()) {
                    group.statement = Some(name.to_vec());
                }
                self.wait(Answer::Described);
            }
            SYNC => {
                if !self.groups.back().is_some_and(|group| group.is_open) {
                    let ends = std::mem::take(&mut self.is_extended);
                    self.begin(if ends { Kind::Other } else { Kind::Ping }, message);
                }
                self.is_extended = false;
                // What follows is answered again.
                self.skips = None;
                if !self.is_copying || self.copy_ended {
                    self.wait(Answer::Ready);
                    if let Some(group) = self.groups.back_mut() {
                        group.is_synced = true;
                    }
                }
            }
            FLUSH => {
                if self.groups.is_empty() {
                    self.begin(Kind::Other, message);
                }
            }
            TERMINATE => {
                self.begin(Kind::Quit, message);
                self.close_last();
            }
            // COPY's rows belong to the exchange that asked for them.
            _ => {
                self.copy_ended |= message.tag != COPY_DATA;
                match self.groups.front_mut() {
                    Some(group) => group.sent(message, at_ns),
                    // Sent before the client has heard that its COPY has failed.
                    None => self.unread += message.bytes,
                }
                return;
            }
        }
        if let Some(group) = self.groups.back_mut() {
            group.sent(message, at_ns);
            if matches!(message.tag, SYNC | FLUSH) {
                group.is_open = false;
            }
        }
    }

    fn extended(&mut self, fields: Fields<'_>, message: Message, length: u64) {
        self.is_extended = true;
        match message.tag {
            PARSE => self.parse(fields, message, length),
            BIND => self.bind(fields, message),
            EXECUTE => self.execute(fields, message),
            _ => self.close(fields, message),
        }
    }

    /// Begin an exchange. The one before is closed to further messages.
    fn begin(&mut self, kind: Kind, message: Message) {
        self.close_last();
        let mut group = Group::new(kind, message, self.names.added);
        group.exchange.backslash_escapes = self.backslash_escapes;
        // The answer to the one before has not begun.
        let mut before = self.groups.iter().rev();
        let waits = before.find(|group| group.due > 0);
        let shares = waits.is_some_and(|group| group.exchange.answer_ns.is_none());
        group.exchange.round_trips = u32::from(!shares && kind != Kind::Quit);
        self.groups.push_back(group);
    }

    fn close_last(&mut self) {
        if let Some(group) = self.groups.back_mut() {
            group.is_open = false;
        }
    }

    /// The last group waits for this.
    fn wait(&mut self, answer: Answer) {
        let number = self.first + self.groups.len() as u64;
        let Some(group) = self.groups.back_mut() else {
            return;
        };
        if let (Some(error), false) = (&self.skips, answer == Answer::Ready) {
            // The server reads over it.
            group.exchange.error.get_or_insert_with(|| error.clone());
            return;
        }
        group.due += 1;
        self.due.push_back(Due {
            answer,
            group: number - 1,
        });
    }

    /// A text for the last group; whether it has a secret.
    fn text(&mut self, kept: &[u8], length: u64) -> bool {
        let dialect = Dialect {
            family: Family::Postgres,
            backslash_escapes: self.backslash_escapes,
        };
        let kept = &kept[..kept.len().min(TEXT_BYTES_MAX)];
        let (text, is_secret) = Text::of(dialect, kept, length);
        if let Some(group) = self.groups.back_mut() {
            group.exchange.verb = Some(verb(dialect, kept));
            group.held += text.bytes.len();
            self.held += text.bytes.len();
            group.exchange.text = Some(text);
        }
        is_secret
    }

    fn parse(&mut self, mut fields: Fields<'_>, message: Message, length: u64) {
        self.begin(Kind::Prepare, message);
        self.wait(Answer::Parsed);
        let Some(name) = fields.text() else {
            return;
        };
        let before = name.len() as u64 + 1;
        // A long one was cut before its end.
        let mut rest = fields;
        let (sql, types) = match rest.text() {
            Some(sql) => (sql, rest),
            None => (fields.0, Fields(&[])),
        };
        let length = match types.0 {
            [] if sql.len() == fields.0.len() => length.saturating_sub(before),
            _ => sql.len() as u64,
        };
        let is_secret = self.text(sql, length);
        let mut types = types;
        let count = types.u16().unwrap_or(0);
        let types = (0..count).map_while(|_| types.u32()).collect();
        if let Some(group) = self.groups.back_mut() {
            group.statement = Some(name.to_vec());
            let statement = Statement {
                text: group.exchange.text.clone(),
                verb: group.exchange.verb,
                is_secret,
                types,
                ..Statement::default()
            };
            // What the server reads over, it does not prepare.
            if self.skips.is_none() {
                group.parsed = Some(self.names.parse(name, statement));
            }
        }
    }

    fn bind(&mut self, mut fields: Fields<'_>, message: Message) {
        self.begin(Kind::Execute, message);
        self.wait(Answer::Bound);
        let (Some(portal), Some(name)) = (fields.text(), fields.text()) else {
            return;
        };
        let statement = self.names.statement(name).cloned();
        // Nobody knows what one is about that was prepared before.
        let is_secret = statement.as_ref().is_none_or(|known| known.is_secret);
        let statement = statement.unwrap_or_default();
        let replaces = self.names.add_portal(
            portal,
            Portal {
                text: statement.text.clone(),
                verb: statement.verb,
                ..Portal::default()
            },
        );
        let Some(group) = self.groups.back_mut() else {
            return;
        };
        let made_bytes = HELD_BYTES_MAX.saturating_sub(self.held).min(MADE_BYTES_MAX);
        let parameters = parameters(fields, &statement.types, is_secret, made_bytes);
        let held = parameters.as_ref().map_or(0, Parameters::bytes);
        let held = held.max(fields.0.len());
        group.held += held;
        self.held += held;
        group.portal = Some(portal.to_vec());
        group.exchange.early_close = replaces;
        group.exchange.parameters = parameters;
        group.exchange.text = statement.text;
        group.exchange.verb = statement.verb;
    }

    fn execute(&mut self, mut fields: Fields<'_>, message: Message) {
        let name = fields.text().unwrap_or_default();
        let limit = fields.u32().unwrap_or(0);
        let joins = self.groups.back().is_some_and(|group| {
            group.is_open && !group.has_execute && group.portal.as_deref() == Some(name)
        });
        let known = self.names.portal(name);
        // One that was bound before the stream was joined was executed then, too.
        let was_executed = known.as_ref().is_none_or(|portal| portal.was_executed);
        let named = known.map(|portal| {
            portal.was_executed = true;
            (portal.text.clone(), portal.verb)
        });
        if !joins {
            let kind = if was_executed {
                Kind::Fetch
            } else {
                Kind::Execute
            };
            self.begin(kind, message);
        }
        self.wait(Answer::Executed);
        if let Some(group) = self.groups.back_mut() {
            group.has_execute = true;
            group.portal = Some(name.to_vec());
            group.exchange.fetch_size = (limit > 0).then_some(limit.into());
            if let (false, Some((text, verb))) = (joins, named) {
                group.exchange.text = text;
                group.exchange.verb = verb;
            }
        }
    }

    fn close(&mut self, mut fields: Fields<'_>, message: Message) {
        let what = fields.u8();
        let name = fields.text().unwrap_or_default();
        let is_statement = what == Some(b'S');
        self.begin(
            if is_statement {
                Kind::CloseStatement
            } else {
                Kind::Other
            },
            message,
        );
        self.wait(Answer::Closed);
        let (text, verb, early) = if is_statement {
            let closed = self.names.remove_statement(name).unwrap_or_default();
            (closed.text, closed.verb, false)
        } else {
            let closed = self.names.remove_portal(name).unwrap_or_default();
            (closed.text, closed.verb, closed.is_suspended)
        };
        if let Some(group) = self.groups.back_mut() {
            group.exchange.text = text;
            group.exchange.verb = verb;
            group.exchange.early_close = early;
        }
    }
}

fn is_request(tag: u8) -> bool {
    matches!(
        tag,
        QUERY
            | PARSE
            | BIND
            | DESCRIBE
            | EXECUTE
            | CLOSE
            | SYNC
            | FLUSH
            | FUNCTION
            | TERMINATE
            | COPY_DATA
            | COPY_DONE
            | COPY_FAIL
    )
}

/// Whether bytes are whole messages that wait for an answer at their end, as far as can be told: where a stream can be joined.
pub(super) fn begins_requests(bytes: &[u8]) -> bool {
    let mut rest = bytes;
    let mut last = 0;
    while let [tag, a, b, c, d, after @ ..] = rest {
        let length = u32::from_be_bytes([*a, *b, *c, *d]);
        let body = length
            .checked_sub(4)
            .and_then(|length| after.split_at_checked(length as usize));
        let Some((body, next)) = body else {
            return false;
        };
        let fits = match *tag {
            QUERY => body.last() == Some(&0),
            PARSE | BIND => body.len() >= 4,
            DESCRIBE | CLOSE => matches!(body, [b'S' | b'P', .., 0]),
            EXECUTE => body.len() >= 5,
            SYNC | FLUSH | TERMINATE => body.is_empty(),
            _ => false,
        };
        if !fits {
            return false;
        }
        last = *tag;
        rest = next;
    }
    rest.is_empty() && matches!(last, QUERY | SYNC | FLUSH | TERMINATE)
}
