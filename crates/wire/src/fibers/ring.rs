//! The kernel's queue of sends and receives, and the requests that wait for theirs.

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::os::fd::RawFd;

use io_uring::{IoUring, opcode, squeue, types};

/// A request of so many bytes fits into an empty socket's buffer (the smallest is TCP's, with 16 KiB), so that the kernel takes it at once.
pub(super) const SHORT_BYTES: usize = 4096;
/// The kernel allows no longer queue; a full one is submitted early.
const QUEUE_MAX: usize = 32_768;
/// `off` in the environment: as on a system that has no io_uring for us.
const SWITCH: &str = "UPSHIFT_LOAD_IO_URING";
/// Marks what nobody waits for: a short send, which completes silently unless it fails, and then the receive fails too.
pub(super) const NOBODY: u64 = u64::MAX;

/// A request that waits for the receive after it, so that both go in one system call. The kernel reads `bytes` while the fiber waits, so
/// its allocation is made once and lives longer than the ring.
pub(super) struct Pending {
    pub(super) fd: RawFd,
    pub(super) bytes: Vec<u8>,
    /// Something else went out since the last receive: the socket's buffer may be full.
    pub(super) crowded: bool,
}

/// Fields drop in this order: the kernel is done with the buffers before they go.
pub(super) struct Ring {
    uring: IoUring,
    /// By fiber.
    pub(super) pending: Vec<Pending>,
    /// A socket's operation was queued since the last system call.
    pub(super) queued: bool,
    /// System calls for sockets that no connection has counted yet.
    pub(super) uncounted_syscalls: u64,
}

fn uring(entries: usize) -> io::Result<IoUring> {
    let uring = IoUring::builder()
        .setup_cqsize(2 * entries as u32)
        .setup_clamp()
        // Completions are looked at when we ask, which is when we have nothing else to do.
        .setup_single_issuer()
        .setup_defer_taskrun()
        .build(entries as u32)?;
    // Saves the lookup of its descriptor at each call; older kernels do without.
    let _ = uring.submitter().register_ring_fd();
    Ok(uring)
}

impl Pending {
    fn new() -> Self {
        Self {
            fd: -1,
            bytes: Vec::with_capacity(SHORT_BYTES),
            crowded: false,
        }
    }
}

impl Ring {
    /// For so many fibers.
    ///
    /// # Errors
    /// The system's refusal.
    pub(super) fn new(fibers: usize) -> io::Result<Self> {
        if std::env::var_os(SWITCH).is_some_and(|value| value == "off") {
            return Err(io::Error::other(format!("{SWITCH}=off")));
        }
        Ok(Self {
            // A send and a receive each.
            uring: uring((2 * fibers.max(4)).min(QUEUE_MAX))?,
            pending: (0..fibers).map(|_| Pending::new()).collect(),
            queued: false,
            uncounted_syscalls: 0,
        })
    }

    /// Queue an operation; what it points at must stay until it has completed.
    pub(super) fn push(&mut self, operation: &squeue::Entry) {
        // SAFETY: what a fiber queues points into its own stack or into borrows that it holds while it waits, and a fiber that waits is
        // never dropped; a pending request's allocation outlives the ring.
        while unsafe { self.uring.submission().push(operation) }.is_err() {
            // The queue is full.
            self.enter(0);
        }
    }

    fn enter(&mut self, wait_for: usize) {
        match self.uring.submitter().submit_and_wait(wait_for) {
            Ok(_) => {}
            // A signal, or the kernel wants its completions to be read first.
            Err(error)
                if error.kind() == ErrorKind::Interrupted
                    || matches!(error.raw_os_error(), Some(libc::EBUSY | libc::EAGAIN)) => {}
            Err(error) => panic!("io_uring_enter: {error}"),
        }
    }

    /// Submit what is queued, wait for a completion, and say who can go on with which result.
    pub(super) fn wait(&mut self, ready: &mut VecDeque<(usize, i32)>) {
        self.enter(1);
        let mut for_sockets = std::mem::take(&mut self.queued);
        for completion in self.uring.completion() {
            let user = completion.user_data();
            if user == NOBODY {
                continue;
            }
            for_sockets |= user & 1 == 0;
            ready.push_back(((user >> 1) as usize, completion.result()));
        }
        self.uncounted_syscalls += u64::from(for_sockets);
    }

    pub(super) fn queue_send(&mut self, fd: RawFd, bytes: *const u8, length: usize, user: u64) {
        self.queued = true;
        let send = opcode::Send::new(types::Fd(fd), bytes, length as u32)
            .flags(libc::MSG_NOSIGNAL | libc::MSG_WAITALL)
            .build()
            .user_data(user);
        self.push(&if user == NOBODY {
            send.flags(squeue::Flags::SKIP_SUCCESS)
        } else {
            send
        });
    }
}
