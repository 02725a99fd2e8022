//! Captures what passes between applications and a server, and hands it on for examination.

mod capture;
pub mod cli;
pub mod dump;
pub mod export;
mod failure;
mod import;
mod line;
mod names;
mod output;
mod parameters;
