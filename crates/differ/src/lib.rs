//! The same statements to two servers, stock and patched, in lockstep: their answers must be equal byte by byte.
//!
//! [`cli`] is the command line. A [`step`] goes through a [`peer`] to each server; an [`answer`] is what came back, packet by packet;
//! [`compare`] holds the rules by which two answers are equal. [`mix`] has the fixed statements, [`generate`] makes random ones,
//! [`random`] runs them, and [`minimise`] makes a short script of a difference. [`suite`] sends the statements of MySQL's own
//! tests. [`storm`] needs one server alone: statements that
//! check their own answers, while others disturb.

pub mod allow;
pub mod answer;
pub mod cli;
pub mod compare;
#[cfg(test)]
mod fake;
pub mod generate;
pub mod lockstep;
pub mod minimise;
pub mod mix;
mod packet;
pub mod param;
pub mod peer;
pub mod random;
pub mod report;
mod request;
pub mod silence;
pub mod step;
pub mod storm;
pub mod suite;
pub mod witness;
