//! A page cache on a fast medium, in front of slower files.
//!
//! The way of a read: `engine` asks `index` for the slot of each page, copies from the `medium`, and checks
//! that no writer touched the slot meanwhile. A miss carries a token; the caller reads the file and fills.
//! `policy` says which pages are inserted and which are evicted; `status` counts; `config` says what was asked for.
//!
//! The caller's part of the contract: `write_begin` before a file changes, `write_end` after, for every
//! change of every cached file, whoever makes it.

pub mod config;
pub mod engine;
pub mod index;
pub mod medium;
pub mod own;
pub mod policy;
pub mod private;
pub mod status;
mod sync;
pub mod thread;

#[cfg(test)]
mod testing;

pub use config::{Action, Config, ConfigError, MediumChoice, Mode, Promotion, Rule, Rules};
pub use engine::{
    AuditToken, FileId, FillToken, Identity, Lookup, SyncToken, Tier, TierError, WriteToken,
};
pub use status::{Counter, Reason, StatusPage};
