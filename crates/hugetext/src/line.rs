//! A line on stderr without memory of its own.

use std::fmt::{self, Arguments, Write};

struct Line {
    text: [u8; 256],
    length: usize,
}

impl Write for Line {
    /// What is too long is cut off.
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for (place, byte) in self.text.iter_mut().skip(self.length).zip(text.bytes()) {
            *place = byte;
            self.length += 1;
        }
        Ok(())
    }
}

/// Writes `upshift hugetext: ...` and a line's end.
pub fn say(what: Arguments) {
    let line = written(what);
    // SAFETY: the text is as long as is said.
    unsafe { libc::write(2, line.text.as_ptr().cast(), line.length) };
}

fn written(what: Arguments) -> Line {
    let mut line = Line {
        text: [0; 256],
        length: 0,
    };
    // `write_str` never fails.
    let _ = writeln!(line, "upshift hugetext: {what}");
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(what: Arguments) -> String {
        let line = written(what);
        String::from_utf8_lossy(&line.text[..line.length]).into_owned()
    }

    #[test]
    fn a_line_says_who_speaks_and_ends() {
        assert_eq!(text(format_args!("{} MiB", 4)), "upshift hugetext: 4 MiB\n");
    }

    #[test]
    fn what_is_too_long_is_cut_off() {
        let long = "x".repeat(1000);
        assert_eq!(text(format_args!("{long}")).len(), 256);
    }
}
