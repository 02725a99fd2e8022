//! The statement files: SQL with `:name` for parameters, and what stands between `/*each SEPARATOR*/` and `/*end*/` once for each row
//! of a batch.

/// A statement file, read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Template {
    pieces: Vec<Piece>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Sql(String),
    /// By its place in the names that the statement may use.
    Parameter(usize),
    Each {
        separator: String,
        pieces: Vec<Piece>,
    },
}

/// Where the value of one `?` comes from: the row of the batch (0 outside of a batch) and the place of its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Slot {
    pub(super) row: usize,
    pub(super) name: usize,
}

impl Template {
    /// Read a file whose parameters can be `names`. Comments and line breaks are left out of what is sent; optimizer hints stay.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(super) fn parse(text: &str, names: &[&str]) -> Result<Self, String> {
        let mut parser = Parser {
            rest: text,
            names,
            sql: String::new(),
            pieces: Vec::new(),
        };
        let ended = parser.pieces(false)?;
        debug_assert!(!ended);
        let template = Self {
            pieces: parser.pieces,
        };
        if template.pieces.is_empty() {
            return Err("no statement in it".to_owned());
        }
        Ok(template)
    }

    /// Whether it takes a whole batch at once.
    pub(super) fn takes_batch(&self) -> bool {
        self.pieces
            .iter()
            .any(|piece| matches!(piece, Piece::Each { .. }))
    }

    /// The statement for a batch of `rows`, with `?`, and where each value comes from.
    pub(super) fn statement(&self, rows: usize) -> (String, Vec<Slot>) {
        let (mut sql, mut slots) = (String::new(), Vec::new());
        write(&self.pieces, 0, rows, &mut sql, &mut slots);
        (sql, slots)
    }
}

fn write(pieces: &[Piece], row: usize, rows: usize, sql: &mut String, slots: &mut Vec<Slot>) {
    for piece in pieces {
        match piece {
            Piece::Sql(text) => sql.push_str(text),
            Piece::Parameter(name) => {
                sql.push('?');
                slots.push(Slot { row, name: *name });
            }
            Piece::Each { separator, pieces } => {
                for row in 0..rows {
                    if row > 0 {
                        sql.push_str(separator);
                        sql.push(' ');
                    }
                    write(pieces, row, rows, sql, slots);
                }
            }
        }
    }
}

struct Parser<'a> {
    rest: &'a str,
    names: &'a [&'a str],
    sql: String,
    pieces: Vec<Piece>,
}

