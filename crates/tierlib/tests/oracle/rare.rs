//! Calls that a program makes seldom: each is in the contract.

use std::ffi::{c_int, c_long};

use crate::actor::{Actor, found, part};

const PAGE: usize = 4096;
/// Appended and inserted to, a file is cut when it is longer.
const LONG: usize = 1 << 20;

type Cancel = unsafe extern "C" fn(usize, *mut [u64; 8], *mut [u64; 4]) -> c_int;
type Destroy = unsafe extern "C" fn(usize) -> c_int;
type Submit = unsafe extern "C" fn(usize, c_long, *mut *mut [u64; 8]) -> c_int;
type Reap = unsafe extern "C" fn(
    usize,
    c_long,
    c_long,
    *mut [u64; 4],
    *mut libc::timespec,
    *const libc::sigset_t,
) -> c_int;

impl Actor {
    /// One of them.
    pub fn rare(&mut self) {
        if self.model.len() > LONG {
            // SAFETY: our own descriptor.
            assert_eq!(unsafe { libc::ftruncate64(self.fd(), 0) }, 0);
            self.model.clear();
        }
        match self.numbers.below(15) {
            0 => self.open_truncating(),
            1 => self.dup_onto(|fd, other| {
                // SAFETY: descriptors of this program.
                unsafe { libc::dup2(fd, other) }
            }),
            2 => self.dup_onto(|fd, other| {
                // SAFETY: as above.
                unsafe { libc::dup3(fd, other, 0) }
            }),
            3 => self.pwritev2(0),
            4 => self.pwritev2(libc::RWF_APPEND),
            5 => self.preadv2(),
            6 => self.writev(),
            7 => self.collapse(),
            8 => self.insert(),
            9 => self.posix_fallocate(),
            10 => self.remove(),
            11 => self.stream(),
            12 => self.aio_write_parts(),
            13 => self.pgetevents(),
            _ => self.destroy(),
        }
        self.pread();
    }

    fn open_truncating(&mut self) {
        // SAFETY: the path ends in a zero byte.
        let fd = unsafe { libc::open64(self.path.as_ptr(), libc::O_RDWR | libc::O_TRUNC) };
        assert!(fd >= 0);
        self.fds.push(fd);
        self.model.clear();
        self.pwrite();
    }

    /// A data file onto the number of another file, and that back onto the number of a data file.
    fn dup_onto(&mut self, dup: fn(c_int, c_int) -> c_int) {
        let (twin, fd) = (self.open(), self.fd());
        // SAFETY: the path ends in a zero byte; the destination has a byte.
        unsafe {
            let other = libc::open64(c"/dev/zero".as_ptr(), libc::O_RDONLY);
            let spare = libc::dup(other);
            assert_eq!(dup(fd, other), other);
            self.fds.push(other);
            assert_eq!(dup(spare, twin), twin);
            let mut byte = 7u8;
            assert_eq!(libc::pread64(twin, (&raw mut byte).cast(), 1, 0), 1);
            assert_eq!(byte, 0, "the device's");
            libc::close(twin);
            libc::close(spare);
        }
        if self.fds.len() > 6 {
            self.reopen();
        }
    }

    fn pwritev2(&mut self, flags: c_int) {
        let ((offset, size), fd) = (self.range(), self.fd());
        let data = self.bytes(size);
        let (left, right) = data.split_at(size / 3);
        let parts = [
            part(left.as_ptr().cast_mut(), left.len()),
            part(right.as_ptr().cast_mut(), right.len()),
        ];
        // SAFETY: the parts are data's, and only read.
        let answer = unsafe { libc::pwritev64v2(fd, parts.as_ptr(), 2, offset as i64, flags) };
        assert_eq!(answer, size as isize);
        let at = if flags == 0 { offset } else { self.model.len() };
        self.put(at, &data);
    }

    fn preadv2(&mut self) {
        let ((offset, size), fd) = (self.range(), self.fd());
        let mut got = vec![0xEE; size];
        let (left, right) = got.split_at_mut(size / 2);
        let parts = [
            part(left.as_mut_ptr(), left.len()),
            part(right.as_mut_ptr(), right.len()),
        ];
        // SAFETY: the parts are got's.
        let answer = unsafe { libc::preadv64v2(fd, parts.as_ptr(), 2, offset as i64, 0) };
        let wanted = self.model.len().saturating_sub(offset).min(size);
        assert_eq!(answer, wanted as isize, "preadv2 at {offset}");
        if wanted > 0 {
            self.expect(offset, &got[..wanted], "preadv2");
        }
    }

    fn writev(&mut self) {
        let ((offset, size), fd) = (self.range(), self.fd());
        let data = self.bytes(size);
        let parts = [part(data.as_ptr().cast_mut(), size)];
        // SAFETY: the part is data's, and only read.
        unsafe {
            libc::lseek64(fd, offset as i64, libc::SEEK_SET);
            assert_eq!(libc::writev(fd, parts.as_ptr(), 1), size as isize);
        }
        self.put(offset, &data);
    }

