//! The trace file of a capture: written as it happens, readable after a kill. docs/reference/trace.md has it byte by byte.
//!
//! [`TraceWriter`] takes what [`wire::passive`] observed, from any thread; [`TraceReader`] gives it back as [`Record`]s.

pub mod bytes;
mod encode;
mod error;
mod file;
mod format;
mod reader;
mod record;
#[cfg(test)]
mod tests;
mod texts;
mod values;
mod writer;

pub use error::TraceError;
pub use format::{Begin, Capture, Ending, LOAD_FROM, Lack, Log, MAGIC, VERSION};
pub use reader::TraceReader;
pub use record::Record;
pub use writer::{Summary, TraceWriter};
