//! The load client: drives a MySQL, MariaDB or PostgreSQL server and tells what every statement cost.
//!
//! The way of a run: [`cli`] -> a [`workload::Workload`] -> [`drive`] (connections shared out among a few threads) -> [`session::Session`] (one statement at a
//! time over `wire`) -> [`measure`] (histograms and counts) -> [`output`].

pub mod cli;
pub mod clock;
pub mod commit;
pub mod drive;
pub mod failure;
pub mod measure;
pub mod oltp;
pub mod output;
pub mod replay;
pub mod script;
pub mod session;
pub mod sql;
pub mod sys;
pub mod tpcc;
pub mod workload;
