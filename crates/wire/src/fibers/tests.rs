//! Fibers against the other ends of socket pairs.

use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::rc::Rc;

use socket2::{Domain, Socket, Type};

use super::*;

/// A server's side that sends back what it gets, `bytes` at a time, until the end.
fn echo(bytes: usize) -> UnixStream {
    let (ours, mut theirs) = UnixStream::pair().expect("pair");
    std::thread::spawn(move || {
        let mut buffer = vec![0; bytes];
        while theirs.read_exact(&mut buffer).is_ok() {
            theirs.write_all(&buffer).expect("answer");
        }
    });
    ours
}

/// The answer, and the system calls that it took.
fn exchange(stream: &UnixStream, request: &[u8]) -> (Vec<u8>, u64) {
    let (mut sent, mut syscalls) = (0, 0);
    while sent < request.len() {
        sent += send(stream.as_raw_fd(), &request[sent..], None)
            .expect("a fiber")
            .result
            .expect("sent");
    }
    let (mut answer, mut read) = (vec![0; request.len()], 0);
    while read < answer.len() {
        let more = receive(stream.as_raw_fd(), &mut answer[read..], None).expect("a fiber");
        syscalls += more.syscalls;
        read += more.result.expect("received");
    }
    (answer, syscalls)
}

#[test]
fn each_fiber_gets_its_own_answers() {
    let bodies = (0..50u8).map(|number| -> Body<u64> {
        Box::new(move || {
            let stream = echo(100);
            for round in 0..100u8 {
                let request = [number ^ round; 100];
                assert_eq!(exchange(&stream, &request).0, request);
            }
            0
        })
    });
    run_fibers(bodies.collect()).expect("fibers");
}

#[test]
fn a_batch_shares_its_system_calls_and_each_is_counted_once() {
    let bodies = (0..20u8).map(|number| -> Body<u64> {
        Box::new(move || {
            let stream = echo(8);
            let mut syscalls = 0;
            for _ in 0..50 {
                let (answer, made) = exchange(&stream, &[number; 8]);
                assert_eq!(answer, [number; 8]);
                syscalls += made;
            }
            syscalls
        })
    });
    let syscalls: u64 = run_fibers(bodies.collect()).expect("fibers").iter().sum();
    // At least one for each round of the slowest, at most one for each of the 1000 answers. Blocking makes two for each.
    assert!((50..=1000).contains(&syscalls), "{syscalls}");
}

#[test]
fn answers_that_are_there_take_one_wait_a_round() {
    let bodies = (0..20u8).map(|number| -> Body<u64> {
        let (ours, mut theirs) = UnixStream::pair().expect("pair");
        for _ in 0..50 {
            theirs.write_all(&[number; 8]).expect("answer");
        }
        Box::new(move || {
            let exchanges = (0..50).map(|_| exchange(&ours, &[number; 8]));
            let syscalls = exchanges.map(|(answer, made)| {
                assert_eq!(answer, [number; 8]);
                made
            });
            let syscalls = syscalls.sum();
            drop(theirs);
            syscalls
        })
    });
    let syscalls: u64 = run_fibers(bodies.collect()).expect("fibers").iter().sum();
    assert_eq!(syscalls, 50);
}

#[test]
fn a_request_that_is_not_taken_holds_up_nobody_else() {
    let (stuck, mut theirs) = UnixStream::pair().expect("pair");
    stuck.set_nonblocking(true).expect("set");
    let mut filled = 0;
    while let Ok(more) = (&stuck).write(&[0; 4096]) {
        filled += more;
    }
    stuck.set_nonblocking(false).expect("set");
    let (others_ended, ended) = std::sync::mpsc::channel();
    // Its server reads only when the other connection has had all of its answers.
    let server = std::thread::spawn(move || {
        let went_on = ended.recv_timeout(Duration::from_secs(20)).is_ok();
        let mut heard = vec![0; filled + 8];
        theirs.read_exact(&mut heard).expect("the request");
        theirs.write_all(&heard[filled..]).expect("answer");
        went_on
    });
    let waits: Body<()> = Box::new(move || {
        assert_eq!(exchange(&stuck, b"whatever").0, b"whatever");
    });
    let goes_on: Body<()> = Box::new(move || {
        let stream = echo(8);
        for _ in 0..100 {
            assert_eq!(exchange(&stream, b"whatever").0, b"whatever");
        }
        others_ended.send(()).expect("the server waits");
    });
    run_fibers(vec![waits, goes_on]).expect("fibers");
    assert!(server.join().expect("server"));
}

