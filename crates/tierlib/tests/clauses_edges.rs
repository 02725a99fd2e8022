//! Clauses of docs/explanation/tier-contract.md at the edges: raw system calls, rare calls, wrong pointers.

#[path = "common/aio.rs"]
mod aio;
mod common;

use std::ffi::{CStr, c_char, c_int, c_void};

use aio::{Block, WRITE, block, submit};
use common::{counter, get, open, overwrite, path, preloaded, put, run, run_as};

workers!(
    c4_audit_worker,
    c2_unseen_close_worker,
    c4_wrong_pointers_worker,
    c13_flight_worker,
    c15_worker,
    c15_again_worker,
    c18_list_worker,
    c19_worker,
    c24_worker,
    c24_handle_worker,
    overlay_worker,
);

const PAGE: usize = 4096;

/// A system call made as a library that is linked statically makes it.
fn raw(number: i64, arguments: [usize; 3]) -> isize {
    let answer: isize;
    // SAFETY: the caller's arguments are right for the call.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        std::arch::asm!("syscall", inlateout("rax") number as isize => answer, in("rdi") arguments[0],
            in("rsi") arguments[1], in("rdx") arguments[2], lateout("rcx") _, lateout("r11") _, options(nostack));
    }
    // SAFETY: as above.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        std::arch::asm!("svc 0", in("x8") number, inlateout("x0") arguments[0] as isize => answer,
            in("x1") arguments[1], in("x2") arguments[2], options(nostack));
    }
    answer
}

/// A data file of two pages of `byte`, both in the tier.
fn file(name: &str, byte: u8) -> c_int {
    let fd = open(&path(name), libc::O_RDWR);
    put(fd, byte, 0);
    assert_eq!((get(fd, 0), get(fd, PAGE as i64)), (Ok(byte), Ok(byte)));
    fd
}

/// errno of a call that failed.
fn failed(answer: isize) -> c_int {
    assert_eq!(answer, -1);
    // SAFETY: errno of this thread.
    unsafe { *libc::__errno_location() }
}

#[test]
fn c19_rings_and_raw_submissions_are_refused_by_the_kernel() {
    let text = run("c19_worker");
    assert!(text.contains("io_uring refused"), "{text}");
    // The server does without by itself: a setting would only take libaio from it.
    assert!(!text.contains("native-aio"), "{text}");
}

fn c19_worker() {
    let fd = file("c19.ibd", 1);
    // SAFETY: the call is refused before it reads anything.
    let answer = unsafe { libc::syscall(libc::SYS_io_uring_setup, 1, std::ptr::null_mut::<u8>()) };
    assert_eq!(failed(answer as isize), libc::ENOSYS);
    let refused = -(libc::ENOSYS as isize);
    let mut room = [0u8; 120];
    let parameters = room.as_mut_ptr() as usize;
    assert_eq!(raw(libc::SYS_io_uring_setup, [1, parameters, 0]), refused);
    // What a static libaio submits is not seen: it must not be done.
    let (context, mut data) = (aio::context(4), vec![9u8; PAGE]);
    let mut write = block(WRITE, fd, data.as_mut_ptr(), PAGE, 0);
    let mut blocks = [&raw mut write];
    let arguments = [context, 1, blocks.as_mut_ptr() as usize];
    assert_eq!(raw(libc::SYS_io_submit, arguments), refused);
    assert_eq!(get(fd, 0), Ok(1));
    // SAFETY: block and buffer live until the completion.
    assert_eq!(unsafe { submit(context, &mut blocks) }, 1);
    assert_eq!((aio::reap(context)[2], get(fd, 0)), (PAGE as u64, Ok(9)));
}

#[test]
fn c2_a_number_that_was_closed_unseen_is_not_the_old_file() {
    run("c2_unseen_close_worker");
}

fn c2_unseen_close_worker() {
    let plain = open(&path("plain"), libc::O_RDWR);
    put(plain, 7, 0);
    let fd = file("unseen.ibd", 1);
    assert_eq!(raw(libc::SYS_close, [fd as usize, 0, 0]), 0);
    let other = open(&path("plain"), libc::O_RDWR);
    assert_eq!(other, fd, "the number is used again");
    assert_eq!(get(other, 0), Ok(7));
    put(other, 8, 0);
    assert_eq!(get(open(&path("unseen.ibd"), libc::O_RDWR), 0), Ok(1));
}

