//! What all threads of a storm share, and how it judges an error.

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64};

use wire::{Error, ServerUrl};

use super::Storm;
use super::may_come::{kill_brings, may_come};

/// Wrong answers that are kept; more tell no more.
const WRONG_MAX: usize = 100;

/// The server's numbers of the connections that check.
#[derive(Default)]
pub(super) struct Numbers {
    /// By the number of the thread that has the connection.
    pub(super) live: BTreeMap<usize, i64>,
    /// Those that a KILL was sent for.
    pub(super) killed: BTreeSet<i64>,
}

pub(super) struct Shared<'a> {
    pub(super) url: &'a ServerUrl,
    pub(super) over: AtomicBool,
    pub(super) statements: AtomicU64,
    pub(super) found: Mutex<Storm>,
    pub(super) numbers: Mutex<Numbers>,
}

impl<'a> Shared<'a> {
    pub(super) fn new(url: &'a ServerUrl, found: Storm) -> Self {
        Self {
            url,
            over: AtomicBool::new(false),
            statements: AtomicU64::new(0),
            found: Mutex::new(found),
            numbers: Mutex::default(),
        }
    }

    pub(super) fn note(&self, change: impl FnOnce(&mut Storm)) {
        if let Ok(mut found) = self.found.lock() {
            change(&mut found);
        }
    }

    pub(super) fn wrong(&self, what: String) {
        self.note(|found| {
            if found.wrong.len() < WRONG_MAX {
                found.wrong.push(what);
            }
        });
    }

    pub(super) fn with_numbers<T: Default>(&self, ask: impl FnOnce(&mut Numbers) -> T) -> T {
        self.numbers
            .lock()
            .map(|mut numbers| ask(&mut numbers))
            .unwrap_or_default()
    }

    /// An error that a disturbance may bring to this statement on the connection with this number is counted; any other is wrong.
    /// Whether the connection is gone.
    pub(super) fn error(&self, error: &Error, during: &str, connection: i64) -> bool {
        let was_killed = || self.with_numbers(|numbers| numbers.killed.contains(&connection));
        let is_excused = match error {
            Error::Server { code, .. } => {
                self.note(|found| *found.errors.entry(*code).or_default() += 1);
                if kill_brings(*code) {
                    was_killed()
                } else {
                    may_come(*code, during)
                }
            }
            Error::Io(lost) => is_lost(lost.kind()) && was_killed(),
            // An answer that is not the protocol, whatever ran beside it.
            _ => false,
        };
        if !is_excused {
            self.wrong(format!("{during}: {error}"));
        }
        error.is_disconnect()
    }
}

/// Whether the other side hung up. An answer that does not come in time is another thing, and so is one that cannot be read.
fn is_lost(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::UnexpectedEof
            | ErrorKind::BrokenPipe
            | ErrorKind::ConnectionReset
            | ErrorKind::ConnectionAborted
            | ErrorKind::NotConnected
            | ErrorKind::WriteZero
    )
}

#[cfg(test)]
mod tests {
    use super::super::may_come::A_STATEMENT;
    use super::*;

    const KILLED: i64 = 7;

    fn judged(error: &Error, during: &str, connection: i64) -> (Storm, bool) {
        let url = ServerUrl::parse("mysql://root@localhost").expect("a URL");
        let shared = Shared::new(&url, Storm::default());
        shared.with_numbers(|numbers| numbers.killed.insert(KILLED));
        let is_gone = shared.error(error, during, connection);
        (
            shared.found.into_inner().expect("nobody else has it"),
            is_gone,
        )
    }

    fn server(code: u16) -> Error {
        Error::Server {
            code,
            sqlstate: "HY000".to_owned(),
            message: String::new(),
        }
    }

    #[test]
    fn an_error_that_the_disturbances_cause_is_counted_and_not_wrong() {
        const REVOKE: &str = "REVOKE SELECT ON storm.* FROM weak@localhost";
        const GRANT: &str = "GRANT SELECT ON storm.* TO weak@localhost";
        for (code, during) in [
            (1141, REVOKE),
            (3547, REVOKE),
            (3547, GRANT),
            (3547, "FLUSH PRIVILEGES"),
            (3547, A_STATEMENT),
            (1317, A_STATEMENT),
            (1094, "KILL 12"),
        ] {
            let (found, is_gone) = judged(&server(code), during, 1);
            assert!(!is_gone, "{code} ends no connection");
            assert_eq!(found.wrong, Vec::<String>::new(), "{code} of {during}");
            assert_eq!(found.errors, BTreeMap::from([(code, 1)]));
        }
    }

    #[test]
    fn the_same_error_of_another_statement_is_wrong() {
        for (code, during) in [
            (1141, "GRANT SELECT ON storm.* TO weak@localhost"),
            (1141, A_STATEMENT),
            (3547, "FLUSH TABLES"),
            (3547, "ALTER TABLE storm.kv DROP INDEX extra"),
            (1064, A_STATEMENT),
            (1094, A_STATEMENT),
            // A statement that the server does not know any more.
            (1243, A_STATEMENT),
        ] {
            let (found, _) = judged(&server(code), during, 1);
            assert_eq!(found.wrong.len(), 1, "{code} of {during}");
        }
    }

    #[test]
    fn a_connection_may_be_lost_where_it_was_killed_and_nowhere_else() {
        let lost = [
            Error::Io(ErrorKind::UnexpectedEof.into()),
            Error::Io(ErrorKind::BrokenPipe.into()),
            server(1053),
            server(1927),
            server(3169),
        ];
        for error in lost {
            for (connection, wrong) in [(KILLED, 0), (KILLED + 1, 1)] {
                let (found, is_gone) = judged(&error, A_STATEMENT, connection);
                assert!(is_gone);
                assert_eq!(found.wrong.len(), wrong, "{error} of {connection}");
            }
        }
    }

    #[test]
    fn an_answer_that_is_not_the_protocol_or_never_comes_is_wrong_though_the_connection_was_killed()
    {
        let broken = [
            Error::Protocol("packet 3 where 1 was due".to_owned()),
            Error::Io(ErrorKind::TimedOut.into()),
            Error::Io(ErrorKind::WouldBlock.into()),
            Error::Io(ErrorKind::InvalidData.into()),
            server(1153),
            server(1156),
            server(1157),
            server(1158),
            server(1159),
            server(1160),
            server(1161),
            server(4031),
        ];
        for error in broken {
            let (found, is_gone) = judged(&error, A_STATEMENT, KILLED);
            assert!(
                is_gone && found.wrong.len() == 1,
                "{error}: {:?}",
                found.wrong
            );
        }
    }
}
