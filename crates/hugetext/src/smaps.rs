//! How much of a range of addresses lies on huge pages, by the kernel's word.

use std::fs::File;
use std::io::Read;
use std::ops::Range;

/// More than the longest line: a mapping's first line has a path of up to 4096 bytes.
const BUFFER_BYTES: usize = 8192;

/// The sum of AnonHugePages of this process's mappings that overlap the range; 0 where /proc cannot be read.
pub fn huge_bytes(range: Range<usize>) -> usize {
    // A path this short is handed to the kernel from the stack.
    File::open("/proc/self/smaps").map_or(0, |file| huge_bytes_in(file, &range))
}

fn huge_bytes_in(mut smaps: impl Read, range: &Range<usize>) -> usize {
    let (mut buffer, mut held) = ([0_u8; BUFFER_BYTES], 0);
    let (mut within, mut sum) = (false, 0);
    loop {
        let read = smaps.read(&mut buffer[held..]).unwrap_or(0);
        if read == 0 {
            return sum;
        }
        held += read;
        let mut done = 0;
        while let Some(length) = buffer[done..held].iter().position(|&byte| byte == b'\n') {
            let line = &buffer[done..done + length];
            done += length + 1;
            if let Some(mapping) = mapping(line) {
                within = mapping.start < range.end && mapping.end > range.start;
            } else if within {
                sum += line
                    .strip_prefix(b"AnonHugePages:")
                    .and_then(kib)
                    .unwrap_or(0)
                    * 1024;
            }
        }
        buffer.copy_within(done..held, 0);
        held -= done;
    }
}

/// The addresses in the first line of a mapping's entry; no other line begins with two numbers and a `-` between them.
fn mapping(line: &[u8]) -> Option<Range<usize>> {
    let first = line.split(|&byte| byte == b' ').next()?;
    let mut ends = first.splitn(2, |&byte| byte == b'-');
    let mut number = || usize::from_str_radix(std::str::from_utf8(ends.next()?).ok()?, 16).ok();
    Some(number()?..number()?)
}

/// `      4096 kB`.
fn kib(text: &[u8]) -> Option<usize> {
    let text = std::str::from_utf8(text).ok()?;
    text.trim().strip_suffix("kB")?.trim_end().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMAPS: &str = "\
7f0000000000-7f0000400000 r-xp 00000000 00:00 0 \n\
Size:               4096 kB\nAnonHugePages:      2048 kB\nVmFlags: rd wr\n\
7f0000400000-7f0000600000 rw-p 00000000 00:00 0  [heap]\n\
AnonHugePages:      4096 kB\n\
7f0000600000-7f0000800000 rw-p 00000000 00:00 0 \n\
AnonHugePages:      8192 kB\n";

    fn found(smaps: impl Read, first: usize, end: usize) -> usize {
        huge_bytes_in(smaps, &(first..end)) >> 20
    }

    #[test]
    fn huge_pages_are_those_of_the_mappings_within() {
        let of = |first, end| found(SMAPS.as_bytes(), first, end);
        assert_eq!(of(0x7f00_0000_0000, 0x7f00_0040_0000), 2);
        assert_eq!(of(0x7f00_0020_0000, 0x7f00_0060_0000), 6);
        assert_eq!(of(0x7f00_0080_0000, 0x7f00_0090_0000), 0);
    }

    #[test]
    fn lines_may_come_in_pieces() {
        struct Dripping(usize);
        impl Read for Dripping {
            fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
                let piece = &SMAPS.as_bytes()[self.0..(self.0 + 7).min(SMAPS.len())];
                buffer[..piece.len()].copy_from_slice(piece);
                self.0 += piece.len();
                Ok(piece.len())
            }
        }
        let all = found(Dripping(0), 0x7f00_0000_0000, 0x7f00_0080_0000);
        assert_eq!(all, 14);
    }

    #[test]
    fn a_line_without_an_end_is_no_endless_loop() {
        let long = [b'x'; 3 * BUFFER_BYTES];
        assert_eq!(found(&long[..], 0, 1), 0);
    }
}
