//! What a login asks a relay to do.

use wire::passive::Side;

/// Done one after the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// The observer learns that a side said this, as the client knows it.
    Seen(Side, Vec<u8>),
    /// To this side.
    Send(Side, Vec<u8>),
    /// The client begins a handshake; these bytes of it have come already.
    Accept(Vec<u8>),
    /// A handshake with the server begins. What is sent there afterwards waits for it.
    Dial,
    /// From here on all passes as it is.
    Over,
}
