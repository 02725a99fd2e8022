//! System calls without the C library: for calls that come before the constructor ran, and for libaio's
//! five calls, which are no more than this.

use std::arch::asm;

use libc::{c_int, c_long};

/// One system call; the kernel's answer, errors as negative numbers.
///
/// # Safety
/// The arguments must be right for the call.
#[cfg(target_arch = "x86_64")]
pub unsafe fn kernel(number: c_long, arguments: [usize; 6]) -> isize {
    let answer: isize;
    // SAFETY: the x86-64 convention: number in rax, arguments in rdi rsi rdx r10 r8 r9; rcx and r11 are lost.
    unsafe {
        asm!("syscall", inlateout("rax") number as isize => answer,
            in("rdi") arguments[0], in("rsi") arguments[1], in("rdx") arguments[2],
            in("r10") arguments[3], in("r8") arguments[4], in("r9") arguments[5],
            lateout("rcx") _, lateout("r11") _, options(nostack));
    }
    answer
}

/// One system call; the kernel's answer, errors as negative numbers.
///
/// # Safety
/// The arguments must be right for the call.
#[cfg(target_arch = "aarch64")]
pub unsafe fn kernel(number: c_long, arguments: [usize; 6]) -> isize {
    let answer: isize;
    // SAFETY: the AArch64 convention: number in x8, arguments in x0 to x5, answer in x0.
    unsafe {
        asm!("svc 0", in("x8") number, inlateout("x0") arguments[0] => answer,
            in("x1") arguments[1], in("x2") arguments[2], in("x3") arguments[3],
            in("x4") arguments[4], in("x5") arguments[5], options(nostack));
    }
    answer
}

/// One system call the way of the C library: -1 and errno.
///
/// # Safety
/// As `kernel`.
pub unsafe fn call(number: c_long, arguments: [usize; 6]) -> isize {
    // SAFETY: the caller's promise.
    let answer = unsafe { kernel(number, arguments) };
    if (-4095..0).contains(&answer) {
        set_errno(-answer as c_int);
        return -1;
    }
    answer
}

/// errno of this thread.
pub fn errno() -> c_int {
    // SAFETY: the address is this thread's own.
    unsafe { *libc::__errno_location() }
}

/// Sets errno of this thread.
pub fn set_errno(value: c_int) {
    // SAFETY: as in errno.
    unsafe { *libc::__errno_location() = value }
}

/// Runs what may disturb errno, and puts errno back.
pub fn keep_errno<T>(run: impl FnOnce() -> T) -> T {
    let before = errno();
    let answer = run();
    set_errno(before);
    answer
}
