//! Record a load's statements, run the same statements again on any server, and tell whether the answers are equal.
//!
//! The way of a recording: [`Recording`] wraps a workload -> each [`crate::session::Session`] writes what it sends onto a [`Tape`] -> a
//! transaction that the server answered goes into the [`TraceWriter`]'s blocks. The way back: [`Trace`] -> [`Replay`], a workload as any other
//! -> [`Answers`], which go into a digest and a comparison as they come.

mod answers;
mod canonical;
mod cells;
mod choices;
mod codec;
mod digest;
mod feed;
mod format;
mod head;
mod import;
mod pace;
mod player;
mod reads;
mod record;
mod tape;
#[cfg(test)]
mod tests;
mod trace;
mod writer;

pub use answers::{Answers, Earlier};
pub use canonical::ResultHash;
pub use cells::{Cells, Place};
pub use choices::{Choices, Loop, Pace};
pub use digest::{Answer, Difference, Differences, DigestReader, DigestWriter, Likeness, State};
pub use feed::Order;
pub use format::{Ending, Meta, RecordedStatement};
pub use head::{DigestHead, Sent};
pub use import::{Imported, LeftOut, import};
pub use player::{Otherwise, Replay};
pub use record::Recording;
pub use tape::{Counts, Event, Step, Tape};
pub use trace::{Reader, Recorded, Trace};
pub use writer::TraceWriter;
