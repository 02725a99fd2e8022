//! What the system is asked for.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::failure::Failure;

/// Becomes true whenever somebody asks this process to end.
///
/// # Errors
/// The system's refusal.
pub fn pressed() -> Result<Arc<AtomicBool>, Failure> {
    let pressed = Arc::new(AtomicBool::new(false));
    for signal in [
        signal_hook::consts::SIGINT,
        signal_hook::consts::SIGTERM,
        signal_hook::consts::SIGHUP,
    ] {
        signal_hook::flag::register(signal, Arc::clone(&pressed))
            .map_err(|error| Failure::failed(format!("signals: {error}"), ""))?;
    }
    Ok(pressed)
}

/// Allow as many open files as the system lets this process have: each connection takes two. Where it refuses, clients wait until
/// others have gone.
pub fn raise_file_limit() {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: `limit` is a valid rlimit that outlives the call.
    let known = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } == 0;
    if known {
        limit.rlim_cur = limit.rlim_max;
        // SAFETY: `limit` is only read, and is valid.
        unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) };
    }
}
