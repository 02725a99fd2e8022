//! Many connections on one thread, each written as if it blocked: a fiber a connection, and one system call that sends the requests of
//! all of them and waits for the first answers (Linux's io_uring, from 6.1 on).
//!
//! A blocked receive costs two switches between threads and every send may wake a sleeping CPU; both are paid once for a whole batch
//! here. Outside of [`run`] the same connections make ordinary system calls.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::os::fd::RawFd;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::Duration;

use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult, Yielder};
use io_uring::{IoUring, opcode, squeue, types};

/// A fiber holds one connection's state and shallow calls, in bytes of address space.
const STACK_BYTES: usize = 256 * 1024;
/// A request of so many bytes fits into an empty socket's buffer (the smallest is TCP's, with 16 KiB), so that the kernel takes it at once.
const SHORT_BYTES: usize = 4096;
/// The kernel allows no longer queue; a full one is submitted early.
const QUEUE_MAX: usize = 32_768;
/// Marks what nobody waits for: a short send, which completes silently unless it fails, and then the receive fails too.
const NOBODY: u64 = u64::MAX;

/// What a fiber does; its value is handed back when all have ended.
pub type Body<T> = Box<dyn FnOnce() -> T>;

/// Resumed with the result of what it waited for.
type Fiber<T> = Coroutine<i32, (), std::thread::Result<T>>;

/// A request that waits for the receive after it, so that both go in one system call. The kernel reads `bytes` while the fiber waits, so
/// its allocation is made once and lives longer than the ring.
struct Pending {
    fd: RawFd,
    bytes: Vec<u8>,
    /// Something else went out since the last receive: the socket's buffer may be full.
    crowded: bool,
}

/// Fields drop in this order: the kernel is done with the buffers before they go.
struct Ring {
    uring: IoUring,
    pending: Vec<Pending>,
    /// A socket's operation was queued since the last system call.
    queued: bool,
    /// System calls for sockets that no connection has counted yet.
    uncounted_syscalls: u64,
}

/// The fiber that runs now.
#[derive(Clone, Copy)]
struct Here {
    number: usize,
    yielder: *const Yielder<i32, ()>,
}

thread_local! {
    static RING: RefCell<Option<Ring>> = const { RefCell::new(None) };
    static HERE: Cell<Option<Here>> = const { Cell::new(None) };
}

/// Whether this system lets the process have fibers.
///
/// # Errors
/// The system's refusal: a kernel before 6.1, `kernel.io_uring_disabled`, or a container's filter of system calls.
pub fn available() -> io::Result<()> {
    uring(8).map(|_| ())
}

/// Run each body in a fiber of the calling thread, until all have ended.
///
/// # Errors
/// As [`available`]; no memory for a stack. Nothing has run then.
///
/// # Panics
/// With the first panic of a body, after all have ended.
pub fn run<T: 'static>(bodies: Vec<Body<T>>) -> io::Result<Vec<T>> {
    let count = bodies.len();
    let mut fibers = bodies
        .into_iter()
        .enumerate()
        .map(|(number, body)| fiber(number, body))
        .collect::<io::Result<Vec<_>>>()?;
    let ring = Ring {
        // A send and a receive each.
        uring: uring((2 * count.max(4)).min(QUEUE_MAX))?,
        pending: (0..count).map(|_| Pending::new()).collect(),
        queued: false,
        uncounted_syscalls: 0,
    };
    let outer = RING.replace(Some(ring));
    assert!(outer.is_none(), "fibers within a fiber");
    let ended = schedule(&mut fibers);
    RING.set(None);
    Ok(ended
        .into_iter()
        .map(|ended| ended.unwrap_or_else(|panic| resume_unwind(panic)))
        .collect())
}

/// Resume whoever can go on until nobody is left.
fn schedule<T>(fibers: &mut [Fiber<T>]) -> Vec<std::thread::Result<T>> {
    let mut ended: Vec<_> = fibers.iter().map(|_| None).collect();
    let mut living = fibers.len();
    let mut ready: VecDeque<(usize, i32)> = (0..fibers.len()).map(|number| (number, 0)).collect();
    loop {
        while let Some((number, result)) = ready.pop_front() {
            if let CoroutineResult::Return(value) = fibers[number].resume(result) {
                ended[number] = Some(value);
                living -= 1;
            }
            HERE.set(None);
        }
        if living == 0 {
            return ended.into_iter().flatten().collect();
        }
        with_ring(|ring| ring.wait(&mut ready));
    }
}

