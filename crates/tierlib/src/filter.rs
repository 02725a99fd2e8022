//! A filter of system calls for this process: what would change data files unseen is refused by the kernel.
//!
//! Programs make system calls without the C library (liburing always, libaio when it is linked statically). So
//! `io_uring_setup` says ENOSYS whoever calls it, and `io_submit` says so unless the call is made in the gate: one page of
//! this library's code that is mapped a second time, at the same address in every program. The filter outlives an exec, and
//! a server that is started through another program (numactl, a shell) has the library somewhere else.

use std::arch::global_asm;
use std::ffi::{CStr, CString};
use std::io;
use std::sync::OnceLock;

use libc::{c_int, c_ulong, c_void, sock_filter, sock_fprog};

use crate::raw;

/// Where the function in the gate stands, or why there is no filter.
static INSTALLED: OnceLock<Result<usize, String>> = OnceLock::new();

/// Far from where programs, heaps and libraries lie, with 47 and 39 bits of addresses.
const GATE: usize = if cfg!(target_arch = "aarch64") {
    0x20_0000_0000
} else {
    0x2000_0000_0000
};

// The C convention puts three arguments where the kernel wants them. It fits into half of its alignment, so into one page.
#[cfg(target_arch = "x86_64")]
global_asm!(
    ".pushsection .text.upshift_tier_gate,\"ax\",@progbits",
    ".balign 16",
    ".globl upshift_tier_gate",
    ".hidden upshift_tier_gate",
    "upshift_tier_gate:",
    "mov eax, {number}",
    "syscall",
    "ret",
    ".popsection",
    number = const libc::SYS_io_submit,
);
#[cfg(target_arch = "aarch64")]
global_asm!(
    ".pushsection .text.upshift_tier_gate,\"ax\",@progbits",
    ".balign 16",
    ".globl upshift_tier_gate",
    ".hidden upshift_tier_gate",
    "upshift_tier_gate:",
    "mov x8, #{number}",
    "svc 0",
    "ret",
    ".popsection",
    number = const libc::SYS_io_submit,
);

type Submit = unsafe extern "C" fn(usize, usize, *const c_void) -> isize;

unsafe extern "C" {
    fn upshift_tier_gate(context: usize, count: usize, blocks: *const c_void) -> isize;
}

#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: u32 = 0xc000_00b7;

/// io_submit and io_uring_setup among the system calls of 32-bit programs, which a 64-bit one can make, too (x86: int 0x80).
const FOREIGN: [u32; 2] = if cfg!(target_arch = "aarch64") {
    [246, 425]
} else {
    [248, 425]
};
/// io_uring_setup; on x86-64, both calls with the bit of x32 as well.
#[cfg(target_arch = "x86_64")]
const REFUSED: [u32; 3] = [
    libc::SYS_io_uring_setup as u32,
    1 << 30 | libc::SYS_io_uring_setup as u32,
    1 << 30 | 544,
];
#[cfg(target_arch = "aarch64")]
const REFUSED: [u32; 1] = [libc::SYS_io_uring_setup as u32];

/// Whether the kernel refuses the calls; why not.
pub fn installed() -> Result<(), String> {
    match INSTALLED.get() {
        Some(Ok(_)) => Ok(()),
        Some(Err(error)) => Err(error.clone()),
        None => Err("the library is not ready".into()),
    }
}

/// Has the kernel refuse the calls, in all threads and for good. Before the program's own code runs.
pub fn install() {
    // SAFETY: the call takes a number.
    let page_bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) as usize };
    let function = upshift_tier_gate as Submit as usize;
    let opened = open_gate(function, page_bytes);
    let done = opened.and_then(|()| load(&program(GATE as u64, (GATE + page_bytes) as u64)));
    let _ = INSTALLED.set(done.map(|()| GATE + function % page_bytes));
}

/// io_submit, where the kernel lets it through; its answer, errors as negative numbers.
///
/// # Safety
/// As the system call.
pub unsafe fn io_submit(context: usize, count: usize, blocks: *const c_void) -> isize {
    let submit: Submit = match INSTALLED.get() {
        // SAFETY: `open_gate` has mapped the function there.
        Some(Ok(gate)) => unsafe { std::mem::transmute::<usize, Submit>(*gate) },
        _ => upshift_tier_gate,
    };
    // SAFETY: the caller's promise.
    unsafe { submit(context, count, blocks) }
}

