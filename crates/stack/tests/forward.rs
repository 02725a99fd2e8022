//! Every byte arrives as it was sent, whatever the two sides do: against servers of this test's own that speak no protocol beyond
//! MySQL's greeting.

mod common;

use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::Duration;

use common::{Capture, Folder, text, until};
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

const GREETING: &[u8] = b"\x0a\0\0\0\x0a9.9.9\0\0\0\0";

/// A server that does the same for each client, in a thread each. The first client is the capture's own look at it.
fn server(path: &Path, answer: impl Fn(UnixStream) + Send + Sync + Clone + 'static) {
    let listener = UnixListener::bind(path).expect("a free path");
    std::thread::spawn(move || {
        let mut first = listener.accept().expect("the capture").0;
        let _ = first.write_all(GREETING);
        for client in listener.incoming() {
            let answer = answer.clone();
            std::thread::spawn(move || answer(client.expect("a client")));
        }
    });
}

struct Setting {
    folder: Folder,
    listen: PathBuf,
}

impl Setting {
    fn new(answer: impl Fn(UnixStream) + Send + Sync + Clone + 'static) -> Self {
        let folder = Folder::new();
        server(&folder.file("s"), answer);
        let listen = folder.file("p");
        Self { folder, listen }
    }

    fn capture(&self, more: &[&str]) -> Capture {
        self.capture_by(&[], more)
    }

    /// Under a program that becomes the capture.
    fn capture_by(&self, prefix: &[&str], more: &[&str]) -> Capture {
        let url = format!("mysql://?socket={}", self.folder.file("s").display());
        let trace = self.folder.file("t");
        let listen = text(&self.listen);
        let mut arguments = vec!["--server", &url, "--listen", listen, text(&trace)];
        arguments.extend(more);
        Capture::start_by(prefix, &arguments)
    }

    /// What a capture says that does not begin.
    fn refused(&self, more: &[&str]) -> String {
        let url = format!("mysql://?socket={}", self.folder.file("s").display());
        let mut arguments = vec!["--server", &url];
        arguments.extend(more);
        let ended = Capture::try_start(&arguments).err().expect("refused");
        assert!(ended.stderr.contains("hint: "), "{}", ended.stderr);
        ended.stderr
    }

    fn client(&self) -> UnixStream {
        UnixStream::connect(&self.listen).expect("a proxy")
    }
}

/// So many bytes, none like its neighbours.
fn noise(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed | 1;
    let next = |_| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(9);
        (state >> 56) as u8
    };
    (0..len).map(next).collect()
}

fn hash_to_end(mut stream: &UnixStream) -> (u64, u64) {
    let (mut hash, mut len) = (Xxh3::new(), 0);
    let mut buffer = vec![0; 100_000];
    loop {
        match stream.read(&mut buffer).expect("bytes") {
            0 => return (hash.digest(), len),
            more => {
                hash.update(&buffer[..more]);
                len += more as u64;
            }
        }
    }
}

#[test]
fn both_sides_see_what_the_other_sent() {
    // The server streams back another noise while it hashes what comes, then tells the hash.
    let setting = Setting::new(|stream| {
        let writer = stream.try_clone().expect("a second descriptor");
        let writing = std::thread::spawn(move || {
            (&writer).write_all(&noise(20_000_000, 5)).expect("written");
            writer
        });
        let (hash, len) = hash_to_end(&stream);
        let mut writer = writing.join().expect("writer");
        writer.write_all(&hash.to_le_bytes()).expect("written");
        writer.write_all(&len.to_le_bytes()).expect("written");
    });
    let capture = setting.capture(&[]);
    let clients: Vec<JoinHandle<()>> = (0..4)
        .map(|number| {
            let stream = setting.client();
            std::thread::spawn(move || {
                let sent = noise(17_000_000 + number, 7);
                let hash = xxh3_64(&sent);
                let writer = stream.try_clone().expect("a second descriptor");
                let len = sent.len() as u64;
                let writing = std::thread::spawn(move || {
                    (&writer).write_all(&sent).expect("written");
                    // The client says that it is done, and goes on reading.
                    writer.shutdown(Shutdown::Write).expect("open");
                });
                let mut heard = Vec::new();
                (&stream).read_to_end(&mut heard).expect("read");
                writing.join().expect("writer");
                let told = heard.split_off(heard.len() - 16);
                assert!(heard == noise(20_000_000, 5));
                assert_eq!(told[..8], hash.to_le_bytes());
                assert_eq!(told[8..], len.to_le_bytes());
            })
        })
        .collect();
    for client in clients {
        client.join().expect("a client");
    }
    assert_eq!(capture.stop().code, Some(0));
}

