//! Connections that send several requests before they read an answer: each answer must be whole, and in its place.

use std::io;
use std::path::Path;
use std::sync::atomic::Ordering;

use wire::Error;
use wire::mysql::put_text;

use super::may_come::A_STATEMENT;
use super::shared::Shared;
use super::work::open;
use super::{Chance, PATIENCE, ROWS, row_of};
use crate::answer::{Answer, Kind};
use crate::param::{Param, kind};
use crate::peer::{Peer, capability};
use crate::step::What;

/// Requests that are sent at once, at most. Each may wait for a lock of the definition and for one of a row, a second each; all answers may
/// come with the last one, within [`PATIENCE`].
const REQUESTS_MAX: i64 = 8;
/// Two of these are more than a server keeps.
const LONG_BYTES: usize = 9000;
/// More than a server's read buffer.
const COMMENT_BYTES: usize = 20_000;
const SLOT: u32 = 1;
const SETTINGS: [&str; 2] = ["SET lock_wait_timeout=1", "SET innodb_lock_wait_timeout=1"];

/// A request, and the payloads of the rows that it must bring.
struct Known {
    what: What,
    rows: Vec<Vec<u8>>,
}

pub(super) fn work(shared: &Shared<'_>, number: usize, seed: u64) {
    let mut chance = Chance(seed);
    let Some(socket) = shared.url.socket.clone() else {
        return;
    };
    while !shared.over.load(Ordering::Relaxed) {
        let Some((mut peer, id)) = open(shared, number, || login(&socket)) else {
            return;
        };
        let mut is_prepared = false;
        while !shared.over.load(Ordering::Relaxed) {
            let done = prepare(shared, &mut peer, id, &mut is_prepared).and_then(|()| {
                if is_prepared {
                    batch(shared, &mut peer, id, &mut chance)
                } else {
                    Ok(())
                }
            });
            if let Err(error) = done {
                shared.error(&Error::Io(error), "requests sent ahead", id);
                shared.note(|found| found.reconnects += 1);
                break;
            }
        }
    }
}

fn login(socket: &Path) -> Result<(Peer, i64), Error> {
    let wanted = capability::USUAL | capability::DEPRECATE_EOF;
    let mut peer = Peer::impatient(socket, wanted, PATIENCE)?;
    let mut answer = Answer::default();
    for sql in SETTINGS.into_iter().chain(["SELECT CONNECTION_ID()"]) {
        peer.send(&What::Query(sql.to_owned()))?;
        peer.receive(&mut answer)?;
    }
    let row = rows(&answer).next();
    let id = row.and_then(|row| std::str::from_utf8(row.get(1..)?).ok()?.parse().ok());
    let id = id.ok_or_else(|| Error::Protocol("no CONNECTION_ID()".to_owned()))?;
    Ok((peer, id))
}

/// Prepare the statement, where a disturbance has not let it be prepared before.
fn prepare(
    shared: &Shared<'_>,
    peer: &mut Peer,
    id: i64,
    is_prepared: &mut bool,
) -> io::Result<()> {
    if *is_prepared {
        return Ok(());
    }
    let mut answer = Answer::default();
    let sql = "SELECT s FROM storm.kv WHERE k = ?".to_owned();
    peer.send(&What::Prepare(SLOT, sql))?;
    peer.receive(&mut answer)?;
    match refusal(&answer) {
        Some(error) => {
            shared.error(&error, A_STATEMENT, id);
        }
        None => *is_prepared = true,
    }
    Ok(())
}

/// Payloads of an answer's rows.
fn rows(answer: &Answer) -> impl Iterator<Item = &[u8]> {
    answer
        .each()
        .filter(|(kind, _)| *kind == Kind::Row)
        .map(|(_, packet)| &packet[4..])
}

fn batch(shared: &Shared<'_>, peer: &mut Peer, id: i64, chance: &mut Chance) -> io::Result<()> {
    let asked: Vec<Known> = (0..1 + chance.below(REQUESTS_MAX))
        .map(|_| request(chance))
        .collect();
    let requests = asked.iter().map(|each| &each.what);
    peer.send_ahead(requests, chance.below(600) as usize)?;
    let mut answer = Answer::default();
    for Known { what, rows: due } in &asked {
        peer.receive_next(&mut answer)?;
        if let Some(error) = refusal(&answer) {
            shared.error(&error, A_STATEMENT, id);
            continue;
        }
        shared.statements.fetch_add(1, Ordering::Relaxed);
        if !rows(&answer).eq(due.iter().map(Vec::as_slice)) {
            let found: Vec<_> = rows(&answer).map(String::from_utf8_lossy).collect();
            shared.wrong(format!("{what:.200?}, sent ahead: {found:?}"));
        }
    }
    Ok(())
}

fn refusal(answer: &Answer) -> Option<Error> {
    let (_, packet) = answer.each().find(|(kind, _)| *kind == Kind::Error)?;
    Some(Error::Server {
        code: answer.error,
        sqlstate: String::new(),
        message: String::from_utf8_lossy(packet.get(7..)?).into_owned(),
    })
}

fn request(chance: &mut Chance) -> Known {
    let key = chance.below(ROWS + 20);
    let row = (key < ROWS).then(|| row_of(key));
    match chance.below(20) {
        0..=6 => Known {
            what: What::Query(format!("SELECT a, s, u FROM storm.kv WHERE k = {key}")),
            rows: row.iter().map(|row| text_row(row)).collect(),
        },
        7..=8 => Known {
            what: What::Query(format!(
                "SELECT s FROM storm.kv WHERE u = {}",
                key + 1_000_000
            )),
            rows: row.iter().map(|row| text_row(&row[1..2])).collect(),
        },
        9..=14 => Known {
            what: What::Execute {
                slot: SLOT,
                values: vec![Param::Int(kind::LONGLONG, false, key.unsigned_abs())],
                cursor: false,
                rebind: true,
            },
            // The header of a binary row, and no NULL.
            rows: row
                .iter()
                .map(|row| [vec![0, 0], text_row(&row[1..2])].concat())
                .collect(),
        },
        15..=16 => Known {
            what: What::Query(format!("UPDATE storm.kv SET a = a WHERE k = {key}")),
            rows: Vec::new(),
        },
        17 => Known {
            what: What::Query(format!("SELECT REPEAT('x', {LONG_BYTES})")),
            rows: vec![text_row(&["x".repeat(LONG_BYTES)])],
        },
        18 => Known {
            what: What::Query(format!("SELECT /* {} */ 7", " ".repeat(COMMENT_BYTES))),
            rows: vec![text_row(&["7".to_owned()])],
        },
        _ => Known {
            what: What::Ping,
            rows: Vec::new(),
        },
    }
}

/// A row as the text protocol has it.
fn text_row(cells: &[String]) -> Vec<u8> {
    let mut payload = Vec::new();
    for cell in cells {
        put_text(&mut payload, cell.as_bytes());
    }
    payload
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::fake::{Fakes, Says};
    use crate::peer;

    #[test]
    fn an_answer_is_waited_for_as_long_as_the_other_connections_wait() {
        let late = peer::PATIENCE + Duration::from_millis(200);
        let says = move |sql: &str| match sql.contains("CONNECTION_ID") {
            true => Says::Row("id", "7"),
            false if sql.contains("innodb") => Says::Late(late),
            false => Says::Fine,
        };
        let fakes = Fakes::new(says, |_| Says::Fine);
        let (_, id) = login(&fakes.place.stock).expect("an answer that is late");
        assert_eq!(id, 7);
    }
}
