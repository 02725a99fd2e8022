//! What went wrong, for the one place that prints it.

/// A message, what to do about it, and the exit code: 1 failed, 2 usage error.
#[derive(Debug)]
pub struct Failure {
    /// One sentence.
    pub message: String,
    /// What to do; empty when there is nothing to say.
    pub hint: String,
    /// Of the process.
    pub exit_code: u8,
}

impl Failure {
    /// Exit code 1.
    pub fn failed(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            hint: hint.into(),
            exit_code: 1,
        }
    }

    /// Exit code 2.
    pub fn usage(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self {
            exit_code: 2,
            ..Self::failed(message, hint)
        }
    }
}

impl From<trace::TraceError> for Failure {
    fn from(error: trace::TraceError) -> Self {
        Self::failed(error.message, error.hint)
    }
}