#[test]
fn c4_every_kind_of_read_is_audited_and_gives_what_the_file_has() {
    for way in ["pread", "preadv", "io_submit"] {
        let folder = tempfile::tempdir().expect("a folder");
        let mut worker = preloaded("c4_audit_worker", &folder);
        worker
            .env("UPSHIFT_TIER_AUDIT", "1")
            .env("UPSHIFT_TEST_WAY", way);
        let text = run_as(&mut worker);
        assert_eq!(counter(&text, "audit_differences"), 1, "{way}: {text}");
        assert!(counter(&text, "bypass_audit") > 0, "{way}: {text}");
        let line = "upshift tier: the tier is off: the page at byte 4096 of";
        assert_eq!(text.matches(line).count(), 1, "{way}, said once: {text}");
    }
}

fn c4_audit_worker() {
    let (fd, context) = (file("audit.ibd", 1), aio::context(4));
    // Past the library: nobody told the tier.
    let data = [9u8; PAGE];
    // SAFETY: data has as many bytes.
    let wrote = unsafe { libc::syscall(libc::SYS_pwrite64, fd, data.as_ptr(), PAGE, PAGE) };
    assert_eq!(wrote, PAGE as i64);
    let mut got = vec![0u8; PAGE];
    let mut parts = [0, PAGE / 2].map(|at| libc::iovec {
        iov_base: got[at..].as_mut_ptr().cast(),
        iov_len: PAGE / 2,
    });
    match std::env::var("UPSHIFT_TEST_WAY").as_deref() {
        Ok("pread") => got[0] = get(fd, PAGE as i64).expect("a read"),
        // SAFETY: the parts are got's.
        Ok("preadv") => unsafe {
            let answer = libc::preadv64(fd, parts.as_mut_ptr(), 2, PAGE as i64);
            assert_eq!(answer, PAGE as isize);
        },
        _ => {
            let mut read = block(aio::READ, fd, got.as_mut_ptr(), PAGE, PAGE as u64);
            // SAFETY: block and buffer live until the completion.
            assert_eq!(unsafe { submit(context, &mut [&raw mut read]) }, 1);
            assert_eq!(aio::reap(context)[2], PAGE as u64);
        }
    }
    assert_eq!(got[0], 9, "what the file has");
    assert_eq!(get(fd, PAGE as i64), Ok(9));
    let off = common::snapshot().off;
    assert!(off.contains("is not what the file has"), "{off}");
}

#[test]
fn c4_pointers_that_lead_nowhere_are_the_kernels_to_refuse() {
    run("c4_wrong_pointers_worker");
}

fn c4_wrong_pointers_worker() {
    let (fd, context) = (file("wrong.ibd", 1), aio::context(4));
    let nowhere = 16usize as *const libc::iovec;
    // SAFETY: the kernel refuses the addresses.
    unsafe {
        for count in [1, 2] {
            assert_eq!(failed(libc::preadv64(fd, nowhere, count, 0)), libc::EFAULT);
            assert_eq!(
                failed(libc::preadv64v2(fd, nowhere, count, 0, 0)),
                libc::EFAULT
            );
            assert_eq!(failed(libc::pwritev64(fd, nowhere, count, 0)), libc::EFAULT);
        }
        let written = libc::pwrite64(fd, nowhere.cast(), PAGE, 0);
        assert_eq!(failed(written), libc::EFAULT);
        type Submit = unsafe extern "C" fn(usize, std::ffi::c_long, *mut *mut Block) -> c_int;
        let io_submit = aio::found::<Submit>(c"io_submit");
        assert_eq!(io_submit(context, 1, 16 as *mut *mut Block), -libc::EFAULT);
        assert_eq!(
            io_submit(context, 1, [16 as *mut Block].as_mut_ptr()),
            -libc::EFAULT
        );
        let mut parts = block(aio::READ_PARTS, fd, 16 as *mut u8, 2, 0);
        assert_eq!(submit(context, &mut [&raw mut parts]), -libc::EFAULT);
    }
}

