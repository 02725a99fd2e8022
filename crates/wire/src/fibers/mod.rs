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
use std::time::Duration;

use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult, Yielder};
use io_uring::{opcode, types};
use socket2::SockAddr;

use ring::{NOBODY, Ring, SHORT_BYTES};

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

    /// What the kernel says back with an operation that is no socket's system call: the odd number says so.
    fn user_besides(self) -> u64 {
        self.user() | 1
    }

    fn send_now(self, fd: RawFd, bytes: &[u8]) -> io::Result<usize> {
        with_ring(|ring| ring.queue_send(fd, bytes.as_ptr(), bytes.len(), self.user()));
        self.wait()
    }
}

/// Connect a socket. `None` outside of a fiber.
pub(crate) fn connect(fd: RawFd, address: &SockAddr) -> Option<io::Result<()>> {
    let here = HERE.get()?;
    with_ring(|ring| {
        ring.push(
            &opcode::Connect::new(types::Fd(fd), address.as_ptr().cast(), address.len())
                .build()
                .user_data(here.user_besides()),
        );
    });
    Some(here.wait().map(|_| ()))
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
        ring.push(
            &opcode::Timeout::new(&raw const time)
                .build()
                .user_data(here.user_besides()),
        );
    });
    // "The time has passed" comes as an error.
    let _ = here.wait();
}
