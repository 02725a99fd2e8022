//! The answers of a replay as a file: a line a request, so that `diff` and `grep` understand it too.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::trace::Trace;
use crate::failure::Failure;
use crate::session::RowsMode;

/// The first line; its number is raised when the canonical form or the file changes.
const FIRST_LINE: &str = "# upshift-load digest 1";
const COLUMNS: &str = "# request\trows\taffected\tanswer\thash";

/// What two digests must have in common to be comparable, and whose they are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DigestHead {
    /// The trace's id, in hexadecimal.
    pub trace: String,
    /// How many requests were answered.
    pub requests: u64,
    /// Whether rows may come in any order.
    pub unordered: bool,
    /// How much of each result was read.
    pub rows: RowsMode,
    /// `mysql` or `postgres`.
    pub family: String,
    /// As the server said it.
    pub version: String,
}

/// How a request was answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// As asked.
    Ok,
    /// Refused with this SQLSTATE.
    Refused(String),
    /// The connection was lost.
    Lost,
    /// Not sent, because an earlier request of its transaction was refused.
    Skipped,
}

/// The answer to one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The request's number, counted from 1 over the trace.
    pub ordinal: u64,
    /// How it was answered.
    pub state: State,
    /// Rows that were read.
    pub rows: u64,
    /// Rows that it changed, as the server counts them.
    pub affected: u64,
    /// Hash of the rows in canonical form.
    pub hash: u64,
}

impl State {
    /// As it stands in the file: `ok`, `error:23000`, `lost`, `skipped`.
    #[must_use]
    pub fn to_text(&self) -> String {
        match self {
            Self::Ok => "ok".to_owned(),
            Self::Refused(sqlstate) => format!("error:{sqlstate}"),
            Self::Lost => "lost".to_owned(),
            Self::Skipped => "skipped".to_owned(),
        }
    }

    fn from_text(text: &str) -> Option<Self> {
        match text {
            "ok" => Some(Self::Ok),
            "lost" => Some(Self::Lost),
            "skipped" => Some(Self::Skipped),
            _ => Some(Self::Refused(text.strip_prefix("error:")?.to_owned())),
        }
    }

    /// Servers agree on the class of an SQLSTATE, its first two characters, not on the rest: a duplicate key is 23000 and 23505.
    fn is_like(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Refused(one), Self::Refused(other)) => one.get(..2) == other.get(..2),
            _ => self == other,
        }
    }
}

impl Answer {
    fn from_line(line: &str) -> Option<Self> {
        let mut fields = line.split('\t');
        let answer = Self {
            ordinal: fields.next()?.parse().ok()?,
            rows: fields.next()?.parse().ok()?,
            affected: fields.next()?.parse().ok()?,
            state: State::from_text(fields.next()?)?,
            hash: u64::from_str_radix(fields.next()?, 16).ok()?,
        };
        fields.next().is_none().then_some(answer)
    }
}

/// All answers of a replay, in the order of the requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Digest {
    /// Whose it is.
    pub head: DigestHead,
    /// One for each request.
    pub answers: Vec<Answer>,
}

/// A request that two servers answered differently.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// The earlier answer.
    pub earlier: Answer,
    /// The answer now.
    pub now: Answer,
}

impl Digest {
    /// Write it.
    ///
    /// # Errors
    /// The system's, with the file's name.
    pub fn write(&self, path: &Path) -> anyhow::Result<()> {
        self.lines(path).map_err(|error| {
            let message = format!("cannot write {}: {error}", path.display());
            Failure::new(
                message,
                "name a file in a folder that is there and has room",
            )
            .into()
        })
    }

    fn lines(&self, path: &Path) -> std::io::Result<()> {
        let mut file = BufWriter::new(File::create(path)?);
        writeln!(
            file,
            "{FIRST_LINE}\n# {}\n{COLUMNS}",
            serde_json::to_string(&self.head)?
        )?;
        let mut line = String::new();
        for answer in &self.answers {
            line.clear();
            let state = answer.state.to_text();
            let Answer {
                ordinal,
                rows,
                affected,
                hash,
                ..
            } = answer;
            // Writing to a String cannot fail.
            let _ = writeln!(line, "{ordinal}\t{rows}\t{affected}\t{state}\t{hash:016x}");
            file.write_all(line.as_bytes())?;
        }
        file.flush()
    }

