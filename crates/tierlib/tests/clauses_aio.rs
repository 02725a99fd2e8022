//! Clause C20 of docs/explanation/tier-contract.md: what goes through io_submit.

#[path = "common/aio.rs"]
mod aio;
mod common;

use std::ffi::{c_int, c_long};
use std::process::Command;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use aio::{Block, Event, READ, READ_PARTS, WRITE, block, reap, submit};
use common::{counter, get, open, path, preloaded, put, run, run_as};
use tiercache::Counter;

workers!(
    c20_served_worker,
    c20_batch_worker,
    c20_in_flight_worker,
    c20_by_number_worker,
    c20_admit_worker,
    c20_reuse_worker,
    c20_unchanged_worker,
    c20_ring_worker,
    c20_destroy_worker,
);

const PAGE: usize = 4096;
/// The libc crate has no name for it yet.
const IO_PGETEVENTS: c_long = if cfg!(target_arch = "aarch64") {
    292
} else {
    333
};

/// Hits so far.
fn hits() -> u64 {
    common::snapshot().counter(Counter::Hits)
}

/// A data file of two pages of `byte`, both in the tier.
fn file(name: &str, byte: u8) -> c_int {
    let fd = open(&path(name), libc::O_RDWR);
    put(fd, byte, 0);
    fd
}

/// Submits one block and waits for its completion.
fn one(context: usize, block: &mut Block) -> Event {
    // SAFETY: the caller keeps the block and its buffer.
    assert_eq!(unsafe { submit(context, &mut [&raw mut *block]) }, 1);
    reap(context)
}

#[test]
fn c20_a_read_whose_pages_are_there_is_served() {
    run("c20_served_worker");
}

/// What runs the server may be preloaded, too (numactl, gosu): its filter stays, and the library is elsewhere in the server.
#[test]
fn c20_a_server_that_another_program_becomes_has_its_reads_served() {
    let folder = tempfile::tempdir().expect("a folder");
    let worker = preloaded("c20_served_worker", &folder);
    let mut through = Command::new("env");
    through.arg("nice").arg("-n0").arg(worker.get_program());
    through.envs(
        worker
            .get_envs()
            .filter_map(|(name, value)| Some((name, value?))),
    );
    let text = run_as(&mut through);
    assert!(counter(&text, "hits") > 0, "{text}");
}

fn c20_served_worker() {
    let (fd, context) = (file("served.ibd", 5), aio::context(8));
    let mut data = vec![0u8; 2 * PAGE];
    // SAFETY: the call has no other arguments.
    let signal = unsafe { libc::eventfd(0, 0) };
    let mut whole = block(READ, fd, data.as_mut_ptr(), 2 * PAGE, 0);
    whole[7] = 1 | (signal as u64) << 32;
    let (before, submitted) = (hits(), whole);
    let event = one(context, &mut whole);
    assert_eq!(event, [77, (&raw const whole) as u64, 2 * PAGE as u64, 0]);
    assert_eq!((hits() - before, &data), (1, &vec![5; 2 * PAGE]));
    assert_eq!(whole, submitted, "the block is the program's again");
    let mut count = 0u64;
    // SAFETY: an eventfd gives eight bytes.
    assert_eq!(unsafe { libc::read(signal, (&raw mut count).cast(), 8) }, 8);
    assert_eq!(count, 1, "the eventfd heard of it");

    let (mut left, mut right) = (vec![0u8; 100], vec![0u8; PAGE]);
    let part = |data: &mut Vec<u8>| libc::iovec {
        iov_base: data.as_mut_ptr().cast(),
        iov_len: data.len(),
    };
    let mut parts = [part(&mut left), part(&mut right)];
    let mut vectored = block(READ_PARTS, fd, parts.as_mut_ptr().cast(), 2, 50);
    assert_eq!(one(context, &mut vectored)[2], 100 + PAGE as u64);
    assert_eq!((hits() - before, left[99], right[PAGE - 1]), (2, 5, 5));

    // Over the end of the file: not all of it can be there.
    let mut over = block(READ, fd, data.as_mut_ptr(), 2 * PAGE, PAGE as u64);
    assert_eq!(one(context, &mut over)[2], PAGE as u64);
    // What the kernel refuses, it refuses as before.
    over[5] = u64::MAX;
    // SAFETY: the block and its buffer are there.
    let answer = |block: &mut Block| unsafe { submit(context, &mut [&raw mut *block]) };
    assert_eq!(answer(&mut over), -libc::EINVAL);
    let other = open(&path("served.ibd"), libc::O_WRONLY);
    let mut unreadable = block(READ, other, data.as_mut_ptr(), PAGE, 0);
    assert_eq!(answer(&mut unreadable), -libc::EBADF);
    assert_eq!(hits() - before, 2);
}