#[test]
fn a_reader_that_sleeps_holds_its_own_connection_and_no_other() {
    let setting = Setting::new(|mut stream| {
        let mut request = [0; 1];
        while stream.read_exact(&mut request).is_ok() {
            if stream.write_all(&noise(8_000_000, 3)).is_err() {
                return;
            }
        }
    });
    let capture = setting.capture(&[]);
    let mut sleeper = setting.client();
    sleeper.write_all(b"x").expect("sent");
    let mut other = setting.client();
    for _ in 0..5 {
        other.write_all(b"x").expect("sent");
        let mut answer = vec![0; 8_000_000];
        other.read_exact(&mut answer).expect("an answer");
    }
    let memory = resident_kib(capture.pid());
    // 17 batches of a mebibyte and what the program itself takes: not the answers that nobody reads.
    assert!(memory < 64 * 1024, "{memory} KiB");
    let mut answer = vec![0; 8_000_000];
    sleeper.read_exact(&mut answer).expect("an answer");
    assert!(answer == noise(8_000_000, 3));
    assert_eq!(capture.stop().code, Some(0));
}

fn resident_kib(pid: i32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("a process");
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let words = line.expect("a line").split_whitespace();
    words.collect::<Vec<_>>()[1].parse().expect("a number")
}

#[test]
fn a_thousand_connections_at_once() {
    let setting = Setting::new(|mut stream| {
        let mut request = [0; 8];
        while stream.read_exact(&mut request).is_ok() {
            stream.write_all(&request).expect("answered");
        }
    });
    let capture = setting.capture(&["--json"]);
    let mut clients: Vec<UnixStream> = (0..1000).map(|_| setting.client()).collect();
    for round in 0..3_u64 {
        for (number, client) in clients.iter_mut().enumerate() {
            let word = (number as u64 * 10 + round).to_le_bytes();
            client.write_all(&word).expect("sent");
        }
        for (number, client) in clients.iter_mut().enumerate() {
            let mut word = [0; 8];
            client.read_exact(&mut word).expect("an answer");
            assert_eq!(u64::from_le_bytes(word), number as u64 * 10 + round);
        }
    }
    drop(clients);
    let ended = capture.stop();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
}

/// Whatever number of descriptors is left for them, two or one.
#[test]
fn clients_for_whom_no_descriptor_is_free_wait_until_others_have_gone() {
    for most in [24, 25] {
        let setting = Setting::new(|mut stream| {
            let mut request = [0; 8];
            while stream.read_exact(&mut request).is_ok() {
                stream.write_all(&request).expect("answered");
            }
        });
        let limited = format!("ulimit -n {most}; exec \"$0\" \"$@\"");
        let capture = setting.capture_by(&["bash", "-c", &limited], &["--json"]);
        let clients: Vec<UnixStream> = (0..30_u64)
            .map(|number| {
                let mut client = setting.client();
                client.write_all(&number.to_le_bytes()).expect("sent");
                client
            })
            .collect();
        for (number, mut client) in clients.into_iter().enumerate() {
            let mut word = [0; 8];
            client.read_exact(&mut word).expect("an answer");
            assert_eq!(u64::from_le_bytes(word), number as u64);
        }
        let ended = capture.stop();
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        let said: serde_json::Value = serde_json::from_str(&ended.stdout).expect("JSON");
        assert_eq!(
            (&said["connections"], &said["proxy"]["unreached"]),
            (&30.into(), &0.into())
        );
    }
}

