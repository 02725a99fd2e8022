//! Packets of a pcap or pcapng file.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use pcap_file::pcap::PcapReader;
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};
use pcap_file::pcapng::{Block, PcapNgReader};
use pcap_file::{DataLink, PcapError, TsResolution};

use crate::failure::Failure;

/// A packet, as far as the file has it.
pub struct Packet<'a> {
    pub link: DataLink,
    pub at_ns: u64,
    pub data: &'a [u8],
    /// Bytes that it had on the wire.
    pub whole: usize,
}

/// A source of bytes: a file, stdin, or another program.
pub type Source = Box<dyn Read>;

enum Format {
    Pcap(Box<PcapReader<Source>>),
    PcapNg(Box<PcapNgReader<Source>>),
}

/// An open file.
pub struct Packets(Format);

/// How reading a file ended.
pub type Whole = Result<(), String>;

const HINT: &str = "--pcap reads what tcpdump -w or dumpcap wrote (pcap or pcapng)";

impl Packets {
    /// Open a file; `-` is stdin, which ends when somebody presses.
    ///
    /// # Errors
    /// The system's; a file that is no pcap.
    pub fn open(path: &Path, pressed: &Arc<AtomicBool>) -> Result<Self, Failure> {
        let name = path.display().to_string();
        let opened: io::Result<Source> = if path.as_os_str() == "-" {
            Stdin::new(pressed).map(|stdin| Box::new(stdin) as Source)
        } else {
            File::open(path).map(|file| Box::new(file) as Source)
        };
        let failed = |error| Failure::failed(format!("{name}: {error}"), HINT);
        Self::of(opened.map_err(failed)?, &name)
    }

    /// What comes out of a source with this name.
    ///
    /// # Errors
    /// The system's; a source of something else.
    pub fn of(mut source: Source, name: &str) -> Result<Self, Failure> {
        let failed = |error: io::Error| Failure::failed(format!("{name}: {error}"), HINT);
        let mut magic = Vec::new();
        source
            .by_ref()
            .take(4)
            .read_to_end(&mut magic)
            .map_err(failed)?;
        let source: Source = Box::new(io::Cursor::new(magic.clone()).chain(source));
        let no_pcap = |error: PcapError| {
            Failure::failed(format!("{name} is not a capture of packets: {error}"), HINT)
        };
        let format = match magic.as_slice() {
            [0x0a, 0x0d, 0x0d, 0x0a] => {
                Format::PcapNg(Box::new(PcapNgReader::new(source).map_err(no_pcap)?))
            }
            _ => Format::Pcap(Box::new(PcapReader::new(source).map_err(no_pcap)?)),
        };
        Ok(Self(format))
    }

    /// Hand every packet on, until `take` says that it was enough; none for one in a block of pcapng that is not read: a simple one, which
    /// has no time, or one of the obsolete form. An error says how the file broke off: the packets before it stand.
    pub fn read(mut self, mut take: impl FnMut(Option<Packet>) -> bool) -> Whole {
        let broken = |error: &PcapError| match error {
            PcapError::IoError(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                "the data ends within a packet".to_owned()
            }
            error => format!("the data is damaged: {error}"),
        };
        match &mut self.0 {
            Format::Pcap(reader) => {
                let header = reader.header();
                let unit_ns = match header.ts_resolution {
                    TsResolution::MicroSecond => 1000,
                    TsResolution::NanoSecond => 1,
                };
                // The checked packets of the library refuse those that a short --snapshot-length cut.
                while let Some(packet) = reader.next_raw_packet() {
                    let packet = packet.map_err(|error| broken(&error))?;
                    let at_ns = u64::from(packet.ts_sec) * 1_000_000_000
                        + u64::from(packet.ts_frac) * unit_ns;
                    let more = take(Some(Packet {
                        link: header.datalink,
                        at_ns,
                        data: &packet.data,
                        whole: packet.orig_len as usize,
                    }));
                    if !more {
                        break;
                    }
                }
            }
            Format::PcapNg(reader) => loop {
                let interfaces: Vec<(DataLink, u8)> =
                    reader.interfaces().iter().map(link_and_unit).collect();
                let Some(block) = reader.next_block() else {
                    break;
                };
                let packet = match block.map_err(|error| broken(&error))? {
                    Block::EnhancedPacket(packet) => packet,
                    Block::SimplePacket(_) | Block::Packet(_) => {
                        if take(None) {
                            continue;
                        }
                        break;
                    }
                    _ => continue,
                };
                let Some(&(link, unit)) = interfaces.get(packet.interface_id as usize) else {
                    return Err(
                        "the data is damaged: a packet names an interface that is not there"
                            .to_owned(),
                    );
                };
                // The library hands the count of units on as if they were nanoseconds.
                let at_ns = nanoseconds(packet.timestamp.as_nanos(), unit);
                let more = take(Some(Packet {
                    link,
                    at_ns,
                    data: &packet.data,
                    whole: packet.original_len as usize,
                }));
                if !more {
                    break;
                }
            },
        }
        Ok(())
    }
}

