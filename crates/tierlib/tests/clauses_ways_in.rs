//! The clauses of docs/explanation/tier-contract.md about descriptors, names, and ways around pread and pwrite.

mod common;

use std::ffi::{CStr, c_int, c_long, c_void};
use std::process::Command;

use common::{counter, get, open, path, put, run};

workers!(
    c2_worker,
    c2_taken_worker,
    c6_worker,
    c10_shorter_worker,
    c12_worker,
    c13_worker,
    c14_worker,
    c14_told_worker,
    c18_worker,
    c21_reads_worker,
    c22_worker,
);

/// Makes sure that the page is in the tier: what the next read gives is what the tier has.
fn bring(fd: c_int, byte: u8, offset: i64) {
    put(fd, byte, offset);
    assert_eq!(get(fd, offset), Ok(byte));
}

/// Another program, which has no tier, overwrites the file.
fn overwrite(file: &CStr) {
    let mut command = Command::new("sh");
    command.args(["-c", r#"printf 'c%.0s' $(seq 8192) > "$1""#, "sh"]);
    command.env_remove("LD_PRELOAD");
    command.arg(file.to_str().expect("a name in UTF-8"));
    assert!(command.status().expect("sh runs").success());
}

#[test]
fn c2_closed_numbers_and_files_changed_while_closed() {
    run("c2_worker");
}

fn c2_worker() {
    // The number of a closed descriptor goes to another file at once.
    let closes: [fn(c_int); 3] = [
        // SAFETY: our own descriptor.
        |fd| unsafe { assert_eq!(libc::close(fd), 0) },
        // SAFETY: as above.
        |fd| unsafe { assert_eq!(libc::close_range(fd as u32, fd as u32, 0), 0) },
        // SAFETY: the call has no other arguments.
        |fd| unsafe { assert_eq!(libc::syscall(libc::SYS_close, fd), 0) },
    ];
    for close in closes {
        let fd = open(&path("c2.ibd"), libc::O_RDWR);
        bring(fd, 1, 0);
        close(fd);
        assert_eq!(get(fd, 0), Err(libc::EBADF));
        let other = open(&path("c2b.ibd"), libc::O_RDWR);
        assert_eq!(other, fd, "the lowest number is free again");
        bring(other, 2, 0);
        let again = open(&path("c2.ibd"), libc::O_RDWR);
        assert_eq!((get(again, 0), get(other, 0)), (Ok(1), Ok(2)));
        // SAFETY: our own descriptors.
        unsafe { (libc::close(again), libc::close(other)) };
    }
    let fd = open(&path("c2.ibd"), libc::O_RDWR);
    bring(fd, 3, 0);
    // SAFETY: our own descriptor.
    unsafe { libc::close(fd) };
    overwrite(&path("c2.ibd"));
    assert_eq!(get(open(&path("c2.ibd"), libc::O_RDWR), 0), Ok(b'c'));
}

#[test]
fn c2_a_number_that_another_file_takes_by_a_call_by_number() {
    run("c2_taken_worker");
}

fn c2_taken_worker() {
    let takes: [fn(c_int, c_int) -> c_long; 2] = [
        // SAFETY: our own descriptors.
        |old, new| unsafe { libc::syscall(libc::SYS_dup3, old, new, 0) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: our own descriptors.
        |old, new| unsafe { libc::syscall(libc::SYS_dup2, old, new) },
        #[cfg(not(target_arch = "x86_64"))]
        // SAFETY: our own descriptors.
        |old, new| unsafe { libc::syscall(libc::SYS_dup3, old, new, libc::O_CLOEXEC) },
    ];
    for take in takes {
        let fd = open(&path("c2.ibd"), libc::O_RDWR);
        bring(fd, 1, 0);
        let other = open(&path("c2b.ibd"), libc::O_RDWR);
        bring(other, 2, 0);
        assert_eq!(take(other, fd), c_long::from(fd));
        assert_eq!(get(fd, 0), Ok(2));
        put(fd, 3, 0);
        assert_eq!(get(other, 0), Ok(3));
        // SAFETY: our own descriptors.
        unsafe { (libc::close(fd), libc::close(other)) };
    }
}

#[test]
fn c6_reads_at_the_descriptors_position_are_the_files() {
    let text = run("c6_worker");
    assert_eq!(counter(&text, "bypass_unsupported"), 3, "{text}");
}

fn c6_worker() {
    let fd = open(&path("c6.ibd"), libc::O_RDWR);
    bring(fd, 1, 0);
    bring(fd, 2, 8192);
    // A duplicate shares the position: only the kernel knows where a read starts.
    // SAFETY: our own descriptor; data has as many bytes as are read.
    unsafe {
        let twin = libc::dup(fd);
        for (which, byte) in [(fd, 1), (twin, 2)] {
            let mut data = [0u8; 8192];
            let answer = libc::read(which, data.as_mut_ptr().cast(), 8192);
            assert_eq!((answer, data[0]), (8192, byte));
        }
        let mut byte = 0u8;
        assert_eq!(libc::read(fd, (&raw mut byte).cast(), 1), 0, "the end");
    }
}

#[test]
fn c10_a_page_is_not_served_once_the_file_is_shorter() {
    run("c10_shorter_worker");
}

fn c10_shorter_worker() {
    for cut in [
        // SAFETY: the path ends in a zero byte.
        (|file| unsafe { libc::truncate(file.as_ptr(), 0) }) as fn(&CStr) -> c_int,
        // SAFETY: as above.
        |file| unsafe { libc::open64(file.as_ptr(), libc::O_WRONLY | libc::O_TRUNC).min(0) },
        // SAFETY: as above.
        |file| unsafe {
            libc::openat64(libc::AT_FDCWD, file.as_ptr(), libc::O_RDWR | libc::O_TRUNC).min(0)
        },
        // SAFETY: as above.
        |file| unsafe { libc::creat(file.as_ptr(), 0o600).min(0) },
    ] {
        shorter(cut);
    }
}

fn shorter(cut: fn(&CStr) -> c_int) {
    const PART: usize = 1 << 20;
    let file = path("shorter.ibd");
    let fd = open(&file, libc::O_RDWR);
    // So much that the kernel is busy for a while after it has set the size.
    let part = vec![1u8; PART];
    for number in 0..128 {
        // SAFETY: the part has as many bytes.
        let wrote = unsafe { libc::pwrite64(fd, part.as_ptr().cast(), PART, number * PART as i64) };
        assert_eq!(wrote, PART as isize);
    }
    bring(fd, 1, 0);
    std::thread::scope(|scope| {
        let reader = scope.spawn(move || {
            // SAFETY: stat is plain data with room for the answer; data has as many bytes.
            unsafe {
                let mut found: libc::stat64 = std::mem::zeroed();
                while libc::fstat64(fd, &raw mut found) == 0 && found.st_size > 0 {}
                let mut data = [0u8; 4096];
                libc::pread64(fd, data.as_mut_ptr().cast(), 4096, 0)
            }
        });
        assert_eq!(cut(&file), 0);
        assert_eq!(reader.join().expect("it ends"), 0, "the file was empty");
    });
}

#[test]
fn c12_copies_into_a_data_file_are_seen() {
    let text = run("c12_worker");
    assert!(counter(&text, "invalidations") >= 6, "{text}");
    assert_eq!(counter(&text, "bypass_unsupported"), 3, "{text}");
}

type Copy = fn(c_int, c_int) -> isize;

fn c12_worker() {
    let copies: [Copy; 3] = [
        // SAFETY: our own descriptors, and null for their own positions.
        |from, to| unsafe { libc::sendfile64(to, from, std::ptr::null_mut(), 8192) },
        // SAFETY: our own descriptors, and null for their own positions.
        |from, to| unsafe {
            libc::copy_file_range(
                from,
                std::ptr::null_mut(),
                to,
                std::ptr::null_mut(),
                8192,
                0,
            )
        },
        // SAFETY: our own descriptors, and null for their own positions.
        |from, to| unsafe {
            let mut pipe = [0; 2];
            assert_eq!(libc::pipe(pipe.as_mut_ptr()), 0);
            let null = std::ptr::null_mut();
            assert_eq!(libc::splice(from, null, pipe[1], null, 8192, 0), 8192);
            let moved = libc::splice(pipe[0], null, to, null, 8192, 0);
            libc::close(pipe[0]);
            libc::close(pipe[1]);
            moved
        },
    ];
    for (number, copy) in copies.into_iter().enumerate() {
        let from = open(&path(&format!("c12a{number}.ibd")), libc::O_RDWR);
        let to = open(&path(&format!("c12b{number}.ibd")), libc::O_RDWR);
        bring(from, 5, 0);
        bring(to, 1, 0);
        assert_eq!(copy(from, to), 8192, "copy {number}");
        assert_eq!((get(from, 0), get(to, 0)), (Ok(5), Ok(5)), "copy {number}");
        bring(from, 6, 0);
        assert_eq!((get(from, 0), get(to, 0)), (Ok(6), Ok(5)));
    }
}

#[test]
fn c14_names_that_move() {
    run("c14_worker");
}

fn rename(old: &str, new: &str, flags: u32) {
    let (old, new, here) = (path(old), path(new), libc::AT_FDCWD);
    // SAFETY: both paths end in a zero byte.
    let answer = unsafe {
        if flags == 0 {
            libc::rename(old.as_ptr(), new.as_ptr())
        } else {
            libc::renameat2(here, old.as_ptr(), here, new.as_ptr(), flags)
        }
    };
    assert_eq!(answer, 0);
}

#[test]
fn c14_a_file_is_told_by_its_new_name() {
    run("c14_told_worker");
}

fn c14_told_worker() {
    let told = || {
        let mut names: Vec<_> = common::snapshot()
            .files
            .into_iter()
            .map(|file| file.name)
            .collect();
        names.sort_unstable();
        names
    };
    let paths = |names: &[&str]| -> Vec<String> {
        let path = |name: &&str| path(name).into_string().expect("UTF-8");
        names.iter().map(path).collect()
    };
    let fd = open(&path("#sql-ib1.ibd"), libc::O_RDWR);
    bring(fd, 1, 0);
    rename("#sql-ib1.ibd", "a.ibd", 0);
    assert_eq!((get(fd, 0), told()), (Ok(1), paths(&["a.ibd"])));
    let other = open(&path("b.ibd"), libc::O_RDWR);
    bring(other, 2, 0);
    bring(other, 2, 8192);
    rename("a.ibd", "b.ibd", libc::RENAME_EXCHANGE);
    assert_eq!(told(), paths(&["a.ibd", "b.ibd"]));
    // Each has the other's name, and neither is gone.
    let pages = |name: &str| {
        let [name] = &paths(&[name])[..] else {
            unreachable!()
        };
        let files = common::snapshot().files;
        let file = files.into_iter().find(|file| file.name == *name);
        file.expect("told").pages
    };
    assert_eq!((pages("a.ibd"), pages("b.ibd")), (4, 2));
    // SAFETY: our own descriptors.
    unsafe { assert_eq!((libc::close(fd), libc::close(other)), (0, 0)) };
    assert_eq!(told(), paths(&["a.ibd", "b.ibd"]));
    // Below a folder's descriptor a relative name leads elsewhere; out of the rules the file is no longer cached.
    let fd = open(&path("b.ibd"), libc::O_RDWR);
    bring(fd, 3, 0);
    let here = libc::AT_FDCWD;
    // SAFETY: all paths end in a zero byte.
    unsafe {
        let folder = libc::open(path("").as_ptr(), libc::O_DIRECTORY);
        let answer = libc::renameat(here, path("b.ibd").as_ptr(), folder, c"c.ibd".as_ptr());
        assert_eq!(answer, 0);
    }
    assert_eq!((get(fd, 0), told()), (Ok(3), paths(&["a.ibd", "b.ibd"])));
    rename("a.ibd", "a", 0);
    assert_eq!((get(fd, 0), told()), (Ok(3), paths(&["b.ibd"])));
}

fn c14_worker() {
    let read = |name: &str| get(open(&path(name), libc::O_RDWR), 0);
    for (name, byte) in [("a.ibd", 1), ("b.ibd", 2), ("c.ibd", 3)] {
        bring(open(&path(name), libc::O_RDWR), byte, 0);
    }
    // Kept under the new name; the file that was there counts as removed.
    let replaced = open(&path("b.ibd"), libc::O_RDWR);
    rename("a.ibd", "b.ibd", 0);
    assert_eq!((read("b.ibd"), get(replaced, 0)), (Ok(1), Ok(2)));
    rename("b.ibd", "c.ibd", libc::RENAME_EXCHANGE);
    assert_eq!((read("b.ibd"), read("c.ibd")), (Ok(3), Ok(1)));
    let unwatched = open(&path("exchanged"), libc::O_RDWR);
    put(unwatched, 4, 0);
    rename("b.ibd", "exchanged", libc::RENAME_EXCHANGE);
    assert_eq!(read("b.ibd"), Ok(4));
    put(unwatched, 5, 0);
    assert_eq!(read("b.ibd"), Ok(5));
    // A file from a name that no rule names may have descriptors that nobody watches.
    type GivesName = fn(&CStr, &CStr) -> c_int;
    let ways: [GivesName; 2] = [
        // SAFETY: both paths end in a zero byte.
        |old, new| unsafe { libc::rename(old.as_ptr(), new.as_ptr()) },
        // SAFETY: both paths end in a zero byte.
        |old, new| unsafe { libc::link(old.as_ptr(), new.as_ptr()) },
    ];
    for (number, way) in ways.into_iter().enumerate() {
        let (old, new) = (path("plain"), path(&format!("in{number}.ibd")));
        let unwatched = open(&old, libc::O_RDWR);
        put(unwatched, 7, 0);
        assert_eq!(way(&old, &new), 0);
        let fd = open(&new, libc::O_RDWR);
        assert_eq!(get(fd, 0), Ok(7));
        put(unwatched, 8, 0);
        assert_eq!(get(fd, 0), Ok(8), "way {number}");
    }
    // And by a name that no rule names, descriptors come that nobody watches.
    for (number, way) in ways.into_iter().enumerate() {
        let (old, new) = (
            path(&format!("out{number}.ibd")),
            path(&format!("out{number}")),
        );
        let fd = open(&old, libc::O_RDWR);
        bring(fd, 1, 0);
        assert_eq!(way(&old, &new), 0);
        let unwatched = open(&new, libc::O_RDWR);
        assert_eq!((get(unwatched, 0), get(fd, 0)), (Ok(1), Ok(1)));
        put(unwatched, 2, 0);
        assert_eq!(get(fd, 0), Ok(2), "way out {number}");
    }
    let fd = open(&path("out.ibd"), libc::O_RDWR);
    bring(fd, 1, 0);
    put(open(&path("other"), libc::O_RDWR), 3, 0);
    rename("other", "out.ibd", libc::RENAME_EXCHANGE);
    put(open(&path("other"), libc::O_RDWR), 2, 0);
    assert_eq!((get(fd, 0), read("out.ibd")), (Ok(2), Ok(3)));
}

#[test]
fn c13_pages_of_a_file_without_a_name_leave_with_its_last_descriptor() {
    run("c13_worker");
}

fn c13_worker() {
    type Removes = fn(&CStr, &CStr) -> c_int;
    let ways: [(&str, Removes); 5] = [
        // SAFETY: paths end in a zero byte.
        ("unlink", |name, _| unsafe { libc::unlink(name.as_ptr()) }),
        // SAFETY: as above.
        ("unlinkat", |name, _| unsafe {
            libc::unlinkat(libc::AT_FDCWD, name.as_ptr(), 0)
        }),
        // SAFETY: as above.
        ("remove", |name, _| unsafe { libc::remove(name.as_ptr()) }),
        // SAFETY: as above.
        ("rename", |name, other| unsafe {
            libc::rename(other.as_ptr(), name.as_ptr())
        }),
        // SAFETY: as above.
        ("renameat", |name, other| unsafe {
            let here = libc::AT_FDCWD;
            libc::renameat(here, other.as_ptr(), here, name.as_ptr())
        }),
    ];
    let out = || common::snapshot().counter(tiercache::Counter::Invalidations);
    for (which, removes) in ways {
        let (name, other) = (path(&format!("{which}.ibd")), path("other.ibd"));
        let (fd, stays) = (open(&name, libc::O_RDWR), open(&other, libc::O_RDWR));
        bring(fd, 1, 0);
        let before = out();
        assert_eq!(removes(&name, &other), 0);
        assert_eq!((get(fd, 0), out()), (Ok(1), before), "{which}");
        // SAFETY: our own descriptors.
        unsafe { (libc::close(stays), libc::close(fd)) };
        assert_eq!(out(), before + 2, "{which}");
    }
}

#[test]
fn c18_posix_aio_ends_the_caching() {
    let text = run("c18_worker");
    assert!(counter(&text, "bypass_unsupported") > 0, "{text}");
}

fn c18_worker() {
    let fd = open(&path("c18.ibd"), libc::O_RDWR);
    bring(fd, 1, 0);
    let data = [9u8; 8192];
    // SAFETY: the request and its data live until it is done.
    unsafe {
        let mut request: libc::aiocb = std::mem::zeroed();
        request.aio_fildes = fd;
        request.aio_buf = data.as_ptr().cast_mut().cast::<c_void>();
        request.aio_nbytes = data.len();
        assert_eq!(libc::aio_write(&raw mut request), 0);
        let waited = [&raw const request];
        while libc::aio_error(&raw const request) == libc::EINPROGRESS {
            libc::aio_suspend(waited.as_ptr(), 1, std::ptr::null());
        }
        assert_eq!(libc::aio_return(&raw mut request), 8192);
    }
    assert_eq!(get(fd, 0), Ok(9));
}

#[test]
fn c21_a_child_of_a_fork_reads_what_the_owner_wrote() {
    run("c21_reads_worker");
}

fn c21_reads_worker() {
    let fd = open(&path("c21r.ibd"), libc::O_RDWR);
    for byte in 1..50 {
        bring(fd, byte, 0);
        // SAFETY: the child calls only pread and _exit.
        unsafe {
            let child = libc::fork();
            if child == 0 {
                libc::_exit(i32::from(get(fd, 0) != Ok(byte)));
            }
            let mut status = 1;
            libc::waitpid(child, &raw mut status, 0);
            assert_eq!(status, 0, "the child read something else than {byte}");
        }
    }
}

#[test]
fn c22_programs_that_inherit_the_library() {
    let text = run("c22_worker");
    assert!(text.contains("the server runs without a tier"), "{text}");
    assert_eq!(counter(&text, "writes"), 1, "only the owner's: {text}");
}

fn c22_worker() {
    let fd = open(&path("c22.ibd"), libc::O_RDWR);
    bring(fd, 1, 0);
    // One that opens no data file, and one that does: it works on the file, and has no tier.
    let quiet = Command::new("true").output().expect("true runs");
    assert_eq!((quiet.status.code(), quiet.stderr), (Some(0), vec![]));
    let own = path("c22own.ibd");
    let mut command = Command::new("dd");
    command.args([
        "if=/dev/zero",
        "bs=8192",
        "count=1",
        "conv=notrunc",
        "status=none",
    ]);
    command.arg(format!("of={}", own.to_str().expect("UTF-8")));
    let done = command.output().expect("dd runs");
    assert!(done.status.success());
    eprint!("{}", String::from_utf8_lossy(&done.stderr));
    assert_eq!(get(fd, 0), Ok(1));
}
