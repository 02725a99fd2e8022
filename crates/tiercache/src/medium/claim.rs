//! Taking a file or a device for the tier: it must be ours alone, and hold nothing but an earlier tier.
//!
//! A tier writes to its superblock and from `HEAD_BYTES` on, never between: whatever stands there is somebody else's, be
//! it that the superblock of a tier of long ago still stands before it (mkfs.ext4 and GPT leave the first bytes).

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, FileTypeExt};
use std::path::Path;

use crate::own::OwnFile;
use crate::private;

/// First eight bytes of a tier.
pub const MAGIC: u64 = u64::from_le_bytes(*b"UPSTIERF");
/// Bytes of the superblock.
pub const SUPER_BYTES: usize = 80;
/// The pages begin here: past every place where a file system, volume manager or partition table begins.
pub const HEAD_BYTES: u64 = 2 << 20;
/// RAID 0.90 and 1.0, GPT's copy and half of ZFS's labels stand at the end.
const TAIL_BYTES: u64 = 2 << 20;
/// Between head and tail, so many places are looked at.
const SAMPLES: u64 = 256;
const SAMPLE_BYTES: u64 = 4096;

/// What stands at which offset (from blkid's tables), for a message that names it.
const SIGNATURES: &[(usize, &[u8], &str)] = &[
    (0, b"XFSB", "an XFS file system"),
    (0x438, &[0x53, 0xef], "an ext file system"),
    (0x10040, b"_BHRfS_M", "a btrfs file system"),
    (0x400, &[0x10, 0x20, 0xf5, 0xf2], "an F2FS file system"),
    (0, b"LUKS\xba\xbe", "an encrypted volume (LUKS)"),
    (4086, b"SWAPSPACE2", "swap space"),
    (512, b"LABELONE", "an LVM volume"),
    (1024, b"LABELONE", "an LVM volume"),
    (4096 + 24, &[0xc6, 0x85, 0x73, 0xf6], "bcache or bcachefs"),
    (4096, &[0xfc, 0x4e, 0x2b, 0xa9], "a RAID member"),
    (0, &[0xfc, 0x4e, 0x2b, 0xa9], "a RAID member"),
    (512, b"EFI PART", "a partition table (GPT)"),
    (510, &[0x55, 0xaa], "a partition table or boot sector"),
];
/// ZFS begins a ring of these in the second 128 KiB of its label.
const ZFS_MAGIC: [u8; 8] = 0x00ba_b10c_u64.to_le_bytes();

/// What a file or device holds.
#[derive(Debug, PartialEq, Eq)]
pub enum Content {
    /// Nothing.
    Empty,
    /// A tier.
    Tier,
    /// Something else.
    Foreign(&'static str),
}

/// Opens or creates the file, or opens the device, and locks it; whether it is a device.
pub fn open(path: &Path) -> Result<(OwnFile, bool), String> {
    let refused = |why: &str| format!("tier file {} {why}", path.display());
    let opened = private::open(path).map(OwnFile::new);
    let file = opened.map_err(|error| match error.raw_os_error() {
        Some(libc::EBUSY) => refused("is in use (mounted, part of a volume, or another server's): name another file or device"),
        _ => refused(&format!("cannot be opened: {error}")),
    })?;
    let kind = file.metadata().map(|found| found.file_type());
    let device = kind.is_ok_and(|kind| kind.is_block_device());
    // SAFETY: flock takes no memory; the descriptor is open.
    if unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } != 0 {
        return Err(refused(
            "is used by another server: name a file of its own for each",
        ));
    }
    Ok((file, device))
}

/// Looks at everything that the tier leaves alone. Where there is no tier: at all of a file, or at the places of a device
/// where others leave their marks.
pub fn inspect(file: &File, size_bytes: u64, device: bool) -> io::Result<Content> {
    let mut head = vec![0u8; HEAD_BYTES.min(size_bytes) as usize];
    file.read_exact_at(&mut head, 0)?;
    if head.get(..8) == Some(&MAGIC.to_le_bytes()) {
        let beside = head.get(SUPER_BYTES..).unwrap_or_default();
        return Ok(if is_zero(beside) {
            Content::Tier
        } else {
            Content::Foreign(name(&head))
        });
    }
    if !is_zero(&head) {
        return Ok(Content::Foreign(name(&head)));
    }
    Ok(if holds_zeroes(file, size_bytes, device)? {
        Content::Empty
    } else {
        Content::Foreign("data")
    })
}