#[test]
fn c20_batches_of_all_kinds_keep_their_order_and_count() {
    run("c20_batch_worker");
}

fn c20_batch_worker() {
    const COUNT: usize = 100;
    let (fd, plain) = (file("batch.ibd", 5), open(&path("plain"), libc::O_RDWR));
    put(plain, 7, 0);
    let context = aio::context(COUNT as i64 + 10);
    let mut buffers = vec![[0u8; PAGE]; COUNT];
    let mut written = [9u8; PAGE];
    let mut blocks: Vec<Block> = (0..COUNT)
        .map(|number| match number % 4 {
            // Hits, in runs of two; then a file that no rule names; then a page that is nowhere in the tier.
            0 | 1 => block(READ, fd, buffers[number].as_mut_ptr(), PAGE, 0),
            2 => block(READ, plain, buffers[number].as_mut_ptr(), PAGE, 0),
            _ => block(
                WRITE,
                fd,
                written.as_mut_ptr(),
                PAGE,
                (number * PAGE) as u64,
            ),
        })
        .collect();
    let mut pointers: Vec<*mut Block> = blocks.iter_mut().map(|block| &raw mut *block).collect();
    // A block that the kernel refuses ends the batch; those before it are done.
    let mut wrong = block(99, fd, written.as_mut_ptr(), PAGE, 0);
    pointers.insert(90, &raw mut wrong);
    let before = hits();
    // SAFETY: blocks and buffers live to the end of the test.
    assert_eq!(unsafe { submit(context, &mut pointers) }, 90);
    for _ in 0..90 {
        assert_eq!(reap(context)[2], PAGE as u64);
    }
    // SAFETY: as above.
    assert_eq!(unsafe { submit(context, &mut pointers[91..]) }, 10);
    for _ in 0..10 {
        assert_eq!(reap(context)[2], PAGE as u64);
    }
    assert!(hits() - before >= 50, "{}", hits() - before);
    for (number, buffer) in buffers.iter().enumerate() {
        let wanted = [5, 5, 7, 0][number % 4];
        assert_eq!(*buffer, [wanted; PAGE], "number {number}");
        if wanted == 0 {
            assert_eq!(get(fd, (number * PAGE) as i64), Ok(9));
        }
    }
}

#[test]
fn c20_pages_of_a_write_in_flight_are_not_served() {
    run("c20_in_flight_worker");
}

