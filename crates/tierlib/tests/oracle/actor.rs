//! One thread of the oracle: its file, its model of it, and the calls it makes.

use std::ffi::{CStr, CString, c_int, c_long, c_void};

use crate::common::{self, Numbers};

const SIZE_MAX: usize = 1 << 20;
const PAGE: usize = 4096;

/// One thread with its own file and several descriptors of it.
pub struct Actor {
    pub(crate) seed: u64,
    pub(crate) numbers: Numbers,
    pub(crate) path: CString,
    pub(crate) other: CString,
    pub(crate) fds: Vec<c_int>,
    pub(crate) model: Vec<u8>,
    pub(crate) aio: usize,
    pub(crate) step: u64,
}

type Submit = unsafe extern "C" fn(usize, c_long, *mut *mut [u64; 8]) -> c_int;
type GetEvents =
    unsafe extern "C" fn(usize, c_long, c_long, *mut [u64; 4], *mut libc::timespec) -> c_int;

/// A function of the preloaded library that the program is not linked to.
pub(crate) fn found<T: Copy>(name: &CStr) -> T {
    // SAFETY: T is the function pointer type of that name.
    unsafe {
        let function = libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr());
        assert!(!function.is_null(), "{name:?}");
        std::mem::transmute_copy(&function)
    }
}

impl Actor {
    /// Thread `number`, with an empty file.
    pub fn new(seed: u64, number: u64) -> Self {
        let folder = common::folder();
        let name =
            |suffix| CString::new(format!("{folder}/t{number}{suffix}.ibd")).expect("no zero byte");
        let (path, other) = (name(""), name("b"));
        for left in [&path, &other] {
            // SAFETY: the path ends in a zero byte. What an earlier run left, if any.
            unsafe { libc::unlink(left.as_ptr()) };
        }
        let mut aio = 0usize;
        // SAFETY: room for the context.
        let answer = unsafe { libc::syscall(libc::SYS_io_setup, 32, &raw mut aio) };
        assert_eq!(answer, 0);
        let mut actor = Self {
            seed,
            numbers: Numbers(seed),
            path,
            other,
            fds: vec![],
            model: vec![],
            aio,
            step: 0,
        };
        actor.reopen();
        actor
    }

    pub(crate) fn open(&self) -> c_int {
        // SAFETY: the path ends in a zero byte.
        let fd = unsafe { libc::open64(self.path.as_ptr(), libc::O_RDWR | libc::O_CREAT, 0o600) };
        assert!(fd >= 0, "open");
        fd
    }

    pub(crate) fn reopen(&mut self) {
        for fd in self.fds.drain(..) {
            // SAFETY: our own descriptor.
            unsafe { libc::close(fd) };
        }
        self.fds = vec![self.open()];
    }

    pub(crate) fn fd(&mut self) -> c_int {
        let at = self.numbers.below(self.fds.len() as u64) as usize;
        self.fds[at]
    }

    /// Mostly pages, as a database does; sometimes any range.
    pub(crate) fn range(&mut self) -> (usize, usize) {
        if self.numbers.below(5) > 0 {
            let pages = SIZE_MAX / PAGE;
            let count = 1 + self.numbers.below(4) as usize;
            return (
                self.numbers.below(64.min(pages as u64 - 4)) as usize * PAGE,
                count * PAGE,
            );
        }
        (
            self.numbers.below(300_000) as usize,
            1 + self.numbers.below(20_000) as usize,
        )
    }

    pub(crate) fn bytes(&mut self, size: usize) -> Vec<u8> {
        let word = self.numbers.next();
        (0..size)
            .map(|at| (word >> (at % 8 * 8)) as u8 ^ (at / 512) as u8)
            .collect()
    }

    pub(crate) fn expect(&self, offset: usize, got: &[u8], what: &str) {
        let end = self.model.len().min(offset + got.len().max(1));
        let wanted = self.model.get(offset..end).unwrap_or_default();
        if got.len() < wanted.len() || got[..wanted.len()] != *wanted {
            let at = got
                .iter()
                .zip(wanted)
                .position(|(left, right)| left != right);
            panic!(
                "{what} at {offset}: {} bytes for {}, first difference {at:?}, step {}",
                got.len(),
                wanted.len(),
                self.step
            );
        }
        assert_eq!(
            got.len(),
            wanted.len(),
            "{what} at {offset}, step {}",
            self.step
        );
    }

    pub(crate) fn put(&mut self, offset: usize, data: &[u8]) {
        if self.model.len() < offset + data.len() {
            self.model.resize(offset + data.len(), 0);
        }
        self.model[offset..offset + data.len()].copy_from_slice(data);
    }

