//! The least that a MySQL client can cost while it sleeps for its answers: one prepared point select, sent and received again and again
//! by blocking calls, with no client logic at all. docs/measurements/2026-11-21-client/client-cpu.md sets `upshift-load` beside it.
//!
//! `client_floor SOCKET DATABASE SECONDS`, as root without a password, on a table `sbtest1` that has a row with id 1.

use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// Protocol 4.1, a database, transactions, authentication of 4.1 and by plugins, no EOF packets.
const CAPABILITIES: u32 = 0x0000_0200 | 0x8 | 0x2000 | 0x8000 | 0x0008_0000 | 0x0100_0000;
const PREPARE: u8 = 0x16;
const EXECUTE: u8 = 0x17;
const LONGLONG: u8 = 8;

fn packet(number: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = (payload.len() as u32).to_le_bytes();
    bytes[3] = number;
    [&bytes[..], payload].concat()
}

fn receive(stream: &mut UnixStream) -> std::io::Result<Vec<u8>> {
    let mut header = [0; 4];
    stream.read_exact(&mut header)?;
    let length = u32::from_le_bytes([header[0], header[1], header[2], 0]);
    let mut payload = vec![0; length as usize];
    stream.read_exact(&mut payload)?;
    Ok(payload)
}

fn log_in(stream: &mut UnixStream, database: &str) -> std::io::Result<()> {
    receive(stream)?;
    let mut payload = CAPABILITIES.to_le_bytes().to_vec();
    payload.extend_from_slice(&(1u32 << 24).to_le_bytes());
    // utf8mb4, and 23 bytes that mean nothing.
    payload.push(45);
    payload.extend_from_slice(&[0; 23]);
    payload.extend_from_slice(b"root\0\0");
    payload.extend_from_slice(database.as_bytes());
    payload.extend_from_slice(b"\0caching_sha2_password\0");
    stream.write_all(&packet(1, &payload))?;
    assert_eq!(receive(stream)?[0], 0, "the server does not let root in");
    Ok(())
}

/// The packet that executes the statement.
fn prepared(stream: &mut UnixStream) -> std::io::Result<Vec<u8>> {
    let sql = b"SELECT c FROM sbtest1 WHERE id=?";
    stream.write_all(&packet(0, &[&[PREPARE][..], sql].concat()))?;
    let answer = receive(stream)?;
    assert_eq!(answer[0], 0, "{}", String::from_utf8_lossy(&answer));
    // The parameter's definition and the column's.
    receive(stream)?;
    receive(stream)?;
    let mut payload = vec![EXECUTE];
    payload.extend_from_slice(&answer[1..5]);
    // No cursor, once, no NULL, types follow.
    payload.extend_from_slice(&[0, 1, 0, 0, 0, 0, 1, LONGLONG, 0]);
    payload.extend_from_slice(&1i64.to_le_bytes());
    Ok(packet(0, &payload))
}

fn cpu_us() -> f64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is a valid timespec that outlives the call, and every process has this clock.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    time.tv_sec as f64 * 1e6 + time.tv_nsec as f64 / 1e3
}

/// Wait without an attempt to read: the server's own read of our request does not wake us for nothing then.
fn wait(stream: &UnixStream) {
    let mut watched = libc::pollfd {
        fd: stream.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: `watched` is one valid pollfd that outlives the call.
    unsafe { libc::poll(&raw mut watched, 1, -1) };
}

fn main() -> std::io::Result<()> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, socket, database, seconds] = &arguments[..] else {
        eprintln!("usage: client_floor SOCKET DATABASE SECONDS");
        std::process::exit(2);
    };
    let time = Duration::from_secs_f64(seconds.parse().expect("a number of seconds"));
    let mut stream = UnixStream::connect(socket)?;
    log_in(&mut stream, database)?;
    let request = prepared(&mut stream)?;
    let mut answer = [0; 4096];
    for polls in [false, true] {
        let (began, before_us) = (Instant::now(), cpu_us());
        let mut count = 0u32;
        while !count.is_multiple_of(64) || began.elapsed() < time {
            stream.write_all(&request)?;
            if polls {
                wait(&stream);
            }
            let read = stream.read(&mut answer)?;
            assert!(read > 0, "the server has hung up");
            count += 1;
        }
        let (qps, cpu_us) = (
            f64::from(count) / began.elapsed().as_secs_f64(),
            (cpu_us() - before_us) / f64::from(count),
        );
        let way = if polls {
            "send, poll, recv"
        } else {
            "send, recv"
        };
        println!("{way}: {cpu_us:.2} us of CPU a statement, {qps:.0} QPS");
    }
    Ok(())
}