#[test]
fn a_request_and_its_answer_are_one_system_call() {
    let body: Body<u64> = Box::new(|| {
        let stream = echo(8);
        (0..50).map(|_| exchange(&stream, b"whatever").1).sum()
    });
    assert_eq!(run_fibers(vec![body]).expect("fibers"), [50]);
}

#[test]
fn what_no_receive_follows_is_sent_all_the_same() {
    let (ours, mut theirs) = UnixStream::pair().expect("pair");
    let body: Body<()> = Box::new(move || {
        for word in [&b"close 1 "[..], b"close 2 ", b"quit"] {
            assert_eq!(
                send(ours.as_raw_fd(), word, None)
                    .expect("a fiber")
                    .result
                    .expect("sent"),
                word.len()
            );
        }
        flush();
    });
    run_fibers(vec![body]).expect("fibers");
    let mut words = String::new();
    theirs
        .read_to_string(&mut words)
        .expect("all until the end");
    assert_eq!(words, "close 1 close 2 quit");
}

#[test]
fn a_request_longer_than_the_sockets_buffer_goes_through() {
    let body: Body<bool> = Box::new(|| {
        let stream = echo(2_000_000);
        let request: Vec<u8> = (0..2_000_000u32).map(|number| number as u8).collect();
        exchange(&stream, &request).0 == request
    });
    assert_eq!(run_fibers(vec![body]).expect("fibers"), [true]);
}

#[test]
fn a_request_is_left_alone_until_the_kernel_has_taken_it() {
    let (ours, mut theirs) = UnixStream::pair().expect("pair");
    // No room for the request until the server reads.
    ours.set_nonblocking(true).expect("set");
    let mut filled = 0;
    while let Ok(more) = (&ours).write(&[0; 4096]) {
        filled += more;
    }
    ours.set_nonblocking(false).expect("set");
    let (others_ended, ended) = std::sync::mpsc::channel();
    let server = std::thread::spawn(move || {
        theirs.write_all(b"unasked.").expect("written");
        ended.recv().expect("the other connection ends");
        let mut heard = vec![0; filled + 16];
        theirs.read_exact(&mut heard).expect("both requests");
        heard.split_off(filled)
    });
    let body: Body<()> = Box::new(move || {
        for request in [b"request1", b"request2"] {
            let _ = send(ours.as_raw_fd(), request, None);
            if request == b"request1" {
                let said = receive(ours.as_raw_fd(), &mut [0; 8], None).expect("a fiber");
                assert_eq!(said.result.expect("received"), 8);
            }
        }
        flush();
    });
    // What was not asked for has arrived by the time that this one has had its answers.
    let other: Body<()> = Box::new(move || {
        let stream = echo(8);
        for _ in 0..10 {
            exchange(&stream, b"whatever");
        }
        others_ended.send(()).expect("the server waits");
    });
    run_fibers(vec![body, other]).expect("fibers");
    assert_eq!(server.join().expect("server"), b"request1request2");
}