    /// Makes one call and looks at its answer. What it does depends on the seed and the number of the step alone, so that
    /// others can be left out.
    pub fn step(&mut self, step: u64) {
        self.step = step;
        self.numbers = Numbers(Numbers(self.seed ^ step.rotate_left(32)).next());
        match self.numbers.below(1000) {
            0..550 => self.pread(),
            550..600 => self.rare(),
            600..680 => self.preadv(),
            680..700 => self.read(),
            700..820 => self.pwrite(),
            820..850 => self.pwritev(),
            850..860 => self.write(),
            860..920 => self.aio_write(),
            920..950 => self.aio_read(),
            950..965 => self.punch(),
            965..972 => self.truncate(),
            972..980 => self.dup(),
            980..986 => self.reopen(),
            986..990 => self.rename(),
            990..992 => self.unlink(),
            992..998 => self.sync(),
            _ => self.fork(),
        }
    }

    pub(crate) fn pread(&mut self) {
        let ((offset, size), fd) = (self.range(), self.fd());
        let mut got = vec![0xEE; size];
        // SAFETY: got has size bytes.
        let answer = unsafe { libc::pread64(fd, got.as_mut_ptr().cast(), size, offset as i64) };
        assert!(answer >= 0, "pread");
        got.truncate(answer as usize);
        let wanted = self.model.len().saturating_sub(offset).min(size);
        assert_eq!(
            got.len(),
            wanted,
            "pread size at {offset}, step {}",
            self.step
        );
        if wanted > 0 {
            self.expect(offset, &got, "pread");
        }
    }

    fn preadv(&mut self) {
        let ((offset, size), fd) = (self.range(), self.fd());
        let mut got = vec![0xEE; size];
        let half = size / 2;
        let (left, right) = got.split_at_mut(half);
        let parts = [
            part(left.as_mut_ptr(), left.len()),
            part(right.as_mut_ptr(), right.len()),
        ];
        // SAFETY: the parts are got's.
        let answer = unsafe { libc::preadv64(fd, parts.as_ptr(), 2, offset as i64) };
        let wanted = self.model.len().saturating_sub(offset).min(size);
        assert_eq!(
            answer, wanted as isize,
            "preadv at {offset}, step {}",
            self.step
        );
        if wanted > 0 {
            self.expect(offset, &got[..wanted], "preadv");
        }
    }

    fn read(&mut self) {
        let ((offset, size), fd) = (self.range(), self.fd());
        let mut got = vec![0xEE; size];
        // SAFETY: got has size bytes.
        unsafe {
            assert_eq!(
                libc::lseek64(fd, offset as i64, libc::SEEK_SET),
                offset as i64
            );
            let answer = libc::read(fd, got.as_mut_ptr().cast(), size);
            assert_eq!(
                libc::lseek64(fd, 0, libc::SEEK_CUR),
                (offset + answer as usize) as i64
            );
            got.truncate(answer as usize);
        }
        if offset < self.model.len() {
            self.expect(offset, &got, "read");
        }
    }

    pub(crate) fn pwrite(&mut self) {
        let ((offset, size), fd) = (self.range(), self.fd());
        let data = self.bytes(size);
        // SAFETY: data has size bytes.
        let answer = unsafe { libc::pwrite64(fd, data.as_ptr().cast(), size, offset as i64) };
        assert_eq!(answer, size as isize);
        self.put(offset, &data);
    }

    fn pwritev(&mut self) {
        let ((offset, size), fd) = (self.range(), self.fd());
        let data = self.bytes(size);
        let (left, right) = data.split_at(size / 3);
        let parts = [
            part(left.as_ptr().cast_mut(), left.len()),
            part(right.as_ptr().cast_mut(), right.len()),
        ];
        // SAFETY: the parts are data's, and only read.
        let answer = unsafe { libc::pwritev64(fd, parts.as_ptr(), 2, offset as i64) };
        assert_eq!(answer, size as isize);
        self.put(offset, &data);
    }

    fn write(&mut self) {
        let ((offset, size), fd) = (self.range(), self.fd());
        let data = self.bytes(size);
        // SAFETY: data has size bytes.
        unsafe {
            libc::lseek64(fd, offset as i64, libc::SEEK_SET);
            assert_eq!(libc::write(fd, data.as_ptr().cast(), size), size as isize);
        }
        self.put(offset, &data);
    }

    pub(crate) fn aio(&mut self, opcode: u64, buffer: *mut u8, offset: usize, size: usize) -> i64 {
        let fd = self.fd();
        let mut block = [
            0,
            0,
            opcode | (fd as u64) << 32,
            buffer as u64,
            size as u64,
            offset as u64,
            0,
            0,
        ];
        let mut blocks = [&raw mut block];
        let mut event = [0u64; 4];
        // SAFETY: block, buffer and event live until the completion was reaped.
        unsafe {
            assert_eq!(
                found::<Submit>(c"io_submit")(self.aio, 1, blocks.as_mut_ptr()),
                1
            );
            let reaped = found::<GetEvents>(c"io_getevents")(
                self.aio,
                1,
                1,
                &raw mut event,
                std::ptr::null_mut(),
            );
            assert_eq!(reaped, 1);
        }
        event[2] as i64
    }

