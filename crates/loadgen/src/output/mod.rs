//! Results: for people, for machines, for other tools.

mod hdr;
mod json;
mod series;
mod table;
#[cfg(test)]
mod tests;

pub use hdr::write_hdr;
pub use json::{
    About, AnswerResult, Arrival, DifferingRequest, Latency, OpenLoop, Replay, Result, Server,
    StatementResult, TransactionResult, result,
};
pub use series::write_parquet;
pub use table::table;
