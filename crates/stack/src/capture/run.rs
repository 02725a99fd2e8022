//! A capture from its begin to its end.

use std::fs;
use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use trace::{Begin, Capture, Ending, TraceWriter};
use wire::{Family, ServerUrl};

use super::counts::Counts;
use super::identity::first_logins;
use super::listening::Listening;
use super::observer::Observer;
use super::options::Options;
use super::place::Place;
use super::proxy::batch::{Batch, Batches, What, spool};
use super::proxy::clock::Clock;
use super::proxy::tls::Ends;
use super::proxy::{Proxy, Stop};
use super::summary::{Summary, family_name};
use super::taker::Taker;
use super::{packets_run, sys};
use crate::failure::Failure;
use crate::output;

/// How often the end is looked for.
const LOOK: Duration = Duration::from_millis(50);
/// How often progress is said.
const PROGRESS: Duration = Duration::from_secs(1);

/// Capture, and say what was captured.
///
/// # Errors
/// Whatever is refused before the capture, and a trace that could not be written to its end.
pub fn run(options: &Options) -> Result<(), Failure> {
    let url = options.url()?;
    let pressed = sys::pressed()?;
    let (summary, written) = match (&options.pcap, &options.interface, url) {
        (Some(path), _, url) => packets_run::read(options, path, url, &pressed)?,
        (None, Some(interface), url) => packets_run::listen(options, interface, url, &pressed)?,
        (None, None, Some(url)) => proxy(options, &url, &pressed)?,
        (None, None, None) => {
            return Err(Failure::usage(
                "--server is missing",
                "name the server that the proxy forwards to, such as --server mysql://HOST:PORT",
            ));
        }
    };
    let text = if options.json {
        serde_json::to_string(&summary)
            .map_err(|error| Failure::failed(format!("cannot print the summary: {error}"), ""))?
    } else {
        summary.text()
    };
    output::result(&text)?;
    written
}

/// The summary, and what became of the trace.
pub type Captured = (Summary, Result<(), Failure>);

/// Begin a trace.
///
/// # Errors
/// A file that is there, or cannot be made.
pub fn trace(
    options: &Options,
    family: Family,
    capture: Capture,
    began_unix_us: u64,
    began_ns: u64,
) -> Result<TraceWriter, Failure> {
    let begin = Begin {
        family: family_name(family).to_owned(),
        began_unix_us,
        capture,
        masked: options.mask,
        log: None,
    };
    let writer = TraceWriter::create(&options.trace, &begin, began_ns)?;
    if !options.lossy {
        writer.waits();
    }
    Ok(writer)
}

/// Whether the trace has grown to what it may have.
#[must_use]
pub fn is_full(options: &Options) -> bool {
    let largest = options.max_bytes;
    largest.is_some_and(|largest| {
        fs::metadata(&options.trace).is_ok_and(|found| found.len() >= largest)
    })
}

