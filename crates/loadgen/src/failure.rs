//! Failures that a user can do something about.

use std::fmt;

/// What went wrong and what to do about it.
#[derive(Debug)]
pub struct Failure {
    /// One sentence.
    pub message: String,
    /// What to try, as a sentence or command.
    pub hint: String,
}

impl Failure {
    /// A failure with a hint, ready to be returned.
    #[must_use]
    pub fn new(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            hint: hint.into(),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}

/// A usage error, such as an invalid option: exit code 2.
#[derive(Debug)]
pub struct Usage(pub Failure);

impl Usage {
    /// A usage failure, ready to be returned.
    #[must_use]
    pub fn new(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self(Failure::new(message, hint))
    }
}

impl fmt::Display for Usage {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

impl std::error::Error for Usage {}
