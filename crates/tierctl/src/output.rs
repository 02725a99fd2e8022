//! Results on stdout. A reader that has gone (`| head`) ends the program quietly.

use std::io::{ErrorKind, Write};

use serde::Serialize;

use crate::failure::Failure;

/// As a terminal may get it: control characters, which file names and other servers' pages may hold, are written out.
pub fn shown(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '\n' | '\t' => shown.push(letter),
            _ if letter.is_control() => shown.extend(letter.escape_default()),
            _ => shown.push(letter),
        }
    }
    shown
}

/// A name from outside, within a line.
pub fn name(text: &str) -> String {
    shown(text).replace('\n', "\\n").replace('\t', "\\t")
}

/// One line, or several.
pub fn line(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    match writeln!(out, "{}", shown(text)).and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => std::process::exit(0),
        done => done.map_err(|error| Failure::failed(format!("stdout: {error}"), "")),
    }
}

/// The JSON of a result.
pub fn to_json(value: &impl Serialize) -> Result<String, Failure> {
    serde_json::to_string(value).map_err(|error| Failure::failed(format!("JSON: {error}"), ""))
}

#[cfg(test)]
mod tests {
    use super::{name, shown};

    #[test]
    fn what_would_steer_a_terminal_is_written_out() {
        assert_eq!(shown("a\nb\u{1b}[2Jc\u{9b}\r"), "a\nb\\u{1b}[2Jc\\u{9b}\\r");
        assert_eq!(name("t\n\u{7}ä.ibd"), "t\\n\\u{7}ä.ibd");
    }
}