impl Parser<'_> {
    /// Read on; true at `/*end*/`, false at the end of the file.
    fn pieces(&mut self, inside: bool) -> Result<bool, String> {
        while let Some(first) = self.rest.chars().next() {
            if self.rest.starts_with("--") {
                self.skip_to("\n");
            } else if let Some(after) = self.rest.strip_prefix("/*each") {
                if inside {
                    return Err("/*each*/ inside of /*each*/".to_owned());
                }
                let (separator, after) = after.split_once("*/").ok_or("/*each without an end")?;
                self.rest = after;
                self.each(separator.trim())?;
            } else if self.rest.starts_with("/*end*/") {
                self.take("/*end*/".len());
                return if inside {
                    Ok(true)
                } else {
                    Err("/*end*/ without /*each*/".to_owned())
                };
            } else if self.rest.starts_with("/*+") {
                self.copy_to("*/");
            } else if self.rest.starts_with("/*") {
                self.skip_to("*/");
            } else if matches!(first, '\'' | '"' | '`') {
                self.sql.push(first);
                self.take(1);
                self.copy_to(&first.to_string());
            } else if first == '?' {
                return Err("? in it: parameters are written :name".to_owned());
            } else if first.is_whitespace() {
                self.take(first.len_utf8());
                self.space();
            } else if self.rest.starts_with("::") {
                self.sql.push_str("::");
                self.take(2);
            } else if first == ':' {
                self.parameter()?;
            } else {
                self.sql.push(first);
                self.take(first.len_utf8());
            }
        }
        self.sql
            .truncate(self.sql.trim_end().trim_end_matches(';').len());
        self.flush();
        if inside {
            Err("/*each*/ without /*end*/".to_owned())
        } else {
            Ok(false)
        }
    }

    fn each(&mut self, separator: &str) -> Result<(), String> {
        self.flush();
        let before = std::mem::take(&mut self.pieces);
        self.pieces(true)?;
        self.flush();
        let pieces = std::mem::replace(&mut self.pieces, before);
        let separator = separator.to_owned();
        self.pieces.push(Piece::Each { separator, pieces });
        Ok(())
    }

    fn parameter(&mut self) -> Result<(), String> {
        let after = &self.rest[1..];
        let length = after
            .find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_')
            .unwrap_or(after.len());
        let name = &after[..length];
        let Some(place) = self.names.iter().position(|known| *known == name) else {
            return Err(format!(
                "no parameter :{name}; there are :{}",
                self.names.join(", :")
            ));
        };
        self.take(1 + length);
        self.flush();
        self.pieces.push(Piece::Parameter(place));
        Ok(())
    }

    fn flush(&mut self) {
        if !self.sql.is_empty() {
            self.pieces.push(Piece::Sql(std::mem::take(&mut self.sql)));
        }
    }

    fn space(&mut self) {
        let begin = self.sql.is_empty() && self.pieces.is_empty();
        if !begin && !self.sql.ends_with(' ') {
            self.sql.push(' ');
        }
    }

    fn take(&mut self, bytes: usize) {
        self.rest = &self.rest[bytes..];
    }

    fn skip_to(&mut self, end: &str) {
        let length = self
            .rest
            .find(end)
            .map_or(self.rest.len(), |at| at + end.len());
        self.take(length);
        self.space();
    }

    fn copy_to(&mut self, end: &str) {
        let length = self
            .rest
            .find(end)
            .map_or(self.rest.len(), |at| at + end.len());
        self.sql.push_str(&self.rest[..length]);
        self.take(length);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sql(text: &str, rows: usize) -> (String, Vec<(usize, usize)>) {
        let template = Template::parse(text, &["a", "b"]).expect("a template");
        let (sql, slots) = template.statement(rows);
        (
            sql,
            slots.iter().map(|slot| (slot.row, slot.name)).collect(),
        )
    }

    #[test]
    fn comments_and_line_breaks_are_not_sent() {
        let (sql, slots) = sql(
            "-- why\nSELECT /*+ HINT */ x::int, ':a'  -- more\n  FROM t /* ? */\n WHERE b = :b AND a = :a;\n",
            1,
        );
        assert_eq!(
            sql,
            "SELECT /*+ HINT */ x::int, ':a' FROM t WHERE b = ? AND a = ?"
        );
        assert_eq!(slots, [(0, 1), (0, 0)]);
    }

    #[test]
    fn a_batch_repeats_its_part() {
        let (sql, slots) = sql("INSERT INTO t VALUES /*each ,*/ (:a, :b) /*end*/\n", 2);
        assert_eq!(sql.replace(' ', ""), "INSERTINTOtVALUES(?,?),(?,?)");
        assert_eq!(slots, [(0, 0), (0, 1), (1, 0), (1, 1)]);
        assert!(
            !Template::parse("SELECT :a", &["a"])
                .expect("fine")
                .takes_batch()
        );
    }

    #[test]
    fn mistakes_are_told() {
        for (text, message) in [
            ("SELECT :c", "no parameter :c"),
            ("SELECT ?", "written :name"),
            ("/*each*/ :a", "without /*end*/"),
            (":a /*end*/", "without /*each*/"),
            ("-- nothing\n", "no statement"),
        ] {
            let error = Template::parse(text, &["a", "b"]).expect_err(text);
            assert!(error.contains(message), "{error}");
        }
    }
}
