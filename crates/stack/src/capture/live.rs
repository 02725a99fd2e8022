//! Packets of an interface as they pass: tcpdump captures them, and writes them into a pipe.

use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::failure::Failure;

/// What tcpdump lets the kernel keep for it, in KiB.
const BUFFER_KIB: &str = "65536";
/// The kernel hands packets on when a block of them is full or a second old: so long may the last ones take.
const DELIVERY: Duration = Duration::from_millis(1500);
/// How often the end is looked for.
const LOOK: Duration = Duration::from_millis(20);

/// A tcpdump that captures.
pub struct Live {
    child: Child,
    words: Receiver<String>,
    end: End,
}

/// When a live capture ends.
pub struct End {
    /// Of tcpdump.
    pid: libc::pid_t,
    /// Packets behind this time are none of ours, nanoseconds since 1970; 0 as long as nobody has asked for the end.
    at_ns: AtomicU64,
    /// Nothing more is wanted.
    done: AtomicBool,
}

/// What tcpdump said at its end.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Ended {
    /// Packets that came and that it could not take; none where it does not say.
    pub dropped: Option<u64>,
    /// Why it ended without having been asked.
    pub broken: Option<String>,
}

impl End {
    /// Until somebody presses or the time is over, and until packets that came before have been read; or until nothing more is wanted.
    /// Then tcpdump ends. A second press ends it at once.
    pub fn watch(&self, lasts: Option<Duration>, pressed: &AtomicBool) {
        let wait = |most: Option<Duration>| {
            let began = Instant::now();
            let over = || most.is_some_and(|most| began.elapsed() >= most);
            while !self.is_done() && !over() && !pressed.swap(false, Relaxed) {
                thread::sleep(LOOK);
            }
        };
        wait(lasts);
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now_ns = u64::try_from(now.unwrap_or_default().as_nanos()).unwrap_or(u64::MAX);
        self.at_ns.store(now_ns, Relaxed);
        wait(Some(DELIVERY));
        // SAFETY: kill touches no memory; the child is not waited for as long as somebody has this, so that its number is its own.
        unsafe { libc::kill(self.pid, libc::SIGINT) };
    }

    /// Whether a packet came after the end.
    #[must_use]
    pub fn is_behind(&self, at_ns: u64) -> bool {
        let end_ns = self.at_ns.load(Relaxed);
        end_ns > 0 && at_ns > end_ns
    }

    /// Nothing more is wanted.
    pub fn done(&self) {
        self.done.store(true, Relaxed);
    }

    /// Whether the end was asked for.
    #[must_use]
    pub fn is_asked(&self) -> bool {
        self.at_ns.load(Relaxed) > 0 || self.is_done()
    }

    /// Whether nothing more is wanted.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.done.load(Relaxed)
    }
}

impl Live {
    /// Begin, and wait until packets are captured; what they come out of is the second value.
    ///
    /// # Errors
    /// No tcpdump, an interface that is not there, no right to capture.
    pub fn start(interface: &str, ports: &[u16]) -> Result<(Self, Box<dyn Read>), Failure> {
        let filter: Vec<String> = ports
            .iter()
            .map(|port| format!("tcp port {port}"))
            .collect();
        let mut command = Command::new("tcpdump");
        command.args(["-i", interface, "-n", "-U", "-s", "0", "-B", BUFFER_KIB]);
        command.args(["-w", "-", &filter.join(" or ")]);
        let piped = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        // Ctrl-C is for us: it ends when we have what came before.
        let spawned = piped.stdin(Stdio::null()).process_group(0).spawn();
        let mut child = spawned.map_err(|error| no_program(&error))?;
        let (say, words) = channel();
        if let Some(stderr) = child.stderr.take() {
            thread::spawn(move || {
                let lines = BufReader::new(stderr).lines();
                lines
                    .map_while(Result::ok)
                    .all(|line| say.send(line).is_ok())
            });
        }
        let mut said = Vec::new();
        while let Ok(word) = words.recv() {
            if word.contains("listening on") {
                let stdout = child
                    .stdout
                    .take()
                    .map(|out| Box::new(out) as Box<dyn Read>);
                let end = End {
                    pid: child.id().try_into().expect("a process id"),
                    at_ns: AtomicU64::new(0),
                    done: AtomicBool::new(false),
                };
                let live = Self { child, words, end };
                return Ok((live, stdout.unwrap_or_else(|| Box::new(io::empty()))));
            }
            said.push(word);
        }
        let _ = child.wait();
        Err(refused(interface, &said))
    }

