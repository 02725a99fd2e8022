//! What people and programs read of this one.

use std::io::{ErrorKind, Write};

use crate::failure::Failure;

/// A result, on stdout. A reader that has gone (`| head`) is no failure.
///
/// # Errors
/// The system's.
pub fn result(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    match writeln!(out, "{text}").and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        done => {
            done.map_err(|error| Failure::failed(format!("cannot write to stdout: {error}"), ""))
        }
    }
}

/// A line on stderr, for people.
pub fn say(line: &str) {
    piece(&format!("{line}\n"));
}

/// A piece of a line on stderr. It is no failure if nobody can read it: a capture goes on after its terminal was closed, and forwards
/// traffic. `eprint!` would end the program there.
pub fn piece(text: &str) {
    let mut out = std::io::stderr().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// `1 connection`, `2 connections`.
#[must_use]
pub fn counted(count: u64, what: &str) -> String {
    match count {
        1 => format!("1 {what}"),
        _ => format!("{count} {what}s"),
    }
}

/// A word of a command as a shell takes it.
#[must_use]
pub fn quoted(word: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-:@%+=,".contains(&byte);
    match !word.is_empty() && word.bytes().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_reads_words_as_they_were() {
        for word in ["/tmp/app.trace", "mysql://db:3307"] {
            assert_eq!(quoted(word), word);
        }
        for word in ["mysql://?socket=/run/s", "my trace", "it's", "", "$HOME"] {
            let command = format!("printf %s {}", quoted(word));
            let said = std::process::Command::new("sh")
                .args(["-c", &command])
                .output();
            assert_eq!(said.expect("a shell").stdout, word.as_bytes(), "{command}");
        }
    }
}
