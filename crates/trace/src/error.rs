//! What can go wrong with a trace file.

/// A failure with what to do about it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct TraceError {
    /// One sentence.
    pub message: String,
    /// What to try.
    pub hint: String,
}

impl TraceError {
    /// A failure, ready to be returned.
    pub fn new(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            hint: hint.into(),
        }
    }
}
