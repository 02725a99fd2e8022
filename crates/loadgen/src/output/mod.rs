//! Results: for people, for machines, for other tools.

mod hdr;
mod json;
mod replay;
mod series;
mod table;
#[cfg(test)]
mod tests;

pub use hdr::write_hdr;
pub use json::{
    About, Arrival, Latency, OpenLoop, Ran, Result, Server, StatementResult, TransactionResult,
    Transport, histogram, result,
};
pub use replay::{AnswerResult, DifferingRequest, RecordedOn, Replay, replay};
pub use series::write_parquet;
pub use table::table;
