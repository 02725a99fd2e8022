//! A capture from its begin to its end.

use std::io::{IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use super::counts::Counts;
use super::options::Options;
use super::place::Place;
use super::proxy::batch::{Batches, What, spool};
use super::proxy::clock::Clock;
use super::proxy::{Proxy, Stop};
use super::{identity, probe, take};
use crate::failure::Failure;

/// How often the end is looked for.
const LOOK: Duration = Duration::from_millis(50);
/// Of a socket that all of the machine's users may use, as servers make theirs.
const EVERYBODY: u32 = 0o777;
const ONLY_US: u32 = 0o700;

/// Capture, and say what was captured.
///
/// # Errors
/// Whatever is refused before the capture, and a trace that cannot be written.
pub fn run(options: &Options) -> Result<(), Failure> {
    let url = options.url()?.expect("a proxy has a server");
    let pressed = Arc::new(AtomicBool::new(false));
    for signal in [
        signal_hook::consts::SIGINT,
        signal_hook::consts::SIGTERM,
        signal_hook::consts::SIGHUP,
    ] {
        signal_hook::flag::register(signal, Arc::clone(&pressed))
            .map_err(|error| Failure::failed(error.to_string(), ""))?;
    }
    let server = Place::of(&url);
    let (listener, address, taken) = match &options.listen {
        Some(listen) => {
            let shared = identity::User::own().is_root() || options.share_identity;
            identity::check(listen, &server, shared, options.share_identity)?;
            let address = probe::probe(&server, url.family)?;
            let mode = if shared { EVERYBODY } else { ONLY_US };
            (listen.listen(mode)?, address, None)
        }
        None => {
            let Place::File(path) = &server else {
                return Err(Failure::usage("--take-socket needs the server's socket", "mysql://?socket=PATH"));
            };
            let (found, word) = take::check(path)?;
            if let Some(word) = word {
                eprintln!("{word}");
            }
            identity::check(&server, &server, true, options.share_identity)?;
            probe::probe(&server, url.family)?;
            let aside = Place::File(take::aside(path)).addresses()?.remove(0);
            let (listener, taken) = take::take(path, &found)?;
            (listener, aside, Some(taken))
        }
    };
    let counts = Arc::new(Counts::default());
    let (spool, batches) = spool(options.lossy);
    let clock = Clock::start();
    let drain = Duration::from_secs(options.drain_seconds);
    let (proxy, stop) = Proxy::new(listener, address, spool, clock, Arc::clone(&counts), drain)
        .map_err(|error| Failure::failed(format!("epoll: {error}"), ""))?;
    let observer = std::thread::spawn(move || observe(&batches));
    let forwarder = std::thread::spawn(move || proxy.run());
    let at = options.listen.as_ref().unwrap_or(&server);
    eprintln!("capturing {at} into {}: Ctrl-C ends it", options.trace.display());
    let ends = options.lasts().map(|lasts| Instant::now() + lasts);
    watch(&counts, &pressed, ends, || forwarder.is_finished());
    if let Some(taken) = taken {
        if let Some(word) = taken.give_back()? {
            eprintln!("{word}");
        }
    }
    end(&stop, &pressed, || forwarder.is_finished());
    let forwarded = forwarder
        .join()
        .map_err(|_| Failure::failed("forwarding broke", ""))?
        .map_err(|error| Failure::failed(format!("epoll: {error}"), ""))?;
    let _ = observer.join();
    println!(
        "{} connections, {} bytes sent, {} received, added p50 {} us, p99 {} us, {} forwarded; waited {:?}, unseen {}",
        counts.connections.load(Relaxed),
        counts.sent.load(Relaxed),
        counts.received.load(Relaxed),
        forwarded.added_ns.value_at_quantile(0.5) / 1000,
        forwarded.added_ns.value_at_quantile(0.99) / 1000,
        forwarded.added_ns.len(),
        forwarded.waited,
        forwarded.unseen,
    );
    Ok(())
}

fn observe(batches: &Batches) {
    while let Ok(batch) = batches.full.recv() {
        for piece in batch.pieces() {
            if let What::Bytes(_, start, len) = piece.what {
                std::hint::black_box(batch.bytes(start, len));
            }
        }
        batches.done(batch);
    }
}

fn watch(counts: &Counts, pressed: &AtomicBool, ends: Option<Instant>, gone: impl Fn() -> bool) {
    let is_terminal = std::io::stderr().is_terminal();
    let mut next = Instant::now() + Duration::from_secs(1);
    while !pressed.swap(false, Relaxed) && !gone() && ends.is_none_or(|ends| Instant::now() < ends)
    {
        std::thread::sleep(LOOK);
        if is_terminal && Instant::now() >= next {
            next += Duration::from_secs(1);
            eprint!("\r\x1b[K{} connections", counts.connections.load(Relaxed));
            let _ = std::io::stderr().flush();
        }
    }
}

fn end(stop: &Stop, pressed: &AtomicBool, gone: impl Fn() -> bool) {
    stop.ask();
    while !gone() {
        std::thread::sleep(LOOK);
        if pressed.swap(false, Relaxed) {
            stop.ask();
        }
    }
}