#[test]
fn clients_see_an_end_when_the_capture_ends() {
    let setting = Setting::new(|mut stream| {
        let mut request = [0; 4];
        while stream.read_exact(&mut request).is_ok() {
            std::thread::sleep(Duration::from_millis(400));
            stream.write_all(b"done").expect("answered");
        }
    });
    let capture = setting.capture(&[]);
    let mut idle = setting.client();
    let mut busy = setting.client();
    busy.write_all(b"work").expect("sent");
    let mut answer = Vec::new();
    std::thread::sleep(Duration::from_millis(100));
    let ended = capture.stop();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    // What was in flight has arrived before the end.
    busy.read_to_end(&mut answer).expect("an end");
    assert_eq!(answer, b"done");
    answer.clear();
    idle.read_to_end(&mut answer).expect("an end");
    assert!(answer.is_empty() && !setting.listen.exists());
}

/// What comes up to the end, and whether that is an ordinary one. What is no end of the connection, or none within a minute, fails.
fn heard(stream: &mut UnixStream) -> (Vec<u8>, bool) {
    let patience = Some(Duration::from_secs(60));
    stream.set_read_timeout(patience).expect("a limit");
    let mut heard = Vec::new();
    let ended = stream.read_to_end(&mut heard);
    if let Err(error) = &ended {
        assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{error}");
    }
    (heard, ended.is_ok())
}

/// As the system does with a program that has no chance to say goodbye; it is gone then.
fn kill(capture: Capture) {
    capture.signal(libc::SIGKILL);
    assert_eq!(capture.wait().code, None);
}

#[test]
fn killed_at_once_all_sides_see_an_end() {
    let (tell, told) = std::sync::mpsc::channel();
    let setting = Setting::new(move |stream| {
        tell.send(hash_to_end(&stream).1).expect("the test waits");
    });
    let capture = setting.capture(&[]);
    let mut client = setting.client();
    client.write_all(&noise(100_000, 1)).expect("sent");
    until("the bytes pass", || unsent(&client) == 0);
    std::thread::sleep(Duration::from_millis(100));
    kill(capture);
    // All that it had said was taken: that is an ordinary end, as of a server that has ended.
    assert_eq!(heard(&mut client), (Vec::new(), true));
    assert_eq!(told.recv().expect("the server sees an end"), 100_000);
}

/// Bytes that the other side has not taken.
fn unsent(client: &UnixStream) -> i32 {
    let mut unsent = 0;
    // SAFETY: the request takes a pointer to an int, which outlives the call.
    let done = unsafe {
        use std::os::fd::AsRawFd;
        libc::ioctl(client.as_raw_fd(), libc::TIOCOUTQ, &raw mut unsent)
    };
    assert_eq!(done, 0);
    unsent
}

#[test]
fn killed_within_an_answer_a_client_has_its_beginning_and_an_end() {
    const ANSWER_BYTES: usize = 8_000_000;
    let setting = Setting::new(|mut stream| {
        let _ = stream.read(&mut [0; 1]);
        let _ = stream.write_all(&noise(ANSWER_BYTES, 3));
    });
    let capture = setting.capture(&[]);
    let mut client = setting.client();
    client.write_all(b"x").expect("sent");
    let mut answer = vec![0; 100_000];
    client.read_exact(&mut answer).expect("its beginning");
    kill(capture);
    let (rest, _) = heard(&mut client);
    answer.extend(rest);
    // Never more than what the kernel held, and nothing in the place of what is missing.
    assert!(answer.len() < ANSWER_BYTES);
    assert!(answer == noise(ANSWER_BYTES, 3)[..answer.len()]);
}

#[test]
fn killed_within_a_request_neither_side_takes_it_for_whole() {
    const REQUEST_BYTES: usize = 8_000_000;
    let (go, gone) = std::sync::mpsc::channel::<()>();
    let gone = std::sync::Arc::new(std::sync::Mutex::new(gone));
    let (tell, told) = std::sync::mpsc::channel();
    let setting = Setting::new(move |mut stream| {
        // It does not read before the proxy is gone.
        let _ = gone.lock().expect("no panic").recv();
        tell.send(heard(&mut stream).0).expect("the test waits");
    });
    let capture = setting.capture(&[]);
    let mut client = setting.client();
    let mut writer = client.try_clone().expect("a second descriptor");
    let writing = std::thread::spawn(move || writer.write_all(&noise(REQUEST_BYTES, 9)));
    until("the proxy can take no more", || {
        let held = unsent(&client);
        std::thread::sleep(Duration::from_millis(100));
        held > 0 && unsent(&client) == held
    });
    kill(capture);
    let error = writing
        .join()
        .expect("writer")
        .expect_err("nobody takes it");
    let kinds = [ErrorKind::BrokenPipe, ErrorKind::ConnectionReset];
    assert!(kinds.contains(&error.kind()), "{error}");
    assert!(heard(&mut client).0.is_empty());
    go.send(()).expect("the server waits");
    let request = told.recv().expect("the server sees an end");
    assert!(!request.is_empty() && request.len() < REQUEST_BYTES);
    assert!(request == noise(REQUEST_BYTES, 9)[..request.len()]);
}

