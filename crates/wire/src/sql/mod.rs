//! Statements as text: their digest, what they do, and how they look without their literals.

mod bare;
mod bind;
mod bytes;
mod database;
mod deallocated;
mod digest;
mod mask;
mod parameters;
mod session;
mod statements;
mod token;
mod verb;

pub use bare::bare;
pub use bind::{bind_literals, positional};
pub use database::used_database;
pub(crate) use deallocated::deallocated;
pub use digest::digest_text;
pub(crate) use mask::mask_secret;
pub use mask::{has_literals, has_secret, mask};
pub use session::{autocommit, is_of_temporary};
pub use statements::statements;
pub use verb::{Verb, verb};
