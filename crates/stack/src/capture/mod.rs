//! `upshift stack capture`: what clients say to a server, and what it answers, into a trace.

mod counts;
mod identity;
mod listening;
mod live;
mod observer;
mod options;
mod packets;
mod packets_run;
mod place;
mod probe;
mod proxy;
mod run;
mod summary;
mod sys;
mod take;
mod taker;

pub use options::Options;
pub use run::run;
pub use take::guard_place;