fn proxy(options: &Options, url: &ServerUrl, pressed: &AtomicBool) -> Result<Captured, Failure> {
    sys::raise_file_limit();
    let ends = options.tls_ends(url)?;
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let began_unix_us = u64::try_from(now.as_micros()).unwrap_or_default();
    let clock = Clock::start();
    let writer = trace(options, url.family, Capture::Proxy, began_unix_us, 0)?;
    // A trace of nothing would stand in the way of the next attempt.
    let opened = Listening::open(options, url, ends.as_ref()).inspect_err(|_| {
        let _ = fs::remove_file(&options.trace);
    });
    let (listening, listener) = opened?;
    listening.words.iter().for_each(|word| output::say(word));
    for word in ends.iter().flat_map(Ends::words) {
        output::say(&word);
    }
    if url.family == Family::Mysql {
        let dials = ends.as_ref().is_some_and(|ends| ends.client().is_some());
        let word = first_logins(&listening.place, &Place::of(url), dials);
        word.into_iter().for_each(output::say);
    }
    let counts = Arc::new(Counts::default());
    let (spool, batches) = spool(options.lossy);
    let drain = Duration::from_secs(options.drain_seconds);
    let server = listening.server.clone();
    let mut observer = Observer::new(url.family, writer, Arc::clone(&counts));
    if ends.is_some() {
        observer.decrypts();
    }
    let (counted, ends_tls) = (Arc::clone(&counts), ends.is_some());
    let proxy = Proxy::new(listener, server, ends, spool, clock, counted, drain);
    let (proxy, stop) = match proxy {
        Ok(made) => made,
        Err(error) => {
            let _ = listening.leave();
            let _ = fs::remove_file(&options.trace);
            return Err(Failure::failed(
                format!("cannot watch sockets (epoll): {error}"),
                "allow this program more open files (ulimit -n)",
            ));
        }
    };
    let observing = thread::spawn({
        let counts = Arc::clone(&counts);
        move || observe(observer, &batches, &counts)
    });
    let forwarding = thread::spawn(move || proxy.run());
    output::say(&format!(
        "capturing {} into {}: Ctrl-C ends it",
        listening.place,
        options.trace.display()
    ));
    wait(options, &counts, pressed, &|| {
        forwarding.is_finished() || observing.is_finished()
    });
    let left = listening.leave();
    end(&stop, pressed, || forwarding.is_finished());
    let broke = |_| {
        Failure::failed(
            "a fault of this program ended the capture",
            "report it, with what was printed above",
        )
    };
    let forwarded = forwarding.join().map_err(broke)?;
    let forwarded = forwarded
        .map_err(|error| Failure::failed(format!("cannot watch sockets (epoll): {error}"), ""))?;
    let observer = observing.join().map_err(broke)?;
    let ending = Ending {
        duration_us: clock.at_ns(Instant::now()) / 1000,
        added_us_p50: Some(forwarded.added_us(0.5)),
        added_us_p99: Some(forwarded.added_us(0.99)),
        ..Ending::default()
    };
    let (seen, written) = observer.finish(ending.clone());
    let (written, failed) = match written {
        Ok(written) => (Some(written), Ok(())),
        Err(error) => (None, Err(Failure::from(error))),
    };
    let summary = Summary::new(
        &options.trace,
        url.family,
        Some(url),
        &counts,
        seen,
        written,
        &ending,
    );
    if let Some(word) = left? {
        output::say(&word);
    }
    Ok((summary.proxied(&forwarded, &counts, ends_tls), failed))
}

/// Read what was forwarded, until there is no more.
fn observe(mut observer: Observer, batches: &Batches, counts: &Counts) -> Observer {
    while let Ok(batch) = batches.full.recv() {
        // Where nothing can be written, nothing needs to be read: the traffic goes on.
        if counts.failure.get().is_none() {
            read(&mut observer, &batch);
            if let Some(why) = observer.failure() {
                output::say(&format!(
                    "WARNING: the trace ends here, the traffic goes on: {why}"
                ));
                let _ = counts.failure.set(why);
            }
        }
        batches.done(batch);
    }
    observer
}

fn read(taker: &mut dyn Taker, batch: &Batch) {
    for piece in batch.pieces() {
        let (connection, at_ns) = (piece.connection, piece.at_ns);
        match piece.what {
            What::Open => taker.open(connection, at_ns, false),
            What::Bytes(side, start, len) => {
                taker.bytes(connection, side, batch.bytes(start, len), at_ns);
            }
            What::Gap(side, missing) => taker.gap(connection, side, missing, at_ns),
            What::End => taker.end(connection, at_ns, true),
        }
    }
}

/// Until something ends the capture.
fn wait(options: &Options, counts: &Counts, pressed: &AtomicBool, gone: &dyn Fn() -> bool) {
    let ends = options.lasts().map(|lasts| Instant::now() + lasts);
    let mut progress = Progress::new();
    loop {
        let over = ends.is_some_and(|ends| Instant::now() >= ends);
        if over || pressed.swap(false, Relaxed) || gone() || is_full(options) {
            return;
        }
        thread::sleep(LOOK);
        progress.say(counts);
    }
}

/// Until all connections have ended; being asked once more ends them at once.
fn end(stop: &Stop, pressed: &AtomicBool, gone: impl Fn() -> bool) {
    stop.ask();
    while !gone() {
        thread::sleep(LOOK / 10);
        if pressed.swap(false, Relaxed) {
            stop.ask();
        }
    }
}

/// The line of progress, on a terminal only.
pub struct Progress {
    on: bool,
    next: Instant,
}

impl Progress {
    /// Nothing was said yet.
    #[must_use]
    pub fn new() -> Self {
        Self {
            on: std::io::stderr().is_terminal(),
            next: Instant::now() + PROGRESS,
        }
    }

    /// Say it, where it is time.
    pub fn say(&mut self, counts: &Counts) {
        if self.on && Instant::now() >= self.next {
            self.next = Instant::now() + PROGRESS;
            output::piece(&format!("\r\x1b[K{}", counts.line()));
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.on {
            output::piece("\r\x1b[K");
        }
    }
}
