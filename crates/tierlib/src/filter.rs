//! A filter of system calls for this process: what would change data files unseen is refused by the kernel.
//!
//! Programs make system calls without the C library (liburing always, libaio when it is linked statically). So
//! `io_uring_setup` says ENOSYS whoever calls it, and `io_submit` says so unless the call is made in this library's code.

use std::io;
use std::sync::OnceLock;

use libc::{c_int, c_ulong, c_void, sock_filter, sock_fprog};

use crate::raw;

static INSTALLED: OnceLock<Result<(), String>> = OnceLock::new();

#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: u32 = 0xc000_00b7;

/// Whether the kernel refuses the calls; why not.
pub fn installed() -> Result<(), String> {
    INSTALLED
        .get()
        .cloned()
        .unwrap_or_else(|| Err("the library is not ready".into()))
}

/// Has the kernel refuse the calls, in all threads and for good. Before the program's own code runs.
pub fn install() {
    let _ = INSTALLED.set(own_code().and_then(|(start, end)| load(&program(start, end))));
}

/// First and last address of the library's code.
fn own_code() -> Result<(u64, u64), String> {
    struct Search {
        inside: u64,
        found: Option<(u64, u64)>,
    }
    unsafe extern "C" fn look(
        about: *mut libc::dl_phdr_info,
        _: usize,
        search: *mut c_void,
    ) -> c_int {
        // SAFETY: the loader describes an object, with so many headers; the search is the caller's.
        unsafe {
            let (about, search) = (&*about, &mut *search.cast::<Search>());
            let headers =
                std::slice::from_raw_parts(about.dlpi_phdr, usize::from(about.dlpi_phnum));
            for header in headers {
                let start = about.dlpi_addr.wrapping_add(header.p_vaddr);
                let end = start.wrapping_add(header.p_memsz);
                if header.p_type == libc::PT_LOAD && (start..end).contains(&search.inside) {
                    search.found = Some((start, end));
                }
            }
        }
        0
    }
    let mut search = Search {
        inside: install as fn() as usize as u64,
        found: None,
    };
    // SAFETY: the function above has the right type, and the search outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(look), (&raw mut search).cast()) };
    let found = search.found.filter(|(start, end)| start >> 32 == end >> 32);
    found.ok_or_else(|| "the library's own code was not found in memory".into())
}

/// The filter, for code from `start` to below `end`, which have the same upper half.
fn program(start: u64, end: u64) -> Vec<sock_filter> {
    const LOAD: u32 = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
    const EQUAL: u32 = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
    const AT_LEAST: u32 = libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K;
    const ANSWER: u32 = libc::BPF_RET | libc::BPF_K;
    // Offsets in seccomp_data: number 0, architecture 4, address of the call 8 (lower half first).
    let line = |code: u32, k: u32, jt: u8, jf: u8| sock_filter {
        code: code as u16,
        jt,
        jf,
        k,
    };
    vec![
        line(LOAD, 4, 0, 0),
        line(EQUAL, ARCHITECTURE, 0, 8),
        line(LOAD, 0, 0, 0),
        line(EQUAL, libc::SYS_io_uring_setup as u32, 7, 0),
        line(EQUAL, libc::SYS_io_submit as u32, 0, 5),
        line(LOAD, 12, 0, 0),
        line(EQUAL, (start >> 32) as u32, 0, 4),
        line(LOAD, 8, 0, 0),
        line(AT_LEAST, start as u32, 0, 2),
        line(AT_LEAST, end as u32, 1, 0),
        line(ANSWER, libc::SECCOMP_RET_ALLOW, 0, 0),
        line(ANSWER, libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32, 0, 0),
    ]
}

fn load(filter: &[sock_filter]) -> Result<(), String> {
    const ALL_THREADS: c_ulong = libc::SECCOMP_FILTER_FLAG_TSYNC;
    // The filter keeps no secret: without the flag, older kernels slow the whole program down.
    const NO_MITIGATION: c_ulong = libc::SECCOMP_FILTER_FLAG_SPEC_ALLOW;
    let program = sock_fprog {
        len: filter.len() as u16,
        filter: filter.as_ptr().cast_mut(),
    };
    let set = |flags: c_ulong| {
        let pointer = (&raw const program) as usize;
        let mode = libc::SECCOMP_SET_MODE_FILTER as usize;
        // SAFETY: the kernel copies the filter, which is there, in the call.
        match unsafe { raw::call(libc::SYS_seccomp, [mode, flags as usize, pointer, 0, 0, 0]) } {
            0 => Ok(()),
            -1 => Err(io::Error::last_os_error()),
            thread => Err(io::Error::other(format!(
                "thread {thread} has a filter of its own"
            ))),
        }
    };
    let with_flags = || {
        set(ALL_THREADS | NO_MITIGATION).or_else(|error| match error.raw_os_error() {
            Some(libc::EINVAL) => set(ALL_THREADS),
            _ => Err(error),
        })
    };
    let done = with_flags().or_else(|error| {
        if error.raw_os_error() != Some(libc::EACCES) {
            return Err(error);
        }
        // Without CAP_SYS_ADMIN, only a process whose children gain no rights by setuid may filter.
        // SAFETY: the call takes numbers only.
        unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
        with_flags()
    });
    done.map_err(|error| format!("the kernel does not filter system calls: {error}"))
}
