//! `upshift stack capture`: what clients say to a server, and what it answers, into a trace.

mod counts;
mod identity;
mod options;
mod place;
mod probe;
mod proxy;
mod run;
mod taker;
mod take;

pub use options::Options;
pub use run::run;
pub use take::guard_place;

/// Who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Side {
    Client,
    Server,
}
