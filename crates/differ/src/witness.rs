//! What two servers say of themselves while one of them does not answer, each question over a connection of its own.

use std::cell::RefCell;
use std::fs;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::answer::{Answer, Kind, shown};
use crate::packet::lenenc;
use crate::peer::{Peer, capability};
use crate::step::What;

/// What servers are asked.
const QUESTIONS: [&str; 6] = [
    "SHOW FULL PROCESSLIST",
    "SELECT thread_id, processlist_id, thread_os_id FROM performance_schema.threads WHERE processlist_id IS NOT NULL",
    "SELECT * FROM performance_schema.data_lock_waits",
    "SELECT object_type, object_schema, object_name, lock_type, lock_duration, lock_status, owner_thread_id \
     FROM performance_schema.metadata_locks",
    "SHOW ENGINE INNODB STATUS",
    // A session's first temporary table takes a file from a pool, and so does this: where it hangs, the pool does.
    "SELECT * FROM information_schema.innodb_session_temp_tablespaces",
];
/// What Linux knows of the machine.
const MACHINE: [&str; 4] = [
    "/proc/loadavg",
    "/proc/pressure/cpu",
    "/proc/pressure/io",
    "/proc/pressure/memory",
];
/// A server answers a question in this time, or not at all.
const QUESTION_MAX: Duration = Duration::from_secs(if cfg!(test) { 1 } else { 5 });
/// For all questions: a login, and what it asks.
const ALL_MAX: Duration = Duration::from_secs(if cfg!(test) { 3 } else { 15 });
const ANSWER_BYTES_MAX: usize = 200_000;

/// One answer.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Said {
    /// stock, patched or machine.
    pub of: &'static str,
    /// A statement, or the file that was read.
    pub question: String,
    /// How long the answer took.
    pub seconds: f64,
    /// Its rows as lines, cells with tabs between them; or why there are none.
    pub answer: String,
}

/// Who is called when a server does not answer.
pub struct Witness {
    servers: [(&'static str, PathBuf); 2],
    asked: RefCell<Option<Asked>>,
}

struct Asked {
    since: Instant,
    said: Receiver<Said>,
}

impl Witness {
    /// Of two servers, by their sockets.
    #[must_use]
    pub fn new(stock: &Path, patched: &Path) -> Self {
        let servers = [("stock", stock), ("patched", patched)];
        Self {
            servers: servers.map(|(name, socket)| (name, socket.to_owned())),
            asked: RefCell::new(None),
        }
    }

    /// Ask, in threads beside whoever waits for the server. Until [`Self::said`], asking again does nothing.
    pub fn call(&self) {
        let mut asked = self.asked.borrow_mut();
        if asked.is_some() {
            return;
        }
        let (said, hears) = channel();
        let ask = |of: &'static str, question: String, answer: Box<dyn Fn() -> String + Send>| {
            let said = said.clone();
            std::thread::spawn(move || {
                let begin = Instant::now();
                let answer = answer();
                let seconds = begin.elapsed().as_secs_f64();
                // Nobody may listen any more.
                let _ = said.send(Said {
                    of,
                    question,
                    seconds,
                    answer,
                });
            });
        };
        for file in MACHINE {
            ask("machine", file.to_owned(), Box::new(move || read(file)));
        }
        for (of, socket) in &self.servers {
            let process = socket.clone();
            let threads = "threads: number, name, state, where the kernel waits".to_owned();
            ask(of, threads, Box::new(move || told(threads_of(&process))));
            for question in QUESTIONS {
                let socket = socket.clone();
                let answer = move || told(rows(&socket, question));
                ask(of, question.to_owned(), Box::new(answer));
            }
        }
        *asked = Some(Asked {
            since: Instant::now(),
            said: hears,
        });
    }

    /// What has been said since [`Self::call`]; waits for what has not been, not for long.
    pub fn said(&self) -> Vec<Said> {
        let Some(Asked { since, said }) = self.asked.take() else {
            return Vec::new();
        };
        let left = || ALL_MAX.saturating_sub(since.elapsed());
        let mut all: Vec<Said> = std::iter::from_fn(|| said.recv_timeout(left()).ok()).collect();
        all.sort_by(|a, b| (a.of, &a.question).cmp(&(b.of, &b.question)));
        all
    }
}

fn told(answer: io::Result<String>) -> String {
    answer.unwrap_or_else(|error| match crate::peer::is_silence(&error) {
        true => format!("no answer in {} s", QUESTION_MAX.as_secs()),
        false => format!("no answer: {error}"),
    })
}

fn read(file: &str) -> String {
    told(fs::read_to_string(file))
}

/// The columns' names and the rows, each as a line.
fn rows(socket: &Path, sql: &str) -> io::Result<String> {
    let wanted = capability::USUAL | capability::DEPRECATE_EOF;
    let mut peer = Peer::impatient(socket, wanted, QUESTION_MAX)?;
    let mut answer = Answer::default();
    peer.send(&What::Query(sql.to_owned()))?;
    peer.receive(&mut answer)?;
    let mut lines = String::new();
    let mut names = Vec::new();
    for (kind, packet) in answer.each() {
        let payload = packet.get(4..).unwrap_or_default();
        let line = match kind {
            // Of a column: catalogue, schema, table twice, and its name.
            Kind::Definition => {
                names.push(cells(payload).nth(4).unwrap_or_default());
                continue;
            }
            Kind::Row => cells(payload).collect::<Vec<_>>().join("\t"),
            Kind::Error => shown(kind, packet),
            _ => continue,
        };
        if !names.is_empty() {
            lines.push_str(&std::mem::take(&mut names).join("\t"));
            lines.push('\n');
        }
        if lines.len() + line.len() > ANSWER_BYTES_MAX {
            lines.push_str("and more");
            break;
        }
        lines.push_str(&line);
        lines.push('\n');
    }
    Ok(lines)
}

/// The texts of a packet, one after the other, until one is cut off.
fn cells(payload: &[u8]) -> impl Iterator<Item = String> {
    let mut at = 0;
    std::iter::from_fn(move || {
        if *payload.get(at)? == 0xFB {
            at += 1;
            return Some("NULL".to_owned());
        }
        let length = usize::try_from(lenenc(payload, &mut at)).ok()?;
        let cell = payload.get(at..at.checked_add(length)?)?;
        at += length;
        Some(String::from_utf8_lossy(cell).into_owned())
    })
}

/// What the threads of the server do, as Linux sees it: one that waits for a disk is in state D, one that spins in R.
fn threads_of(socket: &Path) -> io::Result<String> {
    let process = process_behind(&UnixStream::connect(socket)?)?;
    let mut lines = Vec::new();
    for each in fs::read_dir(format!("/proc/{process}/task"))? {
        let folder = each?.path();
        let file = |name: &str| fs::read_to_string(folder.join(name)).unwrap_or_default();
        let status = file("status");
        let of = |key: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(key));
            line.unwrap_or_default().trim().to_owned()
        };
        let number = folder.file_name().unwrap_or_default().to_string_lossy();
        let (name, state, waits) = (of("Name:"), of("State:"), file("wchan"));
        lines.push(format!("{number}\t{name}\t{state}\t{waits}\n"));
    }
    lines.sort();
    Ok(lines.concat())
}

