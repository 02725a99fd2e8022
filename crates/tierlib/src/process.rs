//! Whose tier it is: one process opens it, with the first data file that it opens, and no other uses it.

use std::cell::Cell;
use std::sync::Mutex;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};
use std::time::Duration;
use std::{ffi::CStr, ptr};

use tiercache::{Action, Config, ConfigError, Reason, Tier, thread};

use crate::{descriptors, filter, raw, real};

static CONFIG: OnceLock<Result<Config, ConfigError>> = OnceLock::new();
static TIER: OnceLock<Option<Tier>> = OnceLock::new();
static OPENING: Mutex<()> = Mutex::new(());

/// Says which process may open the tier: its id, or "systemd" for the one that a unit starts. Not set: any.
const WHOSE: &str = "UPSHIFT_TIER_OWNER";
/// So often the tier's own thread looks for requests.
const CONTROL_EVERY: Duration = Duration::from_millis(20);

/// Process id of the tier's owner, in a page that the kernel wipes in the child of a fork: 0 there.
static OWNER: AtomicPtr<AtomicU32> = AtomicPtr::new(ptr::null_mut());

/// In a page that children share: one of them changed a data file, so that nothing cached can be trusted.
static SPOILT: AtomicPtr<AtomicBool> = AtomicPtr::new(ptr::null_mut());

