//! The kernel's queue of sends and receives, and the requests that wait for theirs.

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::os::fd::RawFd;

use io_uring::{IoUring, opcode, squeue, types};

/// A request of so many bytes fits into an empty socket's buffer (the smallest is TCP's, with 16 KiB): the kernel takes it at once unless
/// the server does not read, or the whole machine's sockets are short of memory.
pub(super) const SHORT_BYTES: usize = 4096;
/// The kernel allows no longer queue; a full one is submitted early.
const QUEUE_MAX: usize = 32_768;
/// `off` in the environment: as on a system that has no io_uring for us.
const SWITCH: &str = "UPSHIFT_LOAD_IO_URING";
/// Marks a time limit, which nobody waits for.
const NOBODY: u64 = u64::MAX;

/// Which fiber an operation is for; the kernel says it back with the completion.
#[derive(Clone, Copy)]
pub(super) enum User {
    /// It waits for a socket's operation. Each has at most one that it waits for.
    Socket(usize),
    /// It waits for an operation that is no socket's system call.
    Besides(usize),
    /// Its request goes out while it waits for the answer.
    Sent(usize),
}

impl User {
    fn to_data(self) -> u64 {
        let (number, kind) = match self {
            Self::Socket(number) => (number, 0),
            Self::Besides(number) => (number, 1),
            Self::Sent(number) => (number, 2),
        };
        (number as u64) << 2 | kind
    }

    fn of(data: u64) -> Self {
        let number = (data >> 2) as usize;
        match data & 3 {
            0 => Self::Socket(number),
            1 => Self::Besides(number),
            _ => Self::Sent(number),
        }
    }
}

/// A request that waits for the receive after it, so that both go in one system call. The kernel reads `bytes` while the fiber waits, so
/// its allocation is made once and lives longer than the ring.
pub(super) struct Pending {
    pub(super) fd: RawFd,
    pub(super) bytes: Vec<u8>,
    /// Something else went out since the last receive: the socket's buffer may be full.
    pub(super) crowded: bool,
    /// The kernel has not taken all of `bytes` yet, but so many of them.
    is_sending: bool,
    taken: usize,
    /// How long the kernel may wait until it takes the rest.
    limit: Option<types::Timespec>,
    /// What arrived before that: the server may speak without being asked. The fiber goes on when `bytes` are its own again.
    early: Option<i32>,
}

/// Fields drop in this order: the kernel is done with the buffers before they go.
pub(super) struct Ring {
    uring: IoUring,
    /// By fiber.
    pub(super) pending: Vec<Pending>,
    /// A socket's operation was queued since the last system call.
    queued: bool,
    /// Requests that were queued since then: the kernel takes what it can of each at once, and that wakes nobody.
    sends: usize,
    /// System calls for sockets that no connection has counted yet.
    uncounted_syscalls: u64,
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
            is_sending: false,
            taken: 0,
            limit: None,
            early: None,
        }
    }

    /// After a send of what had not been taken: whether there is still something left. A failure shows at the receive.
    fn is_unsent(&mut self, result: i32) -> bool {
        self.taken += usize::try_from(result).unwrap_or(0);
        let failed = result < 0 && result != -libc::EAGAIN;
        !failed && self.taken < self.bytes.len()
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
            sends: 0,
            uncounted_syscalls: 0,
        })
    }

    /// Queue an operation, which fails when `limit` is over; what both point at must stay until it has completed.
    pub(super) fn push(
        &mut self,
        operation: squeue::Entry,
        user: User,
        limit: Option<*const types::Timespec>,
    ) {
        self.queued |= !matches!(user, User::Besides(_));
        let operation = operation.user_data(user.to_data());
        let Some(limit) = limit else {
            return self.push_all(&[operation]);
        };
        let limit = opcode::LinkTimeout::new(limit).build().user_data(NOBODY);
        self.push_all(&[operation.flags(squeue::Flags::IO_LINK), limit]);
    }

    fn push_all(&mut self, operations: &[squeue::Entry]) {
        // SAFETY: what a fiber queues points into its own stack or into borrows that it holds while it waits, and a fiber that waits is
        // never dropped; a pending request's allocation outlives the ring.
        while unsafe { self.uring.submission().push_multiple(operations) }.is_err() {
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
        // Without those the call would return before any answer.
        let sends = std::mem::take(&mut self.sends);
        self.enter(sends + 1);
        let mut for_sockets = std::mem::take(&mut self.queued);
        let mut unsent = Vec::new();
        for completion in self.uring.completion() {
            if completion.user_data() == NOBODY {
                continue;
            }
            let result = completion.result();
            match User::of(completion.user_data()) {
                User::Besides(number) => ready.push_back((number, result)),
                User::Socket(number) => {
                    for_sockets = true;
                    let pending = &mut self.pending[number];
                    if pending.is_sending {
                        pending.early = Some(result);
                    } else {
                        ready.push_back((number, result));
                    }
                }
                User::Sent(number) => {
                    let pending = &mut self.pending[number];
                    if pending.is_unsent(result) {
                        unsent.push(number);
                        continue;
                    }
                    pending.is_sending = false;
                    if let Some(early) = pending.early.take() {
                        ready.push_back((number, early));
                    }
                }
            }
        }
        for number in unsent {
            let pending = &self.pending[number];
            let rest = send(pending.fd, &pending.bytes[pending.taken..]);
            let limit = pending.limit.as_ref().map(std::ptr::from_ref);
            self.push(rest, User::Sent(number), limit);
        }
        self.uncounted_syscalls += u64::from(for_sockets);
    }

    /// Queue the request that waits, to go out while its fiber waits for the answer. What the kernel does not take at once is queued
    /// again and may wait as long as `limit`: nobody else waits for it.
    pub(super) fn send_aside(&mut self, number: usize, limit: Option<types::Timespec>) {
        let pending = &mut self.pending[number];
        if pending.bytes.is_empty() {
            return;
        }
        (pending.is_sending, pending.taken, pending.limit) = (true, 0, limit);
        self.sends += 1;
        let send = send_with(libc::MSG_DONTWAIT, pending.fd, &pending.bytes);
        self.push(send, User::Sent(number), None);
    }

    /// Queue the request that waits, for its fiber to wait for that; whether there is one.
    pub(super) fn send_pending(&mut self, number: usize) -> bool {
        let pending = &self.pending[number];
        let waits = !pending.bytes.is_empty();
        if waits {
            let send = send(pending.fd, &pending.bytes);
            self.push(send, User::Socket(number), None);
        }
        waits
    }

    /// System calls made for sockets since they were last asked for.
    pub(super) fn take_syscalls(&mut self) -> u64 {
        std::mem::take(&mut self.uncounted_syscalls)
    }
}

/// A send that takes all of the bytes, however long it waits.
pub(super) fn send(fd: RawFd, bytes: &[u8]) -> squeue::Entry {
    send_with(libc::MSG_WAITALL, fd, bytes)
}

fn send_with(flags: i32, fd: RawFd, bytes: &[u8]) -> squeue::Entry {
    opcode::Send::new(types::Fd(fd), bytes.as_ptr(), bytes.len() as u32)
        .flags(libc::MSG_NOSIGNAL | flags)
        .build()
}