#[test]
fn c2_a_write_whose_end_was_not_seen_hides_no_change_from_outside() {
    run("c13_flight_worker");
}

fn c13_flight_worker() {
    let (fd, context) = (file("flight.ibd", 1), aio::context(4));
    let mut data = vec![2u8; PAGE];
    let mut write = block(WRITE, fd, data.as_mut_ptr(), PAGE, 8 * PAGE as u64);
    // Reaped in the ring; once the block is submitted again, once it is not.
    for _ in 0..2 {
        // SAFETY: block and buffer live until the completion.
        assert_eq!(unsafe { submit(context, &mut [&raw mut write]) }, 1);
        assert_eq!(aio::reap_in_ring(context)[2], PAGE as u64);
    }
    // SAFETY: our own descriptor.
    unsafe { libc::close(fd) };
    overwrite("flight.ibd");
    let again = open(&path("flight.ibd"), libc::O_RDWR);
    assert_eq!(get(again, 0), Ok(b'c'));
    // SAFETY: the context is ours, and everything in it is done.
    unsafe { aio::found::<unsafe extern "C" fn(usize) -> c_int>(c"io_destroy")(context) };
    // The pages of the writes are quiet again, and are cached.
    let before = common::snapshot().counter(tiercache::Counter::Hits);
    for _ in 0..2 {
        assert_eq!(get(again, 8 * PAGE as i64), Ok(2));
    }
    let after = common::snapshot().counter(tiercache::Counter::Hits);
    assert_eq!(after - before, 1);
}

#[test]
fn c15_syncs_by_io_submit_are_seen() {
    for (way, kept) in [("none", 0), ("2", 2), ("3", 2)] {
        let folder = tempfile::tempdir().expect("a folder");
        let said = |worker| {
            let mut command = common::preloaded_on("file", worker, &folder);
            // By a name that leads to no folder of the file: the tier cannot sync it itself at the stop.
            command.env("UPSHIFT_TIER_RULES", "cache=fd/*");
            run_as(command.env("UPSHIFT_TEST_WAY", way))
        };
        said("c15_worker");
        let text = said("c15_again_worker");
        assert_eq!(counter(&text, "warm_verified"), kept, "{way}: {text}");
    }
}

/// A data file by a name in /proc.
fn c15_file() -> c_int {
    let plain = open(&path("c15"), libc::O_RDWR);
    let name = std::ffi::CString::new(format!("/proc/self/fd/{plain}")).expect("no zero byte");
    open(&name, libc::O_RDWR)
}

fn c15_worker() {
    let (fd, context) = (c15_file(), aio::context(4));
    put(fd, 1, 0);
    if let Ok(opcode) = std::env::var("UPSHIFT_TEST_WAY").expect("set").parse() {
        let mut sync = block(opcode, fd, std::ptr::null_mut(), 0, 0);
        // SAFETY: the block lives until the completion.
        assert_eq!(unsafe { submit(context, &mut [&raw mut sync]) }, 1);
        assert_eq!(aio::reap(context)[2], 0);
    }
}

fn c15_again_worker() {
    let fd = c15_file();
    assert_eq!((get(fd, 0), get(fd, PAGE as i64)), (Ok(1), Ok(1)));
}

#[test]
fn c18_lists_of_requests_end_the_caching() {
    let text = run("c18_list_worker");
    assert!(counter(&text, "bypass_unsupported") > 0, "{text}");
}

fn c18_list_worker() {
    let fd = file("c18.ibd", 1);
    let data = [9u8; 2 * PAGE];
    // SAFETY: the request and its data live until it is done, for which the call waits.
    unsafe {
        let mut request: libc::aiocb = std::mem::zeroed();
        request.aio_fildes = fd;
        request.aio_lio_opcode = libc::LIO_WRITE;
        request.aio_buf = data.as_ptr().cast_mut().cast();
        request.aio_nbytes = data.len();
        let list = [&raw mut request];
        let null = std::ptr::null_mut();
        assert_eq!(libc::lio_listio(libc::LIO_WAIT, list.as_ptr(), 1, null), 0);
    }
    assert_eq!(get(fd, 0), Ok(9));
}

