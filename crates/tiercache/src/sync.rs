//! The atomics and locks of the lock-free parts, in one place, so that the model checker can put its own in.

pub use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};
pub use std::sync::{Mutex, MutexGuard, PoisonError};