    /// When it ends.
    #[must_use]
    pub fn end(&self) -> &End {
        &self.end
    }

    /// It has ended, whether or not it was asked to: its packets were read to their end.
    #[must_use]
    pub fn finish(mut self, asked: bool) -> Ended {
        let _ = self.child.wait();
        let said: Vec<String> = self.words.iter().collect();
        Ended::of(&said, asked)
    }
}

impl Ended {
    fn of(said: &[String], asked: bool) -> Self {
        let count = |what: &str| {
            let line = said.iter().find(|line| line.ends_with(what))?;
            line.split_whitespace().next()?.parse::<u64>().ok()
        };
        let (kernel, interface) = (count("dropped by kernel"), count("dropped by interface"));
        Self {
            dropped: kernel.map(|kernel| kernel + interface.unwrap_or_default()),
            broken: (!asked).then(|| {
                let why = said.iter().find(|line| line.starts_with("tcpdump: "));
                let why = why.map_or("tcpdump ended by itself", String::as_str);
                why.to_owned()
            }),
        }
    }
}

fn no_program(error: &io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::NotFound => Failure::failed(
            "tcpdump is not on PATH",
            "install it (apt-get install tcpdump, dnf install tcpdump), or let it write a file elsewhere and read that with --pcap",
        ),
        _ => Failure::failed(
            format!("tcpdump cannot be run: {error}"),
            "check the permissions of the tcpdump on PATH",
        ),
    }
}

fn refused(interface: &str, said: &[String]) -> Failure {
    let said = said.join(" ");
    let hint = if said.contains("permi") {
        "run it as root, or give tcpdump the right: sudo setcap cap_net_raw+ep $(command -v tcpdump)"
    } else if said.contains("No such device") {
        "`ip link` lists the interfaces; `any` is all of them"
    } else {
        "run tcpdump on this interface by itself, and see what it says"
    };
    let why = said.trim_start_matches("tcpdump: ");
    Failure::failed(
        format!("tcpdump does not capture on {interface}: {why}"),
        hint,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(said: &[&str]) -> Vec<String> {
        said.iter().map(|&line| line.to_owned()).collect()
    }

    #[test]
    fn what_was_dropped_is_in_the_last_lines() {
        let said = lines(&[
            "12 packets captured",
            "24 packets received by filter",
            "1 packet dropped by kernel",
            "3 packets dropped by interface",
        ]);
        let ended = Ended::of(&said, true);
        assert_eq!((ended.dropped, ended.broken), (Some(4), None));
        let ended = Ended::of(&lines(&["0 packets dropped by kernel"]), true);
        assert_eq!(ended.dropped, Some(0));
        assert_eq!(Ended::of(&[], true), Ended::default());
    }

    #[test]
    fn a_tcpdump_that_ends_by_itself_says_why() {
        let gone = "tcpdump: pcap_loop: The interface disappeared";
        let ended = Ended::of(&lines(&["12 packets captured", gone]), false);
        assert_eq!(ended.broken.as_deref(), Some(gone));
        let ended = Ended::of(&[], false);
        assert_eq!(ended.broken.as_deref(), Some("tcpdump ended by itself"));
    }

    #[test]
    fn refusals_have_a_hint_each() {
        for (said, hint) in [
            (
                "tcpdump: lo: You don't have permission to perform this capture on that device",
                "setcap",
            ),
            ("tcpdump: nope: No such device exists", "ip link"),
            ("tcpdump: can't parse filter expression", "by itself"),
        ] {
            let failure = refused("lo", &lines(&[said]));
            assert!(failure.hint.contains(hint), "{failure:?}");
            assert!(!failure.message.contains("tcpdump: "), "{failure:?}");
        }
        let gone = no_program(&io::ErrorKind::NotFound.into());
        assert!(gone.message.contains("not on PATH") && gone.hint.contains("install"));
        let other = no_program(&io::ErrorKind::PermissionDenied.into());
        assert!(other.message.contains("cannot be run"));
    }
}
