//! The atomics of the lock-free parts, in one place, so that the model checker can put its own in.

pub use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