fn c20_in_flight_worker() {
    let (fd, writes, reads) = (file("flight.ibd", 5), aio::context(4), aio::context(4));
    let (mut new, mut data) = (vec![6u8; PAGE], vec![0u8; PAGE]);
    let mut write = block(WRITE, fd, new.as_mut_ptr(), PAGE, 0);
    let mut read = block(READ, fd, data.as_mut_ptr(), PAGE, 0);
    let before = hits();
    // SAFETY: block and buffer live to the end of the test.
    assert_eq!(unsafe { submit(writes, &mut [&raw mut write]) }, 1);
    assert_eq!(one(reads, &mut read)[2], PAGE as u64);
    assert_eq!(hits(), before, "its completion is not reaped");
    assert_eq!(reap(writes)[2], PAGE as u64);
    assert_eq!(one(reads, &mut read)[2], PAGE as u64);
    assert_eq!((data[0], hits()), (6, before + 1));
    // The same calls by number, as MariaDB reaps.
    let (mut event, mut pointer) = (Event::default(), &raw mut read);
    // SAFETY: as above; room for one event.
    unsafe {
        let null = std::ptr::null_mut::<u8>();
        assert_eq!(
            libc::syscall(libc::SYS_io_submit, reads, 1, &raw mut pointer),
            1
        );
        assert_eq!(
            libc::syscall(libc::SYS_io_getevents, reads, 1, 1, &raw mut event, null),
            1
        );
    }
    assert_eq!((event[2], hits()), (PAGE as u64, before + 2));
}

#[test]
fn c20_a_write_that_is_reaped_by_number_is_over() {
    run("c20_by_number_worker");
}

fn c20_by_number_worker() {
    let fd = file("number.ibd", 5);
    for (round, number) in (6u8..).zip([libc::SYS_io_getevents, IO_PGETEVENTS]) {
        let (writes, reads) = (aio::context(4), aio::context(4));
        let (mut new, mut data) = (vec![round; PAGE], vec![0u8; PAGE]);
        let mut write = block(WRITE, fd, new.as_mut_ptr(), PAGE, 0);
        let mut read = block(READ, fd, data.as_mut_ptr(), PAGE, 0);
        let before = hits();
        // SAFETY: block and buffer live to the end of the round.
        assert_eq!(unsafe { submit(writes, &mut [&raw mut write]) }, 1);
        assert_eq!(one(reads, &mut read)[2], PAGE as u64);
        assert_eq!(hits(), before, "its completion is not reaped");
        let (mut event, null) = (Event::default(), std::ptr::null_mut::<u8>());
        // SAFETY: room for one event; no limit of time, no signal mask.
        let got = unsafe { libc::syscall(number, writes, 1, 1, &raw mut event, null, null) };
        assert_eq!((got, event[2]), (1, PAGE as u64));
        assert_eq!(one(reads, &mut read)[2], PAGE as u64);
        assert_eq!((data[0], hits()), (round, before + 1), "call {number}");
    }
}

#[test]
fn c20_read_ahead_comes_in_only_where_the_setting_says_so() {
    let [off, on] = [(); 2].map(|()| tempfile::tempdir().expect("a folder"));
    let text = run_as(&mut preloaded("c20_admit_worker", &off));
    assert_eq!(
        (counter(&text, "hits"), counter(&text, "bypass_read_ahead")),
        (0, 2),
        "{text}"
    );
    let mut admitting = preloaded("c20_admit_worker", &on);
    let text = run_as(admitting.env("UPSHIFT_TIER_READ_AHEAD", "on"));
    assert_eq!(
        (counter(&text, "hits"), counter(&text, "misses")),
        (1, 1),
        "{text}"
    );
}

fn c20_admit_worker() {
    std::fs::write(path("admit.ibd").to_str().expect("UTF-8"), [3u8; 2 * PAGE]).expect("a file");
    let (fd, context) = (open(&path("admit.ibd"), libc::O_RDWR), aio::context(4));
    for _ in 0..2 {
        let mut data = vec![0u8; 2 * PAGE];
        let mut read = block(READ, fd, data.as_mut_ptr(), 2 * PAGE, 0);
        assert_eq!(one(context, &mut read)[2], 2 * PAGE as u64);
        assert_eq!(data, [3; 2 * PAGE]);
    }
}

#[test]
fn c20_a_block_may_be_used_again_by_whoever_reaps_it() {
    run("c20_reuse_worker");
}

/// A block and its buffer, handed from thread to thread.
struct Shared {
    block: [AtomicU64; 8],
    buffer: Vec<AtomicU64>,
    round: AtomicU32,
}