unsafe extern "C" {
    fn __open64(path: *const c_char, flags: c_int, ...) -> c_int;
    fn __close(fd: c_int) -> c_int;
    fn __pwrite64(fd: c_int, data: *const c_void, size: usize, offset: i64) -> isize;
    fn __write(fd: c_int, data: *const c_void, size: usize) -> isize;
}

/// Changes the first page of a data file to nines or zeroes.
type Change = fn(&CStr, c_int);

/// As `struct space_resv` of linux/falloc.h: type, whence, start, length, and six words that are not used.
#[repr(C)]
struct Space(i16, i16, i64, i64, i32, u32, [u32; 4]);

const CHANGES: [(&str, Change, u8); 6] = [
    (
        "ioctl",
        // SAFETY: the request has the form that the call wants. It punches a hole.
        |_, fd| unsafe {
            const UNRESERVE: libc::c_ulong = 0x4030_582b;
            let space = Space(0, 0, 0, PAGE as i64, 0, 0, [0; 4]);
            assert_eq!(libc::ioctl(fd, UNRESERVE, &raw const space), 0);
        },
        0,
    ),
    (
        "__pwrite64",
        // SAFETY: the data has as many bytes.
        |_, fd| unsafe {
            assert_eq!(
                __pwrite64(fd, [9u8; PAGE].as_ptr().cast(), PAGE, 0),
                PAGE as isize
            );
        },
        9,
    ),
    (
        "__open64, __write, __close",
        // SAFETY: as above; the path ends in a zero byte.
        |file, _| unsafe {
            let twin = __open64(file.as_ptr(), libc::O_RDWR);
            assert_eq!(
                __write(twin, [9u8; PAGE].as_ptr().cast(), PAGE),
                PAGE as isize
            );
            assert_eq!(__close(twin), 0);
        },
        9,
    ),
    (
        "freopen",
        // SAFETY: the texts end in zero bytes.
        |file, _| unsafe {
            let stream = libc::fopen(c"/dev/null".as_ptr(), c"r".as_ptr());
            let stream = libc::freopen(file.as_ptr(), c"r+".as_ptr(), stream);
            assert_eq!(
                libc::fwrite([9u8; PAGE].as_ptr().cast(), PAGE, 1, stream),
                1
            );
            libc::fclose(stream);
        },
        9,
    ),
    (
        "freopen without a name",
        // SAFETY: as above.
        |file, fd| unsafe {
            let stream = libc::fdopen(libc::dup(fd), c"r".as_ptr());
            let stream = libc::freopen(file.as_ptr(), c"r+".as_ptr(), stream);
            assert_eq!(
                libc::fwrite([9u8; PAGE].as_ptr().cast(), PAGE, 1, stream),
                1
            );
            libc::fclose(stream);
        },
        9,
    ),
    (
        "another mode for the same stream",
        // SAFETY: as above.
        |file, _| unsafe {
            let stream = libc::fopen(file.as_ptr(), c"r".as_ptr());
            let stream = libc::freopen(std::ptr::null(), c"r+".as_ptr(), stream);
            assert_eq!(
                libc::fwrite([9u8; PAGE].as_ptr().cast(), PAGE, 1, stream),
                1
            );
            libc::fclose(stream);
        },
        9,
    ),
];

#[test]
fn c24_rare_calls_that_change_a_file_are_seen() {
    run("c24_worker");
}

fn c24_worker() {
    for (number, (name, change, byte)) in CHANGES.into_iter().enumerate() {
        let name_of_file = format!("c24-{number}.ibd");
        let fd = file(&name_of_file, 1);
        change(&path(&name_of_file), fd);
        assert_eq!(get(fd, 0), Ok(byte), "{name}");
    }
    // A new file by a template whose end a rule names.
    let template = path("XXXXXX.ibd").into_raw();
    // SAFETY: the template is ours and ends in a zero byte.
    let fd = unsafe { libc::mkstemps(template, 4) };
    assert!(fd >= 0);
    // SAFETY: from into_raw above.
    let name = unsafe { std::ffi::CString::from_raw(template) };
    let twin = open(&name, libc::O_RDWR);
    put(twin, 1, 0);
    put(fd, 2, 0);
    assert_eq!(get(twin, 0), Ok(2), "mkstemps");
}

