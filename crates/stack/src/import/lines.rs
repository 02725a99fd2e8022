//! A file's lines, with the next one at hand.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use crate::failure::Failure;

/// Lines of any bytes.
pub(super) struct Lines {
    from: BufReader<File>,
    name: String,
    next: Option<Vec<u8>>,
    pub(super) count: u64,
}

impl Lines {
    /// # Errors
    /// A file that cannot be read.
    pub(super) fn open(path: &Path) -> Result<Self, Failure> {
        let name = path.display().to_string();
        let file = File::open(path).map_err(|error| cannot_read(&name, &error))?;
        let mut lines = Self {
            from: BufReader::with_capacity(1 << 16, file),
            name,
            next: None,
            count: 0,
        };
        lines.next = lines.read()?;
        if lines.next.as_ref().is_some_and(|line| is_packed(line)) {
            return Err(Failure::failed(
                format!("{} is compressed", lines.name),
                "decompress it first (gunzip, unzstd)",
            ));
        }
        Ok(lines)
    }

    /// The next line, with the newline that ends it unless the file ends first.
    ///
    /// # Errors
    /// A file that cannot be read.
    pub(super) fn next(&mut self) -> Result<Option<Vec<u8>>, Failure> {
        let following = match self.next {
            Some(_) => self.read()?,
            None => return Ok(None),
        };
        self.count += 1;
        Ok(std::mem::replace(&mut self.next, following))
    }

    /// The one after it; empty at the end.
    pub(super) fn ahead(&self) -> &[u8] {
        self.next.as_deref().unwrap_or_default()
    }

    fn read(&mut self) -> Result<Option<Vec<u8>>, Failure> {
        let mut line = Vec::new();
        let read = self.from.read_until(b'\n', &mut line);
        match read.map_err(|error| cannot_read(&self.name, &error))? {
            0 => Ok(None),
            _ => Ok(Some(line)),
        }
    }
}

fn cannot_read(name: &str, error: &std::io::Error) -> Failure {
    Failure::failed(
        format!("cannot read {name}: {error}"),
        "check the path, and your right to read the file",
    )
}

/// As gzip, zstd, xz and bzip2 begin.
fn is_packed(line: &[u8]) -> bool {
    [&b"\x1f\x8b"[..], b"\x28\xb5\x2f\xfd", b"\xfd7zXZ", b"BZh"]
        .iter()
        .any(|magic| line.starts_with(magic))
}

/// A line without what ends it.
pub(super) fn trimmed(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// What stands before and after a sign.
pub(super) fn split<'a>(text: &'a [u8], sign: &[u8]) -> Option<(&'a [u8], &'a [u8])> {
    let at = text.windows(sign.len()).position(|window| window == sign)?;
    Some((&text[..at], &text[at + sign.len()..]))
}

/// Whether a text has the word anywhere, in a literal or a comment, too.
pub(super) fn has_word(text: &[u8], word: &str) -> bool {
    text.split(|byte| !byte.is_ascii_alphabetic())
        .any(|part| part.eq_ignore_ascii_case(word.as_bytes()))
}