    /// Whole pages that end before the file does; None in a short file.
    fn inner_pages(&mut self) -> Option<(usize, usize)> {
        let pages = self.model.len().saturating_sub(1) / PAGE;
        let first = self.numbers.below(pages.checked_sub(4)?.max(1) as u64) as usize;
        (pages > 4).then_some((first * PAGE, 2 * PAGE))
    }

    fn fallocate(&mut self, mode: c_int, range: (usize, usize)) -> bool {
        let fd = self.fd();
        // SAFETY: our own descriptor. Not all file systems can.
        unsafe { libc::fallocate64(fd, mode, range.0 as i64, range.1 as i64) == 0 }
    }

    fn collapse(&mut self) {
        if let Some(range) = self.inner_pages()
            && self.fallocate(libc::FALLOC_FL_COLLAPSE_RANGE, range)
        {
            self.model.drain(range.0..range.0 + range.1);
        }
    }

    fn insert(&mut self) {
        if let Some(range) = self.inner_pages()
            && self.fallocate(libc::FALLOC_FL_INSERT_RANGE, range)
        {
            self.model.splice(range.0..range.0, vec![0; range.1]);
        }
    }

    fn posix_fallocate(&mut self) {
        let ((offset, size), fd) = (self.range(), self.fd());
        // SAFETY: our own descriptor.
        let answer = unsafe { libc::posix_fallocate64(fd, offset as i64, size as i64) };
        assert_eq!(answer, 0);
        self.model.resize(self.model.len().max(offset + size), 0);
    }

    fn remove(&mut self) {
        // SAFETY: the path ends in a zero byte.
        let answer = unsafe {
            if self.numbers.below(2) == 0 {
                libc::unlinkat(libc::AT_FDCWD, self.path.as_ptr(), 0)
            } else {
                libc::remove(self.path.as_ptr())
            }
        };
        assert_eq!(answer, 0);
        self.pread();
        self.reopen();
        self.model.clear();
    }

    /// Ends the caching of the file, which then makes room for a new one.
    fn stream(&mut self) {
        let ((offset, size), fd) = (self.range(), self.fd());
        let data = self.bytes(size);
        // SAFETY: data has size bytes; the mode ends in a zero byte.
        unsafe {
            let stream = libc::fdopen(libc::dup(fd), c"r+".as_ptr());
            assert!(!stream.is_null());
            libc::fseek(stream, offset as c_long, libc::SEEK_SET);
            assert_eq!(libc::fwrite(data.as_ptr().cast(), size, 1, stream), 1);
            libc::fclose(stream);
        }
        self.put(offset, &data);
        self.pread();
        self.remove();
    }

    fn aio_write_parts(&mut self) {
        let (offset, size) = self.range();
        let data = self.bytes(size);
        let (left, right) = data.split_at(size / 2);
        let mut parts = [
            part(left.as_ptr().cast_mut(), left.len()),
            part(right.as_ptr().cast_mut(), right.len()),
        ];
        assert_eq!(
            self.aio(8, parts.as_mut_ptr().cast(), offset, 2),
            size as i64
        );
        self.put(offset, &data);
    }

    fn write_block(&mut self, data: &mut [u8], offset: usize) -> [u64; 8] {
        let target = 1 | (self.fd() as u64) << 32;
        let (buffer, size) = (data.as_mut_ptr() as u64, data.len() as u64);
        [0, 0, target, buffer, size, offset as u64, 0, 0]
    }

    fn pgetevents(&mut self) {
        let (offset, size) = self.range();
        let mut data = self.bytes(size);
        let mut block = self.write_block(&mut data, offset);
        let mut event = [0u64; 4];
        let null = std::ptr::null_mut();
        // SAFETY: block, data and event live until the completion was reaped.
        unsafe {
            let submitted = found::<Submit>(c"io_submit")(self.aio, 1, &mut &raw mut block);
            assert_eq!(submitted, 1);
            // Writes to files cannot be cancelled: the completion comes all the same.
            let cancelled = found::<Cancel>(c"io_cancel")(self.aio, &raw mut block, &raw mut event);
            assert_ne!(cancelled, 0);
            let reap = found::<Reap>(c"io_pgetevents");
            let events = &raw mut event;
            assert_eq!(reap(self.aio, 1, 1, events, null, std::ptr::null()), 1);
        }
        assert_eq!(event[2], size as u64);
        self.put(offset, &data);
    }

    /// A context goes with a write in it, for which the kernel waits.
    fn destroy(&mut self) {
        let (offset, size) = self.range();
        let mut data = self.bytes(size);
        let mut block = self.write_block(&mut data, offset);
        let mut context = 0usize;
        // SAFETY: block and data live until the context is gone.
        unsafe {
            assert_eq!(libc::syscall(libc::SYS_io_setup, 4, &raw mut context), 0);
            let submitted = found::<Submit>(c"io_submit")(context, 1, &mut &raw mut block);
            assert_eq!(submitted, 1);
            assert_eq!(found::<Destroy>(c"io_destroy")(context), 0);
        }
        self.put(offset, &data);
    }
}