/// Maps the page of this function at the gate, too. The memory is the library's file: where a program may load that, it may
/// do this.
fn open_gate(function: usize, size: usize) -> Result<(), String> {
    let found = in_file(function).ok_or("the library does not find its own code in memory")?;
    let (path, within) = (found.0, function % size);
    let failed = |error: io::Error| format!("{} cannot be mapped: {error}", path.to_string_lossy());
    let flags = libc::O_RDONLY | libc::O_CLOEXEC;
    let here = libc::AT_FDCWD as usize;
    // SAFETY: the path ends in a zero byte. What is mapped at the address already stays as it is (a kernel before 4.17 maps
    // somewhere else, then).
    unsafe {
        let open = [here, path.as_ptr() as usize, flags as usize, 0, 0, 0];
        let fd = raw::call(libc::SYS_openat, open);
        if fd < 0 {
            return Err(failed(io::Error::last_os_error()));
        }
        let protection = (libc::PROT_READ | libc::PROT_EXEC) as usize;
        let flags = (libc::MAP_PRIVATE | libc::MAP_FIXED_NOREPLACE) as usize;
        let map = [GATE, size, protection, flags, fd as usize, found.1 - within];
        let mapped = raw::call(libc::SYS_mmap, map);
        let error = io::Error::last_os_error();
        raw::call(libc::SYS_close, [fd as usize, 0, 0, 0, 0, 0]);
        if mapped != GATE as isize {
            return Err(failed(error));
        }
        let page = |at: usize| std::slice::from_raw_parts(at as *const u8, size);
        if page(GATE) != page(function - within) {
            return Err("the library's file differs from what was loaded".into());
        }
    }
    Ok(())
}

/// The file that this address of code comes from, and where in it.
fn in_file(address: usize) -> Option<(CString, usize)> {
    struct Search {
        address: u64,
        found: Option<(CString, usize)>,
    }
    unsafe extern "C" fn look(
        about: *mut libc::dl_phdr_info,
        _: usize,
        search: *mut c_void,
    ) -> c_int {
        // SAFETY: the loader describes an object, with a name and so many headers; the search is the caller's.
        unsafe {
            let (about, search) = (&*about, &mut *search.cast::<Search>());
            let headers =
                std::slice::from_raw_parts(about.dlpi_phdr, usize::from(about.dlpi_phnum));
            for header in headers
                .iter()
                .filter(|header| header.p_type == libc::PT_LOAD)
            {
                let start = about.dlpi_addr.wrapping_add(header.p_vaddr);
                if (start..start.wrapping_add(header.p_filesz)).contains(&search.address) {
                    let offset = header.p_offset + (search.address - start);
                    let path = CStr::from_ptr(about.dlpi_name).to_owned();
                    search.found = Some((path, offset as usize));
                }
            }
        }
        0
    }
    let mut search = Search {
        address: address as u64,
        found: None,
    };
    // SAFETY: the function above has the right type, and the search outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(look), (&raw mut search).cast()) };
    search.found
}

/// Where a line of the filter leads to.
#[derive(Clone, Copy)]
enum To {
    Next,
    Native,
    Allow,
    Refuse,
}

/// The filter, for code from `start` to below `end`, which have the same upper half.
fn program(start: u64, end: u64) -> Vec<sock_filter> {
    use To::{Allow, Native, Next, Refuse};
    const LOAD: u32 = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
    const EQUAL: u32 = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
    const AT_LEAST: u32 = libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K;
    const ANSWER: u32 = libc::BPF_RET | libc::BPF_K;
    // Offsets in seccomp_data: number 0, architecture 4, address of the call 8 (lower half first).
    let mut lines = vec![
        (LOAD, 4, Next, Next),
        (EQUAL, ARCHITECTURE, Native, Next),
        (LOAD, 0, Next, Next),
        (EQUAL, FOREIGN[0], Refuse, Next),
        (EQUAL, FOREIGN[1], Refuse, Allow),
    ];
    let native = lines.len();
    lines.push((LOAD, 0, Next, Next));
    lines.extend(REFUSED.map(|number| (EQUAL, number, Refuse, Next)));
    lines.extend([
        (EQUAL, libc::SYS_io_submit as u32, Next, Allow),
        (LOAD, 12, Next, Next),
        (EQUAL, (start >> 32) as u32, Next, Refuse),
        (LOAD, 8, Next, Next),
        (AT_LEAST, start as u32, Next, Refuse),
        (AT_LEAST, end as u32, Refuse, Allow),
    ]);
    let allow = lines.len();
    lines.extend([
        (ANSWER, libc::SECCOMP_RET_ALLOW, Next, Next),
        (
            ANSWER,
            libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32,
            Next,
            Next,
        ),
    ]);
    let line = |(at, &(code, k, yes, no)): (usize, &(u32, u32, To, To))| {
        // Jumps count from the next line.
        let offset = |to| match to {
            Next => 0,
            Native => native - at - 1,
            Allow => allow - at - 1,
            Refuse => allow - at,
        };
        sock_filter {
            code: code as u16,
            jt: offset(yes) as u8,
            jf: offset(no) as u8,
            k,
        }
    };
    lines.iter().enumerate().map(line).collect()
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
