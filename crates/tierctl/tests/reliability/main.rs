//! Real servers under the tier that are killed, rolled back and given files that are not theirs: no commit is lost, no page is wrong.

mod bank;
#[path = "../common/mod.rs"]
mod common;
mod files;
mod kill;
mod tiered;