fn fiber<T: 'static>(number: usize, body: Body<T>) -> io::Result<Fiber<T>> {
    let stack = DefaultStack::new(STACK_BYTES)?;
    Ok(Coroutine::with_stack(
        stack,
        move |yielder: &Yielder<i32, ()>, _| {
            HERE.set(Some(Here { number, yielder }));
            // A fiber that waits must not be dropped, since the kernel writes into its buffers: a panic waits for the others.
            let ended = catch_unwind(AssertUnwindSafe(body));
            flush();
            ended
        },
    ))
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
    /// Queue an operation; what it points at must stay until it has completed.
    fn push(&mut self, operation: &squeue::Entry) {
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
    fn wait(&mut self, ready: &mut VecDeque<(usize, i32)>) {
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

    fn queue_send(&mut self, fd: RawFd, bytes: *const u8, length: usize, user: u64) {
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

fn with_ring<R>(use_it: impl FnOnce(&mut Ring) -> R) -> R {
    RING.with_borrow_mut(|ring| use_it(ring.as_mut().expect("fibers run with a ring")))
}

impl Here {
    /// What the kernel says back with a socket's operation of this fiber. Each has at most one that it waits for.
    fn user(self) -> u64 {
        (self.number as u64) << 1
    }

    /// Let the others run until the operation has completed.
    fn wait(self) -> io::Result<usize> {
        // SAFETY: the yielder belongs to the coroutine that runs now, on whose stack this call stands, so it is alive.
        let result = unsafe { &*self.yielder }.suspend(());
        HERE.set(Some(self));
        usize::try_from(result).map_err(|_| io::Error::from_raw_os_error(-result))
    }

    fn send_now(self, fd: RawFd, bytes: &[u8]) -> io::Result<usize> {
        with_ring(|ring| ring.queue_send(fd, bytes.as_ptr(), bytes.len(), self.user()));
        self.wait()
    }
}

/// Send `bytes`, all of them or as many as the kernel takes. A short request goes out with the receive after it. `None` outside of a fiber.
pub(crate) fn send(fd: RawFd, bytes: &[u8]) -> Option<io::Result<usize>> {
    let here = HERE.get()?;
    let waits = with_ring(|ring| {
        let pending = &mut ring.pending[here.number];
        let waits = bytes.len() <= SHORT_BYTES && pending.bytes.is_empty() && !pending.crowded;
        if waits {
            pending.fd = fd;
            pending.bytes.extend_from_slice(bytes);
        }
        waits
    });
    if waits {
        return Some(Ok(bytes.len()));
    }
    flush();
    with_ring(|ring| ring.pending[here.number].crowded = true);
    Some(here.send_now(fd, bytes))
}

/// Receive at least one byte, or 0 at the end of the stream. `None` outside of a fiber.
pub(crate) fn receive(fd: RawFd, buffer: &mut [u8]) -> Option<io::Result<usize>> {
    let here = HERE.get()?;
    with_ring(|ring| {
        let pending = &ring.pending[here.number];
        if !pending.bytes.is_empty() {
            let (to, bytes, length) = (pending.fd, pending.bytes.as_ptr(), pending.bytes.len());
            ring.queue_send(to, bytes, length, NOBODY);
        }
        ring.queued = true;
        ring.push(
            &opcode::Recv::new(types::Fd(fd), buffer.as_mut_ptr(), buffer.len() as u32)
                .build()
                .user_data(here.user()),
        );
    });
    let received = here.wait();
    with_ring(|ring| {
        let pending = &mut ring.pending[here.number];
        pending.bytes.clear();
        pending.crowded = false;
    });
    Some(received)
}

/// Send what still waits for a receive: before another request, and before its socket is closed.
pub(crate) fn flush() {
    let Some(here) = HERE.get() else { return };
    let pending = with_ring(|ring| {
        let pending = &ring.pending[here.number];
        let found = (pending.fd, pending.bytes.as_ptr(), pending.bytes.len());
        (found.2 > 0).then(|| ring.queue_send(found.0, found.1, found.2, here.user()))
    });
    if pending.is_some() {
        // A failure shows at the next receive.
        let _ = here.wait();
        with_ring(|ring| ring.pending[here.number].bytes.clear());
    }
}

/// System calls made for sockets since they were last asked for, by whichever connection of this thread: each is counted once.
pub(crate) fn take_syscalls() -> u64 {
    with_ring(|ring| std::mem::take(&mut ring.uncounted_syscalls))
}

/// Sleep; in a fiber the others go on.
pub fn sleep(duration: Duration) {
    let Some(here) = HERE.get() else {
        return std::thread::sleep(duration);
    };
    let time = types::Timespec::from(duration);
    with_ring(|ring| {
        // The odd number says that it is no socket's.
        ring.push(
            &opcode::Timeout::new(&raw const time)
                .build()
                .user_data(here.user() | 1),
        );
    });
    // "The time has passed" comes as an error.
    let _ = here.wait();
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixStream;
    use std::time::Instant;

    use super::*;

    /// A server's side that sends back what it gets, `bytes` at a time, until the end.
    fn echo(bytes: usize) -> UnixStream {
        let (ours, mut theirs) = UnixStream::pair().expect("pair");
        std::thread::spawn(move || {
            let mut buffer = vec![0; bytes];
            while theirs.read_exact(&mut buffer).is_ok() {
                theirs.write_all(&buffer).expect("answer");
            }
        });
        ours
    }

    fn exchange(stream: &UnixStream, request: &[u8]) -> Vec<u8> {
        let mut sent = 0;
        while sent < request.len() {
            sent += send(stream.as_raw_fd(), &request[sent..])
                .expect("a fiber")
                .expect("sent");
        }
        let (mut answer, mut read) = (vec![0; request.len()], 0);
        while read < answer.len() {
            let more = receive(stream.as_raw_fd(), &mut answer[read..]).expect("a fiber");
            read += more.expect("received");
        }
        answer
    }

    #[test]
    fn each_fiber_gets_its_own_answers() {
        let bodies = (0..50u8).map(|number| -> Body<u64> {
            Box::new(move || {
                let stream = echo(100);
                for round in 0..100u8 {
                    let request = [number ^ round; 100];
                    assert_eq!(exchange(&stream, &request), request);
                }
                take_syscalls()
            })
        });
        run(bodies.collect()).expect("fibers");
    }

    #[test]
    fn a_batch_shares_its_system_calls_and_each_is_counted_once() {
        let bodies = (0..20u8).map(|number| -> Body<u64> {
            Box::new(move || {
                let stream = echo(8);
                let mut syscalls = 0;
                for _ in 0..50 {
                    assert_eq!(exchange(&stream, &[number; 8]), [number; 8]);
                    syscalls += take_syscalls();
                }
                syscalls
            })
        });
        let syscalls: u64 = run(bodies.collect()).expect("fibers").iter().sum();
        // At least one for each round of the slowest; blocking makes two for each of the 1000 exchanges.
        assert!((50..=1001).contains(&syscalls), "{syscalls}");
    }

    #[test]
    fn what_no_receive_follows_is_sent_all_the_same() {
        let (ours, mut theirs) = UnixStream::pair().expect("pair");
        let body: Body<()> = Box::new(move || {
            for word in [&b"close 1 "[..], b"close 2 ", b"quit"] {
                assert_eq!(
                    send(ours.as_raw_fd(), word)
                        .expect("a fiber")
                        .expect("sent"),
                    word.len()
                );
            }
            flush();
        });
        run(vec![body]).expect("fibers");
        let mut words = String::new();
        theirs
            .read_to_string(&mut words)
            .expect("all until the end");
        assert_eq!(words, "close 1 close 2 quit");
    }

    #[test]
    fn a_request_longer_than_the_sockets_buffer_goes_through() {
        let body: Body<bool> = Box::new(|| {
            let stream = echo(2_000_000);
            let request: Vec<u8> = (0..2_000_000u32).map(|number| number as u8).collect();
            exchange(&stream, &request) == request
        });
        assert_eq!(run(vec![body]).expect("fibers"), [true]);
    }

    #[test]
    fn a_closed_connection_is_an_error_and_not_a_wait() {
        let body: Body<bool> = Box::new(|| {
            let (ours, theirs) = UnixStream::pair().expect("pair");
            drop(theirs);
            let _ = send(ours.as_raw_fd(), b"ping");
            let received = receive(ours.as_raw_fd(), &mut [0; 8]).expect("a fiber");
            matches!(received, Ok(0) | Err(_))
        });
        assert_eq!(run(vec![body]).expect("fibers"), [true]);
    }

    #[test]
    fn sleeping_fibers_do_not_hold_each_other_up() {
        let began = Instant::now();
        let bodies = (0..20).map(|_| -> Body<()> { Box::new(|| sleep(Duration::from_millis(50))) });
        run(bodies.collect()).expect("fibers");
        let took = began.elapsed();
        assert!(
            took >= Duration::from_millis(50) && took < Duration::from_millis(500),
            "{took:?}"
        );
    }

    #[test]
    fn a_panic_waits_for_the_others() {
        let (ended, noted) = (std::sync::Arc::default(), 1);
        let others: std::sync::Arc<std::sync::atomic::AtomicU32> = std::sync::Arc::clone(&ended);
        let bodies: Vec<Body<()>> = vec![
            Box::new(|| panic!("first")),
            Box::new(move || {
                sleep(Duration::from_millis(20));
                others.store(noted, std::sync::atomic::Ordering::SeqCst);
            }),
        ];
        assert!(catch_unwind(AssertUnwindSafe(|| run(bodies))).is_err());
        assert_eq!(ended.load(std::sync::atomic::Ordering::SeqCst), noted);
        assert!(HERE.get().is_none());
    }
}