thread_local! {
    /// Set while the tier opens: its own calls come back into this library.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// May this process use the tier?
pub enum Side {
    /// It opened the tier.
    Owner(&'static Tier),
    /// It is the child of a fork of the owner.
    Child,
    /// It opened the tier, and a child changed a data file.
    Spoilt(&'static Tier),
    /// No tier.
    Nobody,
}

/// Where this process stands. No system call.
#[inline]
pub fn side() -> Side {
    let Some(Some(tier)) = TIER.get() else {
        return Side::Nobody;
    };
    // SAFETY: both pages are mapped before the tier is set, and never unmapped.
    let (owner, spoilt) = unsafe {
        (
            &*OWNER.load(Ordering::Relaxed),
            &*SPOILT.load(Ordering::Relaxed),
        )
    };
    if owner.load(Ordering::Relaxed) == 0 {
        return Side::Child;
    }
    if spoilt.load(Ordering::Acquire) {
        Side::Spoilt(tier)
    } else {
        Side::Owner(tier)
    }
}

/// Whether the tables of this process may change. Asks for the process id, because a vfork child
/// shares the owner's memory but not its descriptors.
pub fn owns_tables() -> bool {
    let owner = OWNER.load(Ordering::Relaxed);
    // SAFETY: as in side; getpid has no arguments.
    !owner.is_null() && unsafe { (*owner).load(Ordering::Relaxed) == libc::getpid() as u32 }
}

/// A child of the owner is about to change a data file: the owner stops serving, for good. Said once.
pub fn spoil() {
    let spoilt = SPOILT.load(Ordering::Relaxed);
    // SAFETY: as in side.
    if !spoilt.is_null() && !unsafe { (*spoilt).swap(true, Ordering::AcqRel) } {
        let child = std::process::id();
        say(&format!(
            "upshift tier: process {child}, forked by the server, changes a data file: the tier serves no reads until the server's restart\n"
        ));
    }
}

/// Whether a rule names this path. False before the constructor ran, and while the tier opens.
///
/// # Safety
/// The path must be null, or the kernel must have found a file by it: a path that leads nowhere is the kernel's to refuse.
pub unsafe fn named(path: *const libc::c_char) -> bool {
    if path.is_null() || INSIDE.with(Cell::get) {
        return false;
    }
    // SAFETY: the kernel has read it up to its zero byte.
    let path = unsafe { CStr::from_ptr(path) };
    match CONFIG.get() {
        Some(Ok(config)) => config.rules.action(path.to_bytes()) != Action::Skip,
        // Said with the first file that could be data.
        Some(Err(_)) => path.to_bytes().ends_with(b".ibd"),
        None => false,
    }
}

/// The tier, opened if it is not yet; None in a child, or when it cannot be had (said once on stderr).
pub fn open_tier() -> Option<&'static Tier> {
    if TIER.get().is_none() {
        let _held = OPENING.lock().ok()?;
        if TIER.get().is_none() {
            INSIDE.with(|inside| inside.set(true));
            let opened = try_open();
            INSIDE.with(|inside| inside.set(false));
            if let Err(error) = &opened {
                say(&format!(
                    "upshift tier: {error}; the server runs without a tier\n"
                ));
            }
            let _ = TIER.set(opened.ok());
        }
    }
    match side() {
        Side::Owner(tier) => Some(tier),
        _ => None,
    }
}

fn try_open() -> Result<Tier, String> {
    let config = match CONFIG.get() {
        Some(Ok(config)) => config.clone(),
        Some(Err(error)) => return Err(error.to_string()),
        None => return Err("a data file was opened before the library was ready".into()),
    };
    // Its lock keeps other programs with the same environment from making tiers of their own.
    if config.status_path.is_none() {
        return Err("UPSHIFT_TIER_STATUS names no file for the statistics page".into());
    }
    filter::installed()?;
    let owner = page(libc::MAP_PRIVATE)?;
    // SAFETY: the page was just mapped.
    if unsafe { libc::madvise(owner, 4096, libc::MADV_WIPEONFORK) } != 0 {
        return Err("the kernel cannot clear a page on fork: Linux 4.14 or newer is needed".into());
    }
    let spoilt = page(libc::MAP_SHARED)?;
    // Before the tier, which it waits for: one that was open without it would stay on the statistics page.
    start_control()?;
    let tier = Tier::open(config).map_err(|error| error.to_string())?;
    // SAFETY: zeroed, aligned, and never unmapped.
    unsafe { (*owner.cast::<AtomicU32>()).store(std::process::id(), Ordering::Relaxed) };
    OWNER.store(owner.cast(), Ordering::Release);
    SPOILT.store(spoilt.cast(), Ordering::Release);
    Ok(tier)
}

/// A thread for what may take long (a resize) or comes once a second: no query of the server should wait for it. The
/// child of a fork has none.
fn start_control() -> Result<(), String> {
    let work = || {
        INSIDE.with(|inside| inside.set(true));
        loop {
            std::thread::sleep(CONTROL_EVERY);
            match TIER.get() {
                None => {}
                Some(None) => return,
                Some(Some(tier)) => {
                    if matches!(side(), Side::Spoilt(_)) {
                        tier.changed_by_child();
                    }
                    tier.control();
                    say_notice(tier);
                }
            }
        }
    };
    if thread::start(work) {
        Ok(())
    } else {
        Err("the system has no thread left for the tier".into())
    }
}

/// What the tier has to say in the server's log.
pub fn say_notice(tier: &Tier) {
    if let Some(text) = tier.notice() {
        say(&format!("upshift tier: {text}\n"));
    }
}

fn page(sharing: libc::c_int) -> Result<*mut libc::c_void, String> {
    // SAFETY: a fresh anonymous page.
    let page = unsafe {
        real::mmap64(
            ptr::null_mut(),
            4096,
            libc::PROT_READ | libc::PROT_WRITE,
            sharing | libc::MAP_ANONYMOUS,
            -1,
            0,
        )
    };
    if page == libc::MAP_FAILED {
        Err("the system has no memory for a page".into())
    } else {
        Ok(page)
    }
}

/// A line on stderr, whatever state the process is in.
pub fn say(text: &str) {
    raw::keep_errno(|| {
        // SAFETY: the text is text.len() bytes long.
        unsafe {
            raw::kernel(
                libc::SYS_write,
                [2, text.as_ptr() as usize, text.len(), 0, 0, 0],
            )
        }
    });
}

/// io_uring would change data files unseen.
pub fn refuse_io_uring() {
    static SAID: AtomicBool = AtomicBool::new(false);
    if !SAID.swap(true, Ordering::Relaxed) {
        say(
            "upshift tier: io_uring refused: the tier cannot see its writes (MariaDB goes on by itself, with libaio or without native AIO)\n",
        );
    }
}

/// Whether the library has been set up; before, every call goes straight to the kernel.
pub fn is_ready() -> bool {
    CONFIG.get().is_some()
}

/// Whether this process has no tier yet, and may open one.
pub fn may_open() -> bool {
    matches!(CONFIG.get(), Some(Ok(_))) && TIER.get().is_none()
}

/// Counts a request that went past the tier.
pub fn count_bypass(reason: Reason) {
    if let Side::Owner(tier) | Side::Spoilt(tier) = side() {
        tier.bypass(reason);
    }
}

/// Whether this process may open the tier, or a child that it forks: not what the owner starts.
fn may_own() -> bool {
    let own = std::process::id().to_string();
    let is_own = |name| std::env::var(name).is_ok_and(|pid| pid == own);
    match std::env::var(WHOSE).as_deref() {
        Err(_) => true,
        // systemd before 248 does not say which process it started.
        Ok("systemd") => is_own("SYSTEMD_EXEC_PID") || std::env::var("SYSTEMD_EXEC_PID").is_err(),
        Ok(_) => is_own(WHOSE),
    }
}

extern "C" fn set_up() {
    raw::keep_errno(|| {
        real::find_all();
        if may_own() {
            filter::install();
            let _ = CONFIG.set(Config::from_environment());
        }
    });
}

extern "C" fn tear_down() {
    if let (Side::Owner(tier), true) = (side(), owns_tables()) {
        descriptors::forget_unlinked();
        tier.stop();
    }
}

#[used]
#[unsafe(link_section = ".init_array")]
static SET_UP: extern "C" fn() = set_up;

#[used]
#[unsafe(link_section = ".fini_array")]
static TEAR_DOWN: extern "C" fn() = tear_down;
