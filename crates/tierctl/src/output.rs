//! Results on stdout. A reader that has gone (`| head`) ends the program quietly.

use std::io::{ErrorKind, Write};

use serde::Serialize;

use crate::failure::Failure;

/// One line, or several.
pub fn line(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    match writeln!(out, "{text}").and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => std::process::exit(0),
        done => done.map_err(|error| Failure::failed(format!("stdout: {error}"), "")),
    }
}

/// The JSON of a result.
pub fn to_json(value: &impl Serialize) -> Result<String, Failure> {
    serde_json::to_string(value).map_err(|error| Failure::failed(format!("JSON: {error}"), ""))
}