    fn aio_write(&mut self) {
        let (offset, size) = self.range();
        let mut data = self.bytes(size);
        assert_eq!(self.aio(1, data.as_mut_ptr(), offset, size), size as i64);
        self.put(offset, &data);
    }

    fn aio_read(&mut self) {
        let (offset, size) = self.range();
        let mut got = vec![0xEE; size];
        let answer = if self.numbers.below(3) > 0 {
            self.aio(0, got.as_mut_ptr(), offset, size)
        } else {
            let (left, right) = got.split_at_mut(size / 2);
            let mut parts = [
                part(left.as_mut_ptr(), left.len()),
                part(right.as_mut_ptr(), right.len()),
            ];
            self.aio(7, parts.as_mut_ptr().cast(), offset, 2)
        };
        got.truncate(answer as usize);
        if offset < self.model.len() {
            self.expect(offset, &got, "aio read");
        }
    }

    fn punch(&mut self) {
        let ((offset, size), fd) = (self.range(), self.fd());
        let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
        // SAFETY: our own descriptor.
        if unsafe { libc::fallocate64(fd, mode, offset as i64, size as i64) } == 0 {
            let end = self.model.len().min(offset + size);
            if offset < end {
                self.model[offset..end].fill(0);
            }
        }
    }

    fn truncate(&mut self) {
        let (size, fd) = (self.numbers.below(400_000) as usize, self.fd());
        // SAFETY: our own descriptor and path.
        let answer = unsafe {
            if size % 2 == 0 {
                libc::ftruncate64(fd, size as i64)
            } else {
                libc::truncate64(self.path.as_ptr(), size as i64)
            }
        };
        assert_eq!(answer, 0);
        self.model.resize(size, 0);
    }

    fn dup(&mut self) {
        let fd = self.fd();
        // SAFETY: our own descriptors.
        unsafe {
            if self.fds.len() > 4 {
                libc::close(self.fds.remove(0));
            } else {
                let new = if self.numbers.below(2) == 0 {
                    libc::dup(fd)
                } else {
                    libc::fcntl(fd, libc::F_DUPFD, 3)
                };
                assert!(new >= 0);
                self.fds.push(new);
                self.fds.push(self.open());
            }
        }
    }

    fn rename(&mut self) {
        // SAFETY: both paths end in a zero byte.
        let answer = unsafe { libc::rename(self.path.as_ptr(), self.other.as_ptr()) };
        assert_eq!(answer, 0);
        std::mem::swap(&mut self.path, &mut self.other);
    }

    fn unlink(&mut self) {
        // SAFETY: the path ends in a zero byte.
        assert_eq!(unsafe { libc::unlink(self.path.as_ptr()) }, 0);
        self.pread();
        self.reopen();
        self.model.clear();
    }

    fn sync(&mut self) {
        // SAFETY: our own descriptor.
        assert_eq!(unsafe { libc::fdatasync(self.fd()) }, 0);
    }

    /// The child reads a byte and says whether it is right; it changes nothing.
    fn fork(&mut self) {
        if self.model.is_empty() || self.numbers.below(20) > 0 {
            return;
        }
        let (offset, fd) = (
            self.numbers.below(self.model.len() as u64) as usize,
            self.fd(),
        );
        let wanted = self.model[offset];
        // SAFETY: the child calls nothing but pread and _exit.
        unsafe {
            let child = libc::fork();
            if child == 0 {
                let mut got = 0u8;
                let answer = libc::pread64(fd, (&raw mut got).cast::<c_void>(), 1, offset as i64);
                libc::_exit(i32::from(answer != 1 || got != wanted));
            }
            let mut status = 0;
            assert_eq!(libc::waitpid(child, &raw mut status, 0), child);
            assert_eq!(
                status, 0,
                "the child read something else at {offset}, step {}",
                self.step
            );
        }
    }

    /// Compares the whole file.
    pub fn check_all(&mut self) {
        let fd = self.fd();
        for offset in (0..self.model.len()).step_by(PAGE) {
            let size = PAGE.min(self.model.len() - offset);
            let mut got = vec![0xEE; size];
            // SAFETY: got has size bytes.
            let answer = unsafe { libc::pread64(fd, got.as_mut_ptr().cast(), size, offset as i64) };
            assert_eq!(answer, size as isize);
            self.expect(offset, &got, "at the end");
        }
    }
}

pub(crate) fn part(data: *mut u8, size: usize) -> libc::iovec {
    libc::iovec {
        iov_base: data.cast(),
        iov_len: size,
    }
}