#[test]
fn a_server_that_goes_away_ends_its_clients() {
    let setting = Setting::new(|mut stream| {
        let _ = stream.read(&mut [0; 1]);
        stream.write_all(b"bye").expect("sent");
    });
    let capture = setting.capture(&[]);
    let mut client = setting.client();
    client.write_all(b"x").expect("sent");
    let mut answer = Vec::new();
    client.read_to_end(&mut answer).expect("an end");
    assert_eq!(answer, b"bye");
    drop(client);
    assert_eq!(capture.stop().code, Some(0));
}

#[test]
fn a_capture_ends_by_itself() {
    // A trace that has begun is longer than a byte.
    for end in [["--seconds", "1"], ["--max-bytes", "1"]] {
        let setting = Setting::new(drop);
        assert_eq!(setting.capture(&end).wait().code, Some(0));
    }
}

#[test]
fn without_descriptors_nothing_begins_and_nothing_is_left() {
    let setting = Setting::new(|mut stream| drop(stream.write_all(GREETING)));
    let url = format!("mysql://?socket={}", setting.folder.file("s").display());
    let trace = setting.folder.file("t");
    let mut refused = String::new();
    // Whichever is the one too many, up to where it begins.
    for most in 4..20 {
        let mut command = std::process::Command::new("bash");
        let limited = format!("ulimit -n {most}; exec \"$0\" \"$@\"");
        command.args(["-c", &limited, env!("CARGO_BIN_EXE_upshift-stack")]);
        command.args(["capture", "--seconds", "1", "--server", &url]);
        command.arg("--listen").arg(&setting.listen).arg(&trace);
        let done = command.output().expect("bash");
        assert!(!setting.listen.exists(), "{done:?}");
        if done.status.success() {
            break;
        }
        refused.push_str(&String::from_utf8_lossy(&done.stderr));
        assert!(!trace.exists(), "{refused}");
    }
    assert!(trace.exists(), "{refused}");
    assert!(
        refused.contains("epoll") && refused.contains("ulimit -n"),
        "{refused}"
    );
}

#[test]
fn a_port_that_the_system_chooses_is_said() {
    let setting = Setting::new(drop);
    let url = format!("mysql://?socket={}", setting.folder.file("s").display());
    let trace = setting.folder.file("t");
    let capture = Capture::start(&[
        "--server",
        &url,
        "--listen",
        "127.0.0.1:0",
        "--share-identity",
        text(&trace),
    ]);
    let (_, rest) = capture
        .said
        .split_once("capturing 127.0.0.1:")
        .expect("a place");
    let port = rest.split(' ').next().expect("a port");
    let port: u16 = port.parse().expect("a number");
    assert!(std::net::TcpStream::connect(("127.0.0.1", port)).is_ok());
    assert_eq!(capture.stop().code, Some(0));
}

#[test]
fn what_cannot_begin_leaves_nothing_behind() {
    let setting = Setting::new(drop);
    let (trace, listen) = (setting.folder.file("t"), text(&setting.listen).to_owned());
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = taken.local_addr().expect("bound").to_string();
    let said = setting.refused(&["--listen", &port, "--share-identity", text(&trace)]);
    assert!(said.contains("another program listens there"), "{said}");
    assert!(!trace.exists());
    std::fs::write(&trace, "mine").expect("a file");
    let said = setting.refused(&["--listen", &listen, text(&trace)]);
    assert!(said.contains("cannot write"), "{said}");
    assert_eq!(std::fs::read(&trace).expect("still there"), b"mine");
    assert!(!setting.listen.exists());
}