/// A pipe may bring nothing for hours: it is not waited for without a look at who asks for the end.
struct Stdin {
    file: File,
    pressed: Arc<AtomicBool>,
}

impl Stdin {
    /// How often is looked, in milliseconds.
    const LOOK_MS: libc::c_int = 100;

    fn new(pressed: &Arc<AtomicBool>) -> io::Result<Self> {
        Ok(Self {
            file: io::stdin().as_fd().try_clone_to_owned()?.into(),
            pressed: Arc::clone(pressed),
        })
    }
}

impl Read for Stdin {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while !self.pressed.load(Relaxed) {
            let mut watched = libc::pollfd {
                fd: self.file.as_raw_fd(),
                events: libc::POLLIN,
                revents: 0,
            };
            // SAFETY: there is one pollfd, which outlives the call.
            match unsafe { libc::poll(&raw mut watched, 1, Self::LOOK_MS) } {
                0 => {}
                1.. => return self.file.read(buffer),
                _ => match io::Error::last_os_error() {
                    error if error.kind() == ErrorKind::Interrupted => {}
                    error => return Err(error),
                },
            }
        }
        Ok(0)
    }
}

/// An interface's kind of frames and its option if_tsresol, microseconds where it has none.
fn link_and_unit(interface: &InterfaceDescriptionBlock) -> (DataLink, u8) {
    let unit = interface.options.iter().find_map(|option| match option {
        InterfaceDescriptionOption::IfTsResol(unit) => Some(*unit),
        _ => None,
    });
    (interface.linktype, unit.unwrap_or(6))
}

/// Units of 10^-n, or of 2^-n where the highest bit is set, as if_tsresol has them.
fn nanoseconds(count: u128, unit: u8) -> u64 {
    let exponent = u32::from(unit & 0x7f);
    let second = match unit & 0x80 {
        0 => 10_u128.checked_pow(exponent),
        _ => 2_u128.checked_pow(exponent),
    };
    let ns = second.and_then(|second| Some(count.checked_mul(1_000_000_000)? / second));
    ns.and_then(|ns| u64::try_from(ns).ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_of_time_are_those_of_the_interface() {
        assert_eq!(nanoseconds(1_500_000, 6), 1_500_000_000);
        assert_eq!(nanoseconds(1_500_000_000, 9), 1_500_000_000);
        assert_eq!(nanoseconds(3, 0x81), 1_500_000_000);
        assert_eq!(nanoseconds(3, 127), 0);
    }

    #[test]
    fn what_is_no_capture_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("pcap");
        let nobody = Arc::new(AtomicBool::new(false));
        for content in [
            &b"UPSHTRCE and more, so that it is long enough"[..],
            b"",
            b"\x0a\x0d\x0d\x0a",
        ] {
            std::fs::write(&path, content).expect("a file");
            let failure = Packets::open(&path, &nobody).err().expect("no pcap");
            assert!(failure.message.contains("is not a capture of packets"));
            assert_eq!(failure.hint, HINT);
        }
        std::fs::remove_file(&path).expect("removes");
        let failure = Packets::open(&path, &nobody).err().expect("not there");
        assert!(failure.message.contains("No such file"));
    }
}