/// The number of the process that listens at the other end.
fn process_behind(stream: &UnixStream) -> io::Result<libc::pid_t> {
    let mut found = libc::ucred {
        pid: 0,
        uid: 0,
        gid: 0,
    };
    let mut len = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: the option's value is a ucred, and there is room for one.
    let done = unsafe {
        libc::getsockopt(
            stream.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut found).cast(),
            &raw mut len,
        )
    };
    match done {
        0 => Ok(found.pid),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::{Fakes, Says};

    fn answer<'a>(all: &'a [Said], of: &str, question: &str) -> &'a str {
        let found = all
            .iter()
            .find(|each| each.of == of && each.question.contains(question));
        &found.expect(question).answer
    }

    #[test]
    fn both_servers_and_the_machine_are_asked_once() {
        let stock = |sql: &str| match sql.contains("PROCESSLIST") {
            true => Says::Row("Info", "CREATE TABLE"),
            false => Says::Fine,
        };
        let patched = |sql: &str| match sql.contains("INNODB STATUS") {
            true => Says::Nothing,
            false => Says::Error(1),
        };
        let fakes = Fakes::new(stock, patched);
        let witness = Witness::new(&fakes.place.stock, &fakes.place.patched);
        assert!(witness.said().is_empty());
        witness.call();
        witness.call();
        let all = witness.said();
        assert_eq!(all.len(), MACHINE.len() + 2 * (1 + QUESTIONS.len()));
        assert!(answer(&all, "stock", "PROCESSLIST").contains("CREATE TABLE\n"));
        assert!(answer(&all, "patched", "PROCESSLIST").contains("error 1025"));
        assert_eq!(answer(&all, "patched", "INNODB STATUS"), "no answer in 1 s");
        // This test serves both sockets.
        let own = format!("{}\t", std::process::id());
        let threads = answer(&all, "stock", "threads: ");
        assert!(threads.contains(&own), "{threads}");
        assert!(answer(&all, "machine", "loadavg").contains(' '));
        assert!(witness.said().is_empty());
    }

    #[test]
    fn a_server_that_is_gone_ends_the_questions() {
        let nowhere = Path::new("/nowhere/socket");
        let witness = Witness::new(nowhere, nowhere);
        witness.call();
        let all = witness.said();
        assert!(answer(&all, "stock", "INNODB STATUS").starts_with("no answer: "));
        assert!(answer(&all, "patched", "threads: ").starts_with("no answer: "));
    }

    #[test]
    fn cells_end_where_a_packet_is_cut_off() {
        let all = |payload: &[u8]| cells(payload).collect::<Vec<_>>();
        assert_eq!(all(b"\x01a\xFB\x02bc"), ["a", "NULL", "bc"]);
        assert_eq!(all(b"\x01a\x05bc"), ["a"]);
        assert_eq!(all(b"\xFE\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFFa"), [""; 0]);
    }
}