#[test]
fn a_limit_ends_a_wait_and_leaves_the_others_alone() {
    let body: Body<()> = Box::new(|| {
        let (ours, _theirs) = UnixStream::pair().expect("pair");
        let _ = send(ours.as_raw_fd(), b"ping", None);
        let limit = Some(Duration::from_millis(20));
        let received = receive(ours.as_raw_fd(), &mut [0; 8], limit).expect("a fiber");
        let error = received.result.expect_err("silence");
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    });
    let other: Body<()> = Box::new(|| {
        let stream = echo(8);
        for _ in 0..100 {
            assert_eq!(exchange(&stream, b"whatever").0, b"whatever");
        }
    });
    run_fibers(vec![body, other]).expect("fibers");
}

#[test]
fn a_single_body_runs_without_a_fiber() {
    let body: Body<bool> = Box::new(|| HERE.get().is_none());
    assert_eq!(run(vec![body]).expect("runs"), [true]);
    assert!(run(Vec::<Body<()>>::new()).expect("nothing").is_empty());
}

#[test]
fn a_closed_connection_is_an_error_and_not_a_wait() {
    let body: Body<bool> = Box::new(|| {
        let (ours, theirs) = UnixStream::pair().expect("pair");
        drop(theirs);
        let _ = send(ours.as_raw_fd(), b"ping", None);
        let received = receive(ours.as_raw_fd(), &mut [0; 8], None).expect("a fiber");
        matches!(received.result, Ok(0) | Err(_))
    });
    assert_eq!(run_fibers(vec![body]).expect("fibers"), [true]);
}

#[test]
fn sleeping_fibers_do_not_hold_each_other_up() {
    let asleep = Rc::new(Cell::new(0));
    let bodies = (0..20).map(|_| -> Body<()> {
        let asleep = Rc::clone(&asleep);
        Box::new(move || {
            asleep.set(asleep.get() + 1);
            sleep(Duration::from_millis(1));
            assert_eq!(asleep.get(), 20, "nobody wakes before all sleep");
        })
    });
    run_fibers(bodies.collect()).expect("fibers");
}

#[test]
fn a_server_that_accepts_late_holds_nobody_up() {
    let folder = tempfile::tempdir().expect("a folder");
    let address = SockAddr::unix(folder.path().join("s")).expect("a short path");
    let socket = || Socket::new(Domain::UNIX, Type::STREAM, None).expect("a socket");
    let listener = socket();
    listener.bind(&address).expect("a free path");
    listener.listen(0).expect("listens");
    // Nobody accepts, so that the queue is full sooner or later.
    let mut queued = Vec::new();
    loop {
        let stream = socket();
        stream.set_nonblocking(true).expect("set");
        if stream.connect(&address).is_err() {
            break;
        }
        queued.push(stream);
    }
    let others = queued.len();
    let waits: Body<()> = Box::new(move || {
        let stream = socket();
        connect(stream.as_raw_fd(), &address, None)
            .expect("a fiber")
            .expect("accepted");
    });
    let accepting = listener.try_clone().expect("a second descriptor");
    // On the same thread: it gets to accept only because the other one's connect does not block.
    let accepts: Body<()> = Box::new(move || {
        sleep(Duration::from_millis(1));
        for _ in 0..others {
            accepting.accept().expect("a connection");
        }
    });
    run_fibers(vec![waits, accepts]).expect("fibers");
}

#[test]
fn a_panic_waits_for_the_others() {
    let (ended, noted) = (std::sync::Arc::default(), 1);
    let others: std::sync::Arc<std::sync::atomic::AtomicU32> = std::sync::Arc::clone(&ended);
    let bodies: Vec<Body<()>> = vec![
        Box::new(|| panic!("first")),
        Box::new(move || {
            sleep(Duration::from_millis(1));
            others.store(noted, std::sync::atomic::Ordering::SeqCst);
        }),
    ];
    assert!(catch_unwind(AssertUnwindSafe(|| run_fibers(bodies))).is_err());
    assert_eq!(ended.load(std::sync::atomic::Ordering::SeqCst), noted);
    assert!(HERE.get().is_none());
}
