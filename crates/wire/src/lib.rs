//! MySQL's, MariaDB's and PostgreSQL's protocols for a load generator: blocking connections, every statement counted in
//! round trips, packets, bytes and client system calls.
//!
//! The way of a statement: [`ServerUrl`] -> [`connect`] -> [`Connection`] -> rows into a [`RowSink`] and a [`Done`] back, with
//! [`Connection::counters`] read before and after. [`fibers`] runs many of them on one thread.

mod civil;
mod connection;
mod counters;
mod dialect;
mod error;
pub mod fibers;
mod mysql;
mod postgres;
mod text;
mod tls;
mod transport;
mod url;
mod value;

pub use connection::{
    BatchWay, Connection, Done, Feature, Fetch, RowSink, RowsWanted, Statement, connect,
};
pub use counters::Counters;
pub use dialect::Dialect;
pub use error::Error;
pub use text::render;
pub use url::{Family, ServerUrl, TlsMode};
pub use value::{Cell, Value};