fn holds_zeroes(file: &File, size_bytes: u64, device: bool) -> io::Result<bool> {
    let mut room = vec![0u8; TAIL_BYTES as usize];
    let mut zeroes = |at: u64, length: u64| {
        let part = &mut room[..length as usize];
        file.read_exact_at(part, at).map(|()| is_zero(part))
    };
    if device {
        let tail = size_bytes.saturating_sub(TAIL_BYTES);
        let step = (size_bytes / SAMPLES / SAMPLE_BYTES * SAMPLE_BYTES).max(SAMPLE_BYTES);
        for at in (HEAD_BYTES..tail).step_by(step as usize) {
            if !zeroes(at, SAMPLE_BYTES.min(size_bytes - at))? {
                return Ok(false);
            }
        }
        return zeroes(tail, size_bytes - tail);
    }
    let mut end = 0;
    while let Some(start) = seek(file, end, libc::SEEK_DATA)? {
        end = seek(file, start, libc::SEEK_HOLE)?.unwrap_or(size_bytes);
        for at in (start..end).step_by(TAIL_BYTES as usize) {
            if !zeroes(at, TAIL_BYTES.min(end - at))? {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

/// The next data or hole of a file; None after the last. A file system that keeps no holes says data everywhere.
fn seek(file: &File, from: u64, what: libc::c_int) -> io::Result<Option<u64>> {
    // SAFETY: the call takes numbers; the descriptor is open.
    let found = unsafe { libc::lseek64(file.as_raw_fd(), from as i64, what) };
    match u64::try_from(found) {
        Ok(found) => Ok(Some(found)),
        Err(_) => match io::Error::last_os_error() {
            error if error.raw_os_error() == Some(libc::ENXIO) => Ok(None),
            error => Err(error),
        },
    }
}

/// Makes head and tail of a device zeroes, so that neither the tier nor blkid finds there what was before.
pub fn format(file: &File, size_bytes: u64) -> io::Result<()> {
    let zeroes = vec![0u8; HEAD_BYTES.max(TAIL_BYTES) as usize];
    let head = HEAD_BYTES.min(size_bytes);
    let tail = size_bytes.saturating_sub(TAIL_BYTES).max(head);
    file.write_all_at(&zeroes[..head as usize], 0)?;
    file.write_all_at(&zeroes[..(size_bytes - tail) as usize], tail)?;
    file.sync_data()
}

fn is_zero(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| *byte == 0)
}

fn name(head: &[u8]) -> &'static str {
    let stands = |at: usize, mark: &[u8]| head.get(at..at + mark.len()) == Some(mark);
    let known = SIGNATURES.iter().find(|(at, mark, _)| stands(*at, mark));
    let zfs = || {
        (128 << 10..256 << 10)
            .step_by(1 << 10)
            .any(|at| stands(at, &ZFS_MAGIC))
    };
    match known {
        Some((_, _, name)) => name,
        None if zfs() => "a ZFS member",
        None => "data",
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::unix::fs::FileExt;

    use super::{Content, HEAD_BYTES, MAGIC, SIGNATURES, ZFS_MAGIC, format, inspect};
    use crate::testing::Folder;

    const SIZE: u64 = 64 << 20;

    fn file(folder: &Folder, name: &str, size_bytes: u64) -> File {
        let path = folder.path(name);
        let mut options = File::options();
        let options = options.read(true).write(true).create(true).truncate(true);
        let file = options.open(path).expect("a file");
        file.set_len(size_bytes).expect("its size");
        file
    }

    #[test]
    fn only_zeroes_and_a_tier_are_taken_and_the_others_have_a_name() {
        let folder = Folder::new();
        let zfs = [(160 << 10, &ZFS_MAGIC[..], "a ZFS member")];
        for (at, mark, name) in SIGNATURES.iter().chain(&zfs) {
            let device = file(&folder, "device", SIZE);
            assert_eq!(
                inspect(&device, SIZE, true).expect("a look"),
                Content::Empty
            );
            device.write_all_at(mark, *at as u64).expect("a mark");
            let found = inspect(&device, SIZE, true).expect("a look");
            assert_eq!(found, Content::Foreign(name), "{at}");
            if *at >= 80 {
                // What once was a tier, and no longer is.
                device.write_all_at(&MAGIC.to_le_bytes(), 0).expect("magic");
                let found = inspect(&device, SIZE, true).expect("a look");
                assert_eq!(found, Content::Foreign(name), "{at}");
            }
            format(&device, SIZE).expect("zeroes");
            assert_eq!(
                inspect(&device, SIZE, true).expect("a look"),
                Content::Empty
            );
        }
        let device = file(&folder, "device", SIZE);
        device.write_all_at(&MAGIC.to_le_bytes(), 0).expect("magic");
        device.write_all_at(&[7], HEAD_BYTES).expect("a page");
        assert_eq!(inspect(&device, SIZE, true).expect("a look"), Content::Tier);
    }

    #[test]
    fn data_past_the_head_is_found_at_the_end_and_in_between() {
        let folder = Folder::new();
        for at in [SIZE - 1, SIZE - (64 << 10), SIZE / 2] {
            let device = file(&folder, "device", SIZE);
            device.write_all_at(&[1], at).expect("data");
            let found = inspect(&device, SIZE, true).expect("a look");
            assert_eq!(found, Content::Foreign("data"), "{at}");
        }
        let places = [(1, 0), (SIZE - 1, SIZE - 2), (HEAD_BYTES + 1, HEAD_BYTES)];
        for (device, (size, byte)) in [false, true]
            .map(|device| places.map(|place| (device, place)))
            .into_iter()
            .flatten()
        {
            let small = file(&folder, "small", size);
            assert_eq!(
                inspect(&small, size, device).expect("a look"),
                Content::Empty
            );
            small.write_all_at(&[1], byte).expect("data");
            assert!(inspect(&small, size, device).expect("a look") != Content::Empty);
        }
    }

    #[test]
    fn one_byte_anywhere_in_a_file_is_somebodys() {
        let folder = Folder::new();
        let step = SIZE / super::SAMPLES;
        // Between the samples of a device, and behind zeroes that are data to the file system.
        for at in [HEAD_BYTES, HEAD_BYTES + step / 2, SIZE / 2 + 5000, SIZE - 1] {
            let sparse = file(&folder, "sparse", SIZE);
            sparse
                .write_all_at(&[0; 9000], 3 * HEAD_BYTES)
                .expect("zeroes");
            assert_eq!(
                inspect(&sparse, SIZE, false).expect("a look"),
                Content::Empty
            );
            sparse.write_all_at(&[1], at).expect("data");
            let found = inspect(&sparse, SIZE, false).expect("a look");
            assert_eq!(found, Content::Foreign("data"), "{at}");
        }
    }
}