    /// Read an earlier one.
    ///
    /// # Errors
    /// A file that cannot be read or is no digest, or is not whole.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        let wrong = |why: &str| {
            Failure::new(
                format!("{} is not a digest of upshift-load: {why}", path.display()),
                "name a file that upshift-load replay --digest wrote",
            )
        };
        let file = File::open(path).map_err(|error| wrong(&error.to_string()))?;
        let mut lines = BufReader::new(file).lines();
        let mut next = || {
            lines
                .next()
                .transpose()
                .map_err(|error| wrong(&error.to_string()))
        };
        if next()?.as_deref() != Some(FIRST_LINE) {
            return Err(wrong(&format!("it does not begin with {FIRST_LINE:?}")).into());
        }
        let head = next()?.unwrap_or_default();
        let head = head.strip_prefix("# ").unwrap_or_default();
        let head: DigestHead =
            serde_json::from_str(head).map_err(|error| wrong(&error.to_string()))?;
        next()?;
        let mut answers = Vec::new();
        while let Some(line) = next()? {
            let answer =
                Answer::from_line(&line).ok_or_else(|| wrong(&format!("line {line:?}")))?;
            answers.push(answer);
        }
        if answers.len() as u64 != head.requests {
            let message = format!("it has {} of {} answers", answers.len(), head.requests);
            return Err(wrong(&message).into());
        }
        Ok(Self { head, answers })
    }

    /// Whether answers to `trace` under these choices can be compared with this digest.
    ///
    /// # Errors
    /// The first thing that is not the same.
    pub fn check(&self, trace: &Trace, unordered: bool, rows: RowsMode) -> Result<(), Failure> {
        let head = &self.head;
        let (what, hint) =
            if head.trace != trace.id_text() || head.requests != trace.ending.statements {
                (
                    "of another trace",
                    "replay the trace whose digest it is, or make the digest of this one first",
                )
            } else if head.unordered != unordered {
                (
                    "with another choice of --unordered",
                    "give --unordered to both replays or to none",
                )
            } else if head.rows != rows {
                (
                    "with another choice of --rows",
                    "give the same --rows to both replays",
                )
            } else {
                return Ok(());
            };
        Err(Failure::new(
            format!("the digest to compare with was made {what}"),
            hint,
        ))
    }

    /// Every request whose answers differ. Affected rows count between servers of one kind only: MySQL counts rows that changed,
    /// PostgreSQL rows that were found.
    #[must_use]
    pub fn differences(&self, earlier: &Self) -> Vec<Difference> {
        let same_family = self.head.family == earlier.head.family;
        let differs = |now: &Answer, earlier: &Answer| {
            !now.state.is_like(&earlier.state)
                || (now.rows, now.hash) != (earlier.rows, earlier.hash)
                || (same_family && now.affected != earlier.affected)
        };
        let pairs = self.answers.iter().zip(&earlier.answers);
        pairs
            .filter(|(now, earlier)| differs(now, earlier))
            .map(|(now, earlier)| Difference {
                earlier: earlier.clone(),
                now: now.clone(),
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(family: &str, states: &[(State, u64)]) -> Digest {
        let answers = states
            .iter()
            .enumerate()
            .map(|(at, (state, affected))| Answer {
                ordinal: at as u64 + 1,
                state: state.clone(),
                rows: 0,
                affected: *affected,
                hash: u64::MAX,
            });
        Digest {
            head: DigestHead {
                trace: "00".into(),
                requests: states.len() as u64,
                unordered: false,
                rows: RowsMode::Stated,
                family: family.into(),
                version: "1".into(),
            },
            answers: answers.collect(),
        }
    }

    fn refused(sqlstate: &str) -> State {
        State::Refused(sqlstate.into())
    }

    #[test]
    fn errors_are_alike_by_class_and_affected_rows_within_a_family() {
        let mysql = digest(
            "mysql",
            &[(refused("23000"), 0), (State::Ok, 1), (refused("42S02"), 0)],
        );
        let postgres = digest(
            "postgres",
            &[(refused("23505"), 0), (State::Ok, 2), (State::Ok, 0)],
        );
        let ordinals = |differences: Vec<Difference>| -> Vec<u64> {
            differences
                .iter()
                .map(|difference| difference.now.ordinal)
                .collect()
        };
        assert_eq!(ordinals(postgres.differences(&mysql)), [3]);
        let other = digest(
            "mysql",
            &[(refused("23000"), 0), (State::Ok, 2), (State::Skipped, 0)],
        );
        assert_eq!(ordinals(other.differences(&mysql)), [2, 3]);
        assert!(mysql.differences(&mysql).is_empty());
    }

    #[test]
    fn a_file_holds_all_and_its_damage_is_seen() {
        let path = std::env::temp_dir().join(format!("upshift-digest-{}", std::process::id()));
        let whole = digest(
            "mysql",
            &[
                (State::Ok, 1),
                (State::Lost, 0),
                (refused("23000"), 0),
                (State::Skipped, 0),
            ],
        );
        whole.write(&path).expect("writes");
        assert_eq!(Digest::read(&path).expect("reads"), whole);
        let text = std::fs::read_to_string(&path).expect("text");
        for (damaged, why) in [
            (text.replace("digest 1", "digest 2"), "begin"),
            (text.replace("\tlost\t", "\tgone\t"), "line"),
            (
                text.lines()
                    .take(5)
                    .map(|line| format!("{line}\n"))
                    .collect(),
                "2 of 4",
            ),
        ] {
            std::fs::write(&path, damaged).expect("writes");
            let error = Digest::read(&path).expect_err(why).to_string();
            assert!(error.contains(why), "{error}");
        }
        std::fs::remove_file(&path).expect("removes");
        let error = whole
            .write(Path::new("/no/such/folder"))
            .expect_err("no folder");
        assert!(error.to_string().contains("/no/such/folder"));
    }
}
