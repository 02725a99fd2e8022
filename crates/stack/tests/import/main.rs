//! Logs of real servers made into traces: kept ones of which each line is known, and those of servers that run beside the test. And
//! traces that were printed, made into traces again.

#[path = "../../../wire/tests/common/captured.rs"]
mod captured;
#[path = "../common/mod.rs"]
mod common;
mod imported;
mod kept;
mod long;
mod odd;
mod partial;
mod printed;
mod restarted;
mod running;
