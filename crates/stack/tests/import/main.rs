//! Logs of real servers made into traces: kept ones of which each line is known, and those of servers that run beside the test.

#[path = "../common/mod.rs"]
mod common;
mod imported;
mod kept;
mod running;
