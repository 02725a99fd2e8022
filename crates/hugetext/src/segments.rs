//! Where the program's text lies: the parts of its executable segments that are whole huge pages.

use std::ffi::{c_int, c_void};
use std::ops::Range;

use crate::moving::HUGE_PAGE_BYTES;

/// BOLT adds one executable segment to the linker's own.
const MOST: usize = 4;

/// Up to `MOST` ranges of addresses.
#[derive(Default)]
pub struct Ranges {
    found: [Range<usize>; MOST],
    count: usize,
}

impl Ranges {
    /// Those that were found.
    pub fn iter(&self) -> impl Iterator<Item = &Range<usize>> {
        self.found.iter().take(self.count)
    }

    fn add(&mut self, range: Range<usize>) {
        if let Some(place) = self.found.get_mut(self.count) {
            *place = range;
            self.count += 1;
        }
    }
}

/// The whole huge pages of the program's segments that are executed and not written to.
pub fn executable() -> Ranges {
    let mut ranges = Ranges::default();
    // SAFETY: the callback takes what dl_iterate_phdr hands out, and a pointer to ranges that live until it returns.
    unsafe { libc::dl_iterate_phdr(Some(gather), (&raw mut ranges).cast()) };
    ranges
}

/// Reads the first object, which is the program (dl_iterate_phdr(3)), and ends the walk.
unsafe extern "C" fn gather(
    object: *mut libc::dl_phdr_info,
    _size: usize,
    ranges: *mut c_void,
) -> c_int {
    // SAFETY: `executable` hands its own ranges over, and the loader a description that lives during the call.
    let (ranges, object) = unsafe { (&mut *ranges.cast::<Ranges>(), &*object) };
    // SAFETY: the loader says where the headers are, and how many.
    let headers =
        unsafe { std::slice::from_raw_parts(object.dlpi_phdr, usize::from(object.dlpi_phnum)) };
    for header in headers {
        let is_text = header.p_flags & libc::PF_X != 0 && header.p_flags & libc::PF_W == 0;
        if header.p_type == libc::PT_LOAD && is_text {
            let start = (object.dlpi_addr as usize).wrapping_add(header.p_vaddr as usize);
            if let Some(inner) = inner(start, header.p_filesz as usize) {
                ranges.add(inner);
            }
        }
    }
    1
}

/// The whole huge pages between the ends of a segment; None without any.
fn inner(start: usize, bytes: usize) -> Option<Range<usize>> {
    let first = start.checked_next_multiple_of(HUGE_PAGE_BYTES)?;
    let end = start.checked_add(bytes)? / HUGE_PAGE_BYTES * HUGE_PAGE_BYTES;
    (first < end).then_some(first..end)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    #[test]
    fn only_whole_huge_pages_are_moved() {
        assert_eq!(inner(3 * MIB, 6 * MIB), Some(4 * MIB..8 * MIB));
        assert_eq!(inner(4 * MIB, 2 * MIB), Some(4 * MIB..6 * MIB));
        assert_eq!(inner(3 * MIB, 2 * MIB), None);
        assert_eq!(inner(4 * MIB + 1, 2 * MIB), None);
        assert_eq!(inner(usize::MAX - 10, 5), None);
        assert_eq!(inner(usize::MAX - 4 * MIB, 6 * MIB), None);
    }

    #[test]
    fn no_more_ranges_are_kept_than_there_is_room_for() {
        let mut ranges = Ranges::default();
        for number in 0..MOST + 2 {
            ranges.add(number..number + 1);
        }
        assert_eq!(ranges.iter().count(), MOST);
    }
}