#[test]
fn c24_a_descriptor_by_handle_ends_the_caching() {
    let text = run("c24_handle_worker");
    if !common::not_run(&text) {
        assert!(counter(&text, "bypass_unsupported") > 0, "{text}");
    }
}

fn c24_handle_worker() {
    let (fd, name) = (file("c24h.ibd", 1), path("c24h.ibd"));
    #[repr(C)]
    struct Handle(u32, i32, [u8; 128]);
    let mut handle = Handle(128, 0, [0; 128]);
    let mut mount = 0;
    // SAFETY: the handle has as much room as it says; the path ends in a zero byte.
    let by_handle = unsafe {
        let pointer = (&raw mut handle).cast::<libc::file_handle>();
        let here = libc::AT_FDCWD;
        assert_eq!(
            libc::name_to_handle_at(here, name.as_ptr(), pointer, &raw mut mount, 0),
            0
        );
        let folder = libc::open64(c"/tmp".as_ptr(), libc::O_RDONLY | libc::O_DIRECTORY);
        libc::open_by_handle_at(folder, pointer, libc::O_RDWR)
    };
    if by_handle < 0 {
        eprintln!("NOT RUN: this user may not open files by handle");
        return;
    }
    put(by_handle, 9, 0);
    assert_eq!(get(fd, 0), Ok(9));
}

#[test]
fn c4_on_overlayfs_a_descriptor_from_before_the_copy_reads_the_copy() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = run_as(&mut preloaded("overlay_worker", &folder));
    if !common::not_run(&text) {
        assert!(counter(&text, "hits") > 0, "{text}");
    }
}

fn overlay_worker() {
    for name in ["lower", "upper", "work", "merged"] {
        std::fs::create_dir_all(path(name).to_str().expect("UTF-8")).expect("a folder");
    }
    let data = vec![1u8; 2 * PAGE];
    std::fs::write(path("lower/a.ibd").to_str().expect("UTF-8"), data).expect("a file");
    let folder = common::folder();
    let options =
        format!("lowerdir={folder}/lower,upperdir={folder}/upper,workdir={folder}/work\0");
    let (merged, private) = (path("merged"), libc::MS_REC | libc::MS_PRIVATE);
    let null = std::ptr::null();
    // SAFETY: texts end in zero bytes. The name space is this process's own.
    let mounted = unsafe {
        libc::unshare(libc::CLONE_NEWNS) == 0
            && libc::mount(null, c"/".as_ptr(), null, private, null.cast()) == 0
            && libc::mount(
                c"overlay".as_ptr(),
                merged.as_ptr(),
                c"overlay".as_ptr(),
                0,
                options.as_ptr().cast(),
            ) == 0
    };
    if !mounted {
        eprintln!("NOT RUN: this user may not mount overlayfs");
        return;
    }
    // The second descriptor has the file copied up: device and number stay, the time of birth does not.
    let name = path("merged/a.ibd");
    // SAFETY: the path ends in a zero byte.
    let old = unsafe { libc::open64(name.as_ptr(), libc::O_RDONLY) };
    assert_eq!(get(old, 0), Ok(1));
    let new = open(&name, libc::O_RDWR);
    put(new, 2, 0);
    assert_eq!(get(new, 0), Ok(2), "a hit");
    // Its pages leave, and come in again by the old descriptor.
    // SAFETY: data has as many bytes.
    unsafe { libc::write(new, [3u8; PAGE].as_ptr().cast(), PAGE) };
    let mut there = [0u8; PAGE];
    let pointer = there.as_mut_ptr() as usize;
    // A read by number goes past the library, at the descriptor's position.
    assert_eq!(
        raw(libc::SYS_read, [old as usize, pointer, PAGE]),
        PAGE as isize
    );
    assert_eq!((get(old, 0), there[0]), (Ok(3), 3));
    assert_eq!((get(new, 0), get(new, 0)), (Ok(3), Ok(3)));
}
