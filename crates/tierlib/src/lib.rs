//! `libupshift_tier.so`: preloaded into an unmodified server, it serves page reads from a `tiercache::Tier`.
//!
//! The way of a call: `calls` holds the intercepted functions; each asks `descriptors` for the file behind the
//! descriptor and `process` whether this process may use the tier, goes to the C library through `real`, and
//! tells the tier before and after. What each call promises: docs/explanation/tier-contract.md.

mod calls;
mod descriptors;
mod files;
mod filter;
mod probe;
mod process;
mod raw;
mod real;
