//! The intercepted functions, by what they do to a file.

mod aio;
mod audit;
mod change;
mod durable;
mod name;
mod number;
mod open;
mod read;
mod refuse;
mod write;

use tiercache::{FileId, Tier};

use crate::descriptors;
use crate::process::{self, Side};

/// The file behind a descriptor that is about to change, and the tier to tell.
/// None: not a data file, or nothing to tell (a child's change makes the owner stop serving).
fn changing(fd: libc::c_int) -> Option<(&'static Tier, FileId)> {
    let file = descriptors::file(fd)?;
    match process::side() {
        Side::Owner(tier) => Some((tier, file.id()?)),
        Side::Child => {
            process::spoil();
            None
        }
        Side::Spoilt(_) | Side::Nobody => None,
    }
}
