//! Captures what passes between applications and a server, and hands it on for examination.

pub mod dump;
pub mod export;
mod names;
mod parameters;
