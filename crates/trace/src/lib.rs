//! The trace file of a capture, version 5: written as it happens, readable after a kill. docs/reference/trace.md has it byte by byte.
//!
//! [`TraceWriter`] takes what [`wire::passive`] observed, from any thread; [`TraceReader`] gives it back as [`Record`]s.

mod error;
mod format;
mod reader;
mod record;
mod writer;

pub use error::TraceError;
pub use format::{Begin, Capture, Ending, MAGIC, VERSION};
pub use reader::TraceReader;
pub use record::Record;
pub use writer::{Summary, TraceWriter};
