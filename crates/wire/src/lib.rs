//! MySQL's, MariaDB's and PostgreSQL's protocols for a load generator. A connection counts its round trips, packets, bytes and system
//! calls.
//!
//! A [`ServerUrl`] leads through [`connect`] to a [`Connection`]. A statement's rows go into a [`RowSink`], what else its answer says
//! comes back as [`Done`], and what it cost is the difference of [`Connection::counters`] after it and before. Calls block; in
//! [`fibers`] they block a fiber, and the thread's other connections go on.

mod civil;
mod connection;
mod counters;
mod der;
mod dialect;
mod error;
pub mod fibers;
pub mod mysql;
pub mod passive;
mod postgres;
mod socket;
pub mod sql;
mod text;
mod tls;
mod transport;
mod url;
mod value;

pub use civil::Civil;
pub use connection::{
    BatchWay, ColumnDefinition, Connection, Done, Feature, Fetch, RowSink, RowsWanted, Statement,
    connect,
};
pub use counters::Counters;
pub use dialect::Dialect;
pub use error::Error;
pub use text::render;
pub use tls::{Tls, TlsClient, TlsServer};
pub use url::{AuthMethod, Family, Limits, Password, PasswordRules, ServerUrl, TlsMode};
pub use value::{Cell, Value};
