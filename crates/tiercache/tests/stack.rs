//! How deep the stack is under reads and writes: a server's threads may have little of it (MariaDB's thread_stack is
//! 292 KiB, and a deep query may have used most).

use std::ffi::c_void;

use tiercache::{Config, Identity, Lookup, MediumChoice, Tier};

const STACK_BYTES: usize = 256 << 10;
const PAINT: u8 = 0xa5;
/// Everything below the caller, all frames together.
const DEPTH_MAX: usize = 8 << 10;

extern "C" fn start(work: *mut c_void) -> *mut c_void {
    // SAFETY: `depth` gives a live closure.
    let work = unsafe { &mut *work.cast::<&mut dyn FnMut()>() };
    work();
    std::ptr::null_mut()
}

/// Bytes of stack that a thread touches which runs `work`.
fn depth(mut work: impl FnMut() + Send) -> usize {
    let mut stack = vec![PAINT; STACK_BYTES + 4096];
    let base = stack.as_mut_ptr().align_offset(4096);
    let mut work: &mut dyn FnMut() = &mut work;
    // SAFETY: the stack and the closure outlive the thread, which is joined here.
    unsafe {
        let address = stack.as_mut_ptr().add(base).cast();
        let mut attributes = std::mem::zeroed();
        libc::pthread_attr_init(&raw mut attributes);
        let set = libc::pthread_attr_setstack(&raw mut attributes, address, STACK_BYTES);
        assert_eq!(set, 0);
        let mut thread = std::mem::zeroed();
        let given = (&raw mut work).cast();
        let made = libc::pthread_create(&raw mut thread, &raw const attributes, start, given);
        assert_eq!(made, 0);
        assert_eq!(libc::pthread_join(thread, std::ptr::null_mut()), 0);
    }
    let painted = stack[base..base + STACK_BYTES].iter();
    STACK_BYTES - painted.take_while(|byte| **byte == PAINT).count()
}

fn uses(tier: &Tier, page: usize) -> usize {
    let identity = Identity {
        inode: 1,
        ..Identity::default()
    };
    let file = tier.file(b"t.ibd", identity).expect("file");
    // Misaligned for direct I/O, and half of it noise: what needs most room.
    let data: Vec<u8> = (0..=page)
        .map(|at| ((at * at) >> 7) as u8 * u8::from(at % 64 < 32))
        .collect();
    let data = &data[1..];
    let mut dst = vec![0; page + 1];
    let mut hits = 0;
    let deep = depth(|| {
        for number in 0..12u64 {
            let at = number * page as u64;
            if let Lookup::Miss(token) = tier.read(file, at, &mut dst[1..]) {
                tier.fill(token, data);
            }
            let token = tier.write_begin(file, at, page as u64);
            tier.write_end(token, Some(data));
            let audit = tier.audit(file, at, page as u64);
            hits += usize::from(matches!(tier.read(file, at, &mut dst[1..]), Lookup::Hit));
            hits += usize::from(matches!(
                tier.read(file, at + 7, &mut dst[..100]),
                Lookup::Hit
            ));
            audit.map(|token| tier.audited(token, data, data));
        }
        tier.control();
    });
    assert_eq!(hits, 24, "{}", tier.config().medium);
    deep
}

#[test]
fn reads_and_writes_leave_the_stack_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    // What the C library itself needs for a thread, and that the measure sees what is there.
    let thread = depth(|| {
        std::hint::black_box([0u8; 64]);
    });
    let deep = depth(|| {
        std::hint::black_box([1u8; 32 << 10]);
    });
    assert!(deep - thread > 31 << 10, "{deep} {thread}");
    for medium in [
        MediumChoice::Memory,
        MediumChoice::MemoryLz4,
        MediumChoice::File(path("file")),
        MediumChoice::Direct(path("direct")),
    ] {
        for page in [16 << 10, 64 << 10] {
            let config = Config {
                size_bytes: 16 * page as u64,
                page_size_bytes: page,
                medium: medium.clone(),
                sequential_cutoff_bytes: 0,
                audit_every: 2,
                ..Config::default()
            };
            let deep = uses(&Tier::open(config).expect("tier"), page) - thread;
            println!("{medium}, pages of {page}: {deep} bytes of stack");
            assert!(deep <= DEPTH_MAX, "{medium}, pages of {page}: {deep} bytes");
            if let MediumChoice::File(path) | MediumChoice::Direct(path) = &medium {
                let _ = std::fs::remove_file(path);
            }
        }
    }
}
