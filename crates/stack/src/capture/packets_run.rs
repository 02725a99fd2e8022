//! A trace from packets.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use trace::{Capture, Ending};
use wire::{Family, ServerUrl};

use super::counts::Counts;
use super::observer::Observer;
use super::options::Options;
use super::packets::{PORTS, Packet, Packets, Reading, port_of};
use super::run::{Captured, Progress, is_full, trace};
use super::summary::Summary;
use crate::failure::Failure;

/// Packets between two looks at the clock and at the trace's length.
const LOOK: u64 = 4096;

/// What is read, once the first packet of a server was seen.
struct Begun {
    url: ServerUrl,
    reading: Reading,
    observer: Observer,
    began_ns: u64,
    last_ns: u64,
}

/// Read a file's packets to its end, or to that of the capture.
///
/// # Errors
/// A file that is no capture of packets, or has none of the server's; a trace that cannot be made.
pub fn read(
    options: &Options,
    path: &Path,
    url: Option<ServerUrl>,
    pressed: &AtomicBool,
) -> Result<Captured, Failure> {
    let ports = ports(options, url.as_ref())?;
    let packets = Packets::open(path)?;
    let counts = Arc::new(Counts::default());
    let mut progress = Progress::new();
    let (mut begun, mut failed, mut number) = (None::<Begun>, None, 0_u64);
    let whole = packets.read(|packet| {
        number += 1;
        if begun.is_none() {
            match begin(options, url.as_ref(), &ports, &packet, &counts) {
                Ok(new) => begun = new,
                Err(failure) => failed = Some(failure),
            }
        }
        if let Some(begun) = &mut begun {
            begun.reading.take(&packet, &mut begun.observer);
            begun.last_ns = begun.last_ns.max(packet.at_ns);
            counts
                .connections
                .store(begun.reading.connections().into(), Relaxed);
        }
        if number % LOOK == 0 {
            progress.say(&counts);
        }
        let over = match (&begun, options.lasts()) {
            (Some(begun), Some(lasts)) => {
                u128::from(begun.last_ns - begun.began_ns) >= lasts.as_nanos()
            }
            _ => false,
        };
        let full = number % LOOK == 0 && is_full(options);
        failed.is_none() && !over && !full && !pressed.load(Relaxed)
    });
    drop(progress);
    if let Some(failure) = failed {
        return Err(failure);
    }
    let Some(begun) = begun else {
        return Err(none(path, &ports, number, whole.err()));
    };
    let Begun {
        url,
        reading,
        mut observer,
        began_ns,
        last_ns,
    } = begun;
    let read = reading.finish(&mut observer);
    let ending = Ending {
        duration_us: (last_ns - began_ns) / 1000,
        ..Ending::default()
    };
    let (seen, written) = observer.finish(ending.clone());
    let (written, failed) = match written {
        Ok(written) => (Some(written), Ok(())),
        Err(error) => (None, Err(Failure::from(error))),
    };
    let summary = Summary::new(&options.trace, &url, &counts, seen, written, &ending);
    Ok((summary.of_packets(read, whole.err()), failed))
}

/// The ports that the server may have.
fn ports(options: &Options, url: Option<&ServerUrl>) -> Result<Vec<u16>, Failure> {
    match (options.port, url) {
        (Some(port), None) if !PORTS.contains(&port) => Err(Failure::usage(
            format!("--port {port} does not say which protocol is spoken there"),
            format!("add --server mysql://HOST:{port} or postgres://HOST:{port}"),
        )),
        (Some(port), _) => Ok(vec![port]),
        (None, Some(url)) => Ok(vec![url.port]),
        (None, None) => Ok(PORTS.to_vec()),
    }
}

/// Begin with the first packet that is one of a server's.
fn begin(
    options: &Options,
    url: Option<&ServerUrl>,
    ports: &[u16],
    packet: &Packet,
    counts: &Arc<Counts>,
) -> Result<Option<Begun>, Failure> {
    let Some(port) = port_of(packet, ports) else {
        return Ok(None);
    };
    let url = match url {
        Some(url) => url.clone(),
        None => guessed(port)?,
    };
    let began_ns = packet.at_ns;
    let writer = trace(options, &url, Capture::Pcap, began_ns / 1000, began_ns)?;
    let observer = Observer::new(url.family, writer, Arc::clone(counts));
    Ok(Some(Begun {
        url,
        reading: Reading::new(port),
        observer,
        began_ns,
        last_ns: began_ns,
    }))
}

/// The server that usually has a port.
fn guessed(port: u16) -> Result<ServerUrl, Failure> {
    let family = if port == PORTS[1] {
        Family::Postgres
    } else {
        Family::Mysql
    };
    let scheme = super::summary::family_name(family);
    ServerUrl::parse(&format!("{scheme}://127.0.0.1:{port}"))
        .map_err(|error| Failure::failed(error.to_string(), ""))
}

fn none(path: &Path, ports: &[u16], packets: u64, broken: Option<String>) -> Failure {
    let ports: Vec<String> = ports.iter().map(u16::to_string).collect();
    let broken = broken.map_or_else(String::new, |why| format!(" ({why})"));
    Failure::failed(
        format!(
            "{}: none of its {packets} packets has port {}{broken}",
            path.display(),
            ports.join(" or ")
        ),
        "name the server's port with --port; a unix socket has no packets: use --listen or --take-socket",
    )
}