impl Shared {
    fn prepare(&self, fd: c_int) -> Block {
        let buffer = self.buffer.as_ptr().cast::<u8>().cast_mut();
        let new = block(READ, fd, buffer, 2 * PAGE, 0);
        for (word, new) in self.block.iter().zip(new) {
            word.store(new, Ordering::Relaxed);
        }
        new
    }

    fn submit(&self, context: usize) {
        let pointer = self.block.as_ptr().cast::<Block>().cast_mut();
        // SAFETY: block and buffer live as long as this.
        assert_eq!(unsafe { submit(context, &mut [pointer]) }, 1);
    }

    /// Whether the block is as prepared and the buffer holds what that file has.
    fn check(&self, event: Event, block: Block, byte: u8) {
        assert_eq!(event, [77, self.block.as_ptr() as u64, 2 * PAGE as u64, 0]);
        let word = u64::from_ne_bytes([byte; 8]);
        assert!(
            self.buffer
                .iter()
                .all(|each| each.load(Ordering::Relaxed) == word)
        );
        let now: Vec<u64> = self
            .block
            .iter()
            .map(|word| word.load(Ordering::Relaxed))
            .collect();
        assert_eq!(now, block, "nobody changes it any more");
    }
}

fn c20_reuse_worker() {
    let (first, second, context) = (file("first.ibd", 1), file("second.ibd", 2), aio::context(8));
    for reap in [aio::reap, aio::reap_in_ring] {
        let shared = Shared {
            block: Default::default(),
            buffer: (0..2 * PAGE / 8).map(|_| AtomicU64::new(0)).collect(),
            round: AtomicU32::new(0),
        };
        std::thread::scope(|scope| {
            let (shared, rounds) = (&shared, 4000u32);
            let end = Instant::now() + Duration::from_secs(60);
            let wait_for = move |round| {
                while shared.round.load(Ordering::Acquire) != round {
                    assert!(Instant::now() < end, "the other thread failed");
                    std::thread::yield_now();
                }
            };
            scope.spawn(move || {
                for round in 0..rounds {
                    wait_for(2 * round);
                    shared.prepare(first);
                    shared.round.store(2 * round + 1, Ordering::Release);
                    shared.submit(context);
                }
            });
            // While the first thread may still be inside its io_submit, the block is the second file's.
            for round in 0..rounds {
                wait_for(2 * round + 1);
                assert_eq!(reap(context)[2], 2 * PAGE as u64);
                let block = shared.prepare(second);
                shared.submit(context);
                shared.check(reap(context), block, 2);
                shared.round.store(2 * round + 2, Ordering::Release);
            }
        });
    }
    assert!(hits() > 15_000);
}

#[test]
fn c20_a_block_may_be_submitted_again_as_it_was() {
    run("c20_unchanged_worker");
}

fn c20_unchanged_worker() {
    let (fd, context) = (file("again.ibd", 1), aio::context(8));
    for reap in [aio::reap, aio::reap_in_ring] {
        let shared = Shared {
            block: Default::default(),
            buffer: (0..2 * PAGE / 8).map(|_| AtomicU64::new(0)).collect(),
            round: AtomicU32::new(0),
        };
        let block = shared.prepare(fd);
        std::thread::scope(|scope| {
            let (shared, rounds) = (&shared, 4000u32);
            let end = Instant::now() + Duration::from_secs(60);
            let wait_for = move |round| {
                while shared.round.load(Ordering::Acquire) != round {
                    assert!(Instant::now() < end, "the other thread failed");
                    std::thread::yield_now();
                }
            };
            scope.spawn(move || {
                for round in 0..rounds {
                    wait_for(2 * round);
                    shared.round.store(2 * round + 1, Ordering::Release);
                    shared.submit(context);
                }
            });
            // The first thread may still be inside its io_submit, where the block is a write to the null device.
            for round in 0..rounds {
                wait_for(2 * round + 1);
                assert_eq!(reap(context)[2], 2 * PAGE as u64);
                shared
                    .buffer
                    .iter()
                    .for_each(|word| word.store(0, Ordering::Relaxed));
                shared.submit(context);
                shared.check(reap(context), block, 1);
                shared.round.store(2 * round + 2, Ordering::Release);
            }
        });
    }
}

