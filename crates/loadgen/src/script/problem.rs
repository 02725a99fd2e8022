//! What is wrong with a file, and where: each error with line, column and a hint.

use std::path::Path;

use crate::failure::Failure;

/// Something at a place of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Problem {
    /// Where, in bytes.
    pub(super) at: usize,
    pub(super) message: String,
    /// What to do about it.
    pub(super) hint: String,
    /// A load could run with it.
    pub(super) is_note: bool,
}

/// All problems of a file, as they are found.
#[derive(Debug, Default)]
pub(super) struct Problems(pub(super) Vec<Problem>);

impl Problems {
    pub(super) fn error(&mut self, at: usize, message: impl Into<String>, hint: impl Into<String>) {
        self.add(at, message.into(), hint.into(), false);
    }

    pub(super) fn note(&mut self, at: usize, message: impl Into<String>, hint: impl Into<String>) {
        self.add(at, message.into(), hint.into(), true);
    }

    fn add(&mut self, at: usize, message: String, hint: String, is_note: bool) {
        let problem = Problem {
            at,
            message,
            hint,
            is_note,
        };
        // A statement may use the same unknown name twice; each place is said once.
        if !self.0.contains(&problem) {
            self.0.push(problem);
        }
    }

    pub(super) fn has_errors(&self) -> bool {
        self.0.iter().any(|problem| !problem.is_note)
    }

    /// Each on a line of its own, `FILE:LINE:COLUMN: what is wrong; hint: what to do`, in the order of the file.
    pub(super) fn lines(&self, path: &Path, text: &str, notes: bool) -> Vec<String> {
        let mut listed: Vec<&Problem> = self.0.iter().filter(|one| one.is_note == notes).collect();
        listed.sort_by_key(|problem| problem.at);
        let line = |problem: &Problem| {
            let (line, column) = place(text, problem.at);
            let Problem { message, hint, .. } = problem;
            format!(
                "{}:{line}:{column}: {message}; hint: {hint}",
                path.display()
            )
        };
        listed.into_iter().map(line).collect()
    }

    /// The errors as one failure; none if there are only notes.
    pub(super) fn failure(&self, path: &Path, text: &str) -> Option<Failure> {
        let lines = self.lines(path, text, false);
        let count = match lines.len() {
            0 => return None,
            1 => "an error".to_owned(),
            count => format!("{count} errors"),
        };
        Some(Failure::new(
            format!("{} has {count}\n{}", path.display(), lines.join("\n")),
            "upshift load script FILE check says what is wrong with a file, and runs nothing",
        ))
    }
}

/// Line and column of a byte, both counted from 1; columns are characters.
pub(super) fn place(text: &str, at: usize) -> (usize, usize) {
    let before = text.get(..at).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let start = before.rfind('\n').map_or(0, |newline| newline + 1);
    (line, before[start..].chars().count() + 1)
}

/// A hint for a name that is not there: the nearest of those that are, or all of them.
pub(super) fn suggestion<'a>(name: &str, there: impl IntoIterator<Item = &'a str>) -> String {
    let there: Vec<&str> = there.into_iter().collect();
    let nearest = there.iter().min_by_key(|known| distance(name, known));
    match nearest {
        None => "there is none".to_owned(),
        Some(known) if distance(name, known) <= name.len().min(known.len()) / 2 => {
            format!("did you mean {known}?")
        }
        Some(_) => format!("there are {}", there.join(", ")),
    }
}

/// How many letters have to be put in, left out or changed to make one name of another (Levenshtein).
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (line, letter) in one.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], line + 1);
        for (column, theirs) in other.iter().enumerate() {
            let changed = diagonal + usize::from(letter != *theirs);
            diagonal = row[column + 1];
            row[column + 1] = changed.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_a_line_and_a_column_of_characters() {
        let text = "a\nüb = 1\n";
        assert_eq!(place(text, 0), (1, 1));
        assert_eq!(place(text, 2), (2, 1));
        assert_eq!(place(text, 4), (2, 2));
        assert_eq!(place(text, text.len()), (3, 1));
        assert_eq!(place("", 0), (1, 1));
    }

    #[test]
    fn the_nearest_name_is_suggested_and_a_strange_one_gets_all() {
        assert_eq!(distance("weigth", "weight"), 2);
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(
            suggestion("wieght", ["weight", "begin"]),
            "did you mean weight?"
        );
        assert_eq!(
            suggestion("zzz", ["weight", "begin"]),
            "there are weight, begin"
        );
        assert_eq!(suggestion("x", []), "there is none");
    }
}
