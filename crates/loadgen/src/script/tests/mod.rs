//! Files: what is wrong with them, and what is sent for them.

mod errors;
mod values;