#[test]
fn c20_a_program_that_reaps_in_the_ring_takes_no_memory_for_ever() {
    let text = run("c20_ring_worker");
    assert_eq!(counter(&text, "bypass_unsupported"), 1, "{text}");
}

fn c20_ring_worker() {
    let (fd, other, context) = (file("ring.ibd", 5), file("other.ibd", 6), aio::context(8));
    assert_eq!((get(fd, PAGE as i64), hits()), (Ok(5), 1));
    let mut data = vec![7u8; PAGE];
    let mut write = block(WRITE, fd, data.as_mut_ptr(), PAGE, 0);
    for number in 0..4098 {
        // SAFETY: block and buffer live to the end of the test.
        assert_eq!(unsafe { submit(context, &mut [&raw mut write]) }, 1);
        assert_eq!(aio::reap_in_ring(context)[2], PAGE as u64);
        if number == 4000 {
            assert_eq!((get(fd, PAGE as i64), hits()), (Ok(5), 2));
        }
    }
    // From then on the file is read past the tier.
    assert_eq!(
        (get(fd, 0), get(fd, PAGE as i64), hits()),
        (Ok(7), Ok(5), 2)
    );
    assert_eq!((get(other, 0), hits()), (Ok(6), 3));
}

#[test]
fn c20_a_context_that_ends_ends_no_write_of_another_with_its_number() {
    run("c20_destroy_worker");
}

/// Ends a context.
fn ends(context: usize) {
    let destroy = aio::found::<unsafe extern "C" fn(usize) -> c_int>(c"io_destroy");
    // SAFETY: the context is ours, and nothing is in flight in it.
    assert_eq!(unsafe { destroy(context) }, 0);
}

fn c20_destroy_worker() {
    const ROUNDS: u8 = 40;
    let fd = file("destroy.ibd", 1);
    assert_eq!((get(fd, 0), hits()), (Ok(1), 1));
    let mut new = vec![0u8; PAGE];
    let mut write = block(WRITE, fd, new.as_mut_ptr(), PAGE, 0);
    let mut same = 0;
    for round in 2..ROUNDS {
        let (first, end) = (aio::context(4), Instant::now() + Duration::from_secs(60));
        let (ready, ended) = (AtomicU32::new(0), AtomicU32::new(0));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while ready.load(Ordering::Acquire) == 0 {
                    std::thread::yield_now();
                }
                ends(first);
                ended.store(1, Ordering::Release);
            });
            new.fill(round);
            ready.store(1, Ordering::Release);
            // The ring goes first; the kernel then waits for all that use the context.
            // SAFETY: the call looks at the address only.
            while unsafe { libc::msync(first as *mut _, PAGE, libc::MS_ASYNC) } == 0 {
                assert!(Instant::now() < end, "the other thread failed");
            }
            let second = aio::context(4);
            // SAFETY: block and buffer live until the completion.
            assert_eq!(unsafe { submit(second, &mut [&raw mut write]) }, 1);
            same += u32::from(second == first && ended.load(Ordering::Acquire) == 0);
            while ended.load(Ordering::Acquire) == 0 {
                assert!(Instant::now() < end, "the other thread failed");
            }
            let before = hits();
            for _ in 0..2 {
                assert_eq!(get(fd, 0), Ok(round));
            }
            assert_eq!(hits(), before, "its completion is not reaped");
            assert_eq!(reap(second)[2], PAGE as u64);
            assert_eq!((get(fd, 0), hits()), (Ok(round), before + 1));
            ends(second);
        });
    }
    eprintln!("{same} contexts had the number of one that was ending");
}
