//! Many connections on one thread, each written as if it blocked: a fiber a connection, and one system call that sends the requests of
//! all of them and waits for the first answers (Linux's io_uring, from 6.1 on).
//!
//! A blocked receive costs two switches between threads and every send may wake a sleeping CPU; both are paid once for a whole batch
//! here. Outside of [`run`] the same connections make ordinary system calls.

mod ring;
#[cfg(test)]
mod tests;

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io;
use std::os::fd::RawFd;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr::from_ref;
use std::time::Duration;

use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult, Yielder};
use io_uring::{opcode, squeue, types};
use socket2::SockAddr;

use ring::{Ring, SHORT_BYTES, User};

/// A fiber holds one connection's state and shallow calls, in bytes of address space.
const STACK_BYTES: usize = 256 * 1024;

/// What a fiber does; its value is handed back when all have ended.
pub type Body<T> = Box<dyn FnOnce() -> T>;

/// Resumed with the result of what it waited for.
type Fiber<T> = Coroutine<i32, (), std::thread::Result<T>>;

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
/// The system's refusal: a kernel before 6.1, `kernel.io_uring_disabled`, or a container's filter of system calls. The user's:
/// `UPSHIFT_LOAD_IO_URING=off` in the environment.
pub fn available() -> io::Result<()> {
    Ring::new(1).map(|_| ())
}

/// Run each body in a fiber of the calling thread, until all have ended. A single body has nobody to share system calls with: it runs
/// without a fiber and blocks, which costs the least.
///
/// # Errors
/// As [`available`]; no memory for a stack. Nothing has run then.
///
/// # Panics
/// With the first panic of a body, after all have ended.
pub fn run<T: 'static>(mut bodies: Vec<Body<T>>) -> io::Result<Vec<T>> {
    match bodies.pop() {
        Some(only) if bodies.is_empty() => Ok(vec![only()]),
        last => {
            bodies.extend(last);
            run_fibers(bodies)
        }
    }
}

pub(crate) fn run_fibers<T: 'static>(bodies: Vec<Body<T>>) -> io::Result<Vec<T>> {
    let count = bodies.len();
    let mut fibers = bodies
        .into_iter()
        .enumerate()
        .map(|(number, body)| fiber(number, body))
        .collect::<io::Result<Vec<_>>>()?;
    let outer = RING.replace(Some(Ring::new(count)?));
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

fn with_ring<R>(use_it: impl FnOnce(&mut Ring) -> R) -> R {
    RING.with_borrow_mut(|ring| use_it(ring.as_mut().expect("fibers run with a ring")))
}

/// What a socket's operation came to, and the system calls made for sockets since the last one that was told of, by whichever
/// connection of this thread: each is counted once.
pub(crate) struct Outcome {
    pub(crate) result: io::Result<usize>,
    pub(crate) syscalls: u64,
}

impl Here {
    /// Queue an operation, and let the others run until it has completed or `limit` is over.
    fn complete(
        self,
        operation: squeue::Entry,
        user: User,
        limit: Option<Duration>,
    ) -> io::Result<usize> {
        let limit = limit.map(types::Timespec::from);
        with_ring(|ring| ring.push(operation, user, limit.as_ref().map(from_ref)));
        self.wait(limit.is_some())
    }

    /// Let the others run until what was queued has completed.
    fn wait(self, limited: bool) -> io::Result<usize> {
        // SAFETY: the yielder belongs to the coroutine that runs now, on whose stack this call stands, so it is alive.
        let result = unsafe { &*self.yielder }.suspend(());
        HERE.set(Some(self));
        match usize::try_from(result) {
            Ok(result) => Ok(result),
            // Nobody else cancels anything.
            Err(_) if limited && result == -libc::ECANCELED => Err(io::ErrorKind::TimedOut.into()),
            Err(_) => Err(io::Error::from_raw_os_error(-result)),
        }
    }
}

/// Connect a socket. `None` outside of a fiber.
pub(crate) fn connect(
    fd: RawFd,
    address: &SockAddr,
    limit: Option<Duration>,
) -> Option<io::Result<()>> {
    let here = HERE.get()?;
    let connect = opcode::Connect::new(types::Fd(fd), address.as_ptr().cast(), address.len());
    let user = User::Besides(here.number);
    Some(here.complete(connect.build(), user, limit).map(|_| ()))
}

/// Send `bytes`, all of them or as many as the kernel takes. A short request goes out with the receive after it. `None` outside of a fiber.
pub(crate) fn send(fd: RawFd, bytes: &[u8], limit: Option<Duration>) -> Option<Outcome> {
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
        return Some(Outcome {
            result: Ok(bytes.len()),
            syscalls: 0,
        });
    }
    flush();
    with_ring(|ring| ring.pending[here.number].crowded = true);
    let user = User::Socket(here.number);
    let result = here.complete(ring::send(fd, bytes), user, limit);
    let syscalls = with_ring(Ring::take_syscalls);
    Some(Outcome { result, syscalls })
}

/// Receive at least one byte, or 0 at the end of the stream. `None` outside of a fiber.
pub(crate) fn receive(fd: RawFd, buffer: &mut [u8], limit: Option<Duration>) -> Option<Outcome> {
    let here = HERE.get()?;
    let limit = limit.map(types::Timespec::from);
    with_ring(|ring| {
        ring.send_aside(here.number, limit);
        let receive = opcode::Recv::new(types::Fd(fd), buffer.as_mut_ptr(), buffer.len() as u32);
        let limit = limit.as_ref().map(from_ref);
        ring.push(receive.build(), User::Socket(here.number), limit);
    });
    let result = here.wait(limit.is_some());
    let syscalls = with_ring(|ring| {
        let pending = &mut ring.pending[here.number];
        pending.bytes.clear();
        pending.crowded = false;
        ring.take_syscalls()
    });
    Some(Outcome { result, syscalls })
}

/// Send what still waits for a receive: before another request, and before its socket is closed.
pub(crate) fn flush() {
    let Some(here) = HERE.get() else { return };
    if with_ring(|ring| ring.send_pending(here.number)) {
        // A failure shows at the next receive.
        let _ = here.wait(false);
        with_ring(|ring| ring.pending[here.number].bytes.clear());
    }
}

/// Sleep; in a fiber the others go on.
pub fn sleep(duration: Duration) {
    let Some(here) = HERE.get() else {
        return std::thread::sleep(duration);
    };
    let time = types::Timespec::from(duration);
    let timeout = opcode::Timeout::new(&raw const time).build();
    // "The time has passed" comes as an error.
    let _ = here.complete(timeout, User::Besides(here.number), None);
}
