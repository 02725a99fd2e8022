//! Real servers under the tier: watched and changed while they run, killed, rolled back, given tier files that are not theirs, and
//! with a medium that is full or stalls. No commit is lost, no page is wrong.

mod bank;
#[path = "../common/mod.rs"]
mod common;
mod control;
mod files;
mod kill;
mod medium;
mod stall;
mod tiered;
