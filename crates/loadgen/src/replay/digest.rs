//! The answers of a replay as a file: a line a request, so that `diff` and `grep` understand it too.

use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Lines, Write};
use std::path::{Path, PathBuf};

use super::cells::{Cells, Place};
use super::head::{DigestHead, Sent};
use crate::failure::Failure;
use crate::session::Knobs;

/// The first line; its number is raised when the canonical form or the file changes.
const FIRST_LINE: &str = "# upshift-load digest 5";
const COLUMNS: &str = "# request\trows\taffected\twarnings\tinsert id\tanswer\thash\tcells";

/// How a request was answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// As asked.
    Ok,
    /// Refused.
    Refused {
        /// MySQL's error number; 0 on `PostgreSQL`.
        code: u16,
        /// Five characters.
        sqlstate: String,
    },
    /// The connection was lost.
    Lost,
    /// Not sent, because an earlier request of its transaction was refused.
    Skipped,
    /// About the session: what it says is not compared, and a replay may leave it out.
    Session,
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
    /// Warnings that it raised.
    pub warnings: u32,
    /// `AUTO_INCREMENT`'s number of the first row that it inserted.
    pub last_insert_id: u64,
    /// Hash of the columns and rows.
    pub hash: u64,
    /// Hashes of its cells, if it has few.
    pub cells: Cells,
}

impl State {
    /// As it stands in the file: `ok`, `error:1062:23000`, `lost`, `skipped`, `session`.
    #[must_use]
    pub fn to_text(&self) -> String {
        match self {
            Self::Ok => "ok".to_owned(),
            Self::Refused { code, sqlstate } => format!("error:{code}:{sqlstate}"),
            Self::Lost => "lost".to_owned(),
            Self::Skipped => "skipped".to_owned(),
            Self::Session => "session".to_owned(),
        }
    }

    fn from_text(text: &str) -> Option<Self> {
        match text {
            "ok" => Some(Self::Ok),
            "lost" => Some(Self::Lost),
            "skipped" => Some(Self::Skipped),
            "session" => Some(Self::Session),
            _ => {
                let (code, sqlstate) = text.strip_prefix("error:")?.split_once(':')?;
                Some(Self::Refused {
                    code: code.parse().ok()?,
                    sqlstate: sqlstate.to_owned(),
                })
            }
        }
    }

    /// Engines agree on the class of an SQLSTATE, its first two characters, not on the rest: a duplicate key is 23000 and 23505.
    fn is_like(&self, other: &Self) -> bool {
        match (self, other) {
            (
                Self::Refused { sqlstate: one, .. },
                Self::Refused {
                    sqlstate: other, ..
                },
            ) => one.get(..2) == other.get(..2),
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
            warnings: fields.next()?.parse().ok()?,
            last_insert_id: fields.next()?.parse().ok()?,
            state: State::from_text(fields.next()?)?,
            hash: u64::from_str_radix(fields.next()?, 16).ok()?,
            cells: Cells::from_text(fields.next()?)?,
        };
        fields.next().is_none().then_some(answer)
    }

    /// Whether two answers to a request differ.
    #[must_use]
    pub fn differs(&self, earlier: &Self, likeness: Likeness) -> bool {
        match likeness {
            Likeness::Exact => self.exactly() != earlier.exactly(),
            Likeness::OneFamily | Likeness::Lenient => {
                self.counts_otherwise(earlier, likeness)
                    || (self.ordinal, self.hash) != (earlier.ordinal, earlier.hash)
            }
        }
    }

    /// All that it says; the cells are in the hash, and a digest has no columns' names.
    fn exactly(&self) -> (u64, &State, u64, u64, u32, u64, u64) {
        (
            self.ordinal,
            &self.state,
            self.rows,
            self.affected,
            self.warnings,
            self.last_insert_id,
            self.hash,
        )
    }

    /// The first cell that is another one now; none where the rows are not as many, or not few.
    #[must_use]
    pub fn first_other_cell(&self, earlier: &Self) -> Option<Place> {
        let cells = (self.rows == earlier.rows).then_some(&self.cells)?;
        cells.first_other(&earlier.cells)
    }

    /// Whether they differ in more than what the rows hold: in how the request ended, or in how many rows it read or changed.
    #[must_use]
    pub fn counts_otherwise(&self, earlier: &Self, likeness: Likeness) -> bool {
        let affected = likeness != Likeness::Lenient && self.affected != earlier.affected;
        let state = match likeness {
            Likeness::Exact => self.state == earlier.state,
            Likeness::OneFamily | Likeness::Lenient => self.state.is_like(&earlier.state),
        };
        !state || affected || self.rows != earlier.rows
    }
}

/// When two answers to a request are equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Likeness {
    /// In everything.
    Exact,
    /// Lenient, of two servers of one family: they count changed rows in the same way.
    OneFamily,
    /// Errors by their class; without what engines count in their own way: changed rows (MySQL counts rows that changed,
    /// `PostgreSQL` rows that were found), warnings and insert ids.
    Lenient,
}

/// A request that was answered differently.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// The earlier answer.
    pub earlier: Answer,
    /// The answer now.
    pub now: Answer,
    /// Its transaction overlapped others when it was recorded: it may be timing.
    pub overlapped: bool,
}

/// What a comparison found.
#[derive(Debug, Default)]
pub struct Differences {
    /// How many requests were answered differently.
    pub count: u64,
    /// How many of them belong to transactions that overlapped others when they were recorded.
    pub overlapped: u64,
    /// Requests that two replays of the earlier kind answered differently already: they differ by themselves, and are no difference.
    pub unsteady: u64,
    /// The first of them. Those that did not overlap displace the others.
    pub listed: Vec<Difference>,
}

/// So many differences are kept to be listed; the others are counted.
const LISTED_MAX: usize = 100;

impl Differences {
    /// Keep one more, if it belongs to the list.
    pub(super) fn list(&mut self, one: Difference) {
        let listed = &mut self.listed;
        if listed.len() == LISTED_MAX {
            let may_be_timing = listed.iter().rposition(|each| each.overlapped);
            match may_be_timing.filter(|_| !one.overlapped) {
                Some(place) => listed.remove(place),
                None => return,
            };
        }
        listed.push(one);
    }
}

/// A digest that is being written; there is no file of its name before it is complete.
pub struct DigestWriter {
    path: PathBuf,
    partial: PathBuf,
    file: BufWriter<File>,
}

impl DigestWriter {
    /// Begin it.
    ///
    /// # Errors
    /// The system's, with the file's name.
    pub fn create(path: &Path, head: &DigestHead) -> anyhow::Result<Self> {
        let mut partial = path.as_os_str().to_owned();
        partial.push(".partial");
        let partial = PathBuf::from(partial);
        let file = File::create(&partial).map_err(|error| cannot_write(path, &error))?;
        let mut writer = Self {
            path: path.to_owned(),
            partial,
            file: BufWriter::new(file),
        };
        let head = serde_json::to_string(head)?;
        writeln!(writer.file, "{FIRST_LINE}\n# {head}\n{COLUMNS}")
            .map_err(|error| cannot_write(path, &error))?;
        Ok(writer)
    }

    /// Add the next answer.
    ///
    /// # Errors
    /// The system's, with the file's name.
    pub fn write(&mut self, answer: &Answer) -> anyhow::Result<()> {
        let Answer {
            ordinal,
            rows,
            affected,
            warnings,
            last_insert_id,
            hash,
            ..
        } = answer;
        let (state, cells) = (answer.state.to_text(), answer.cells.to_text());
        writeln!(
            self.file,
            "{ordinal}\t{rows}\t{affected}\t{warnings}\t{last_insert_id}\t{state}\t{hash:016x}\t{cells}"
        )
        .map_err(|error| cannot_write(&self.path, &error).into())
    }

    /// It is complete: give it its name.
    ///
    /// # Errors
    /// The system's, with the file's name.
    pub fn finish(mut self) -> anyhow::Result<()> {
        let written = self.file.flush();
        let named = written.and_then(|()| std::fs::rename(&self.partial, &self.path));
        named.map_err(|error| cannot_write(&self.path, &error).into())
    }
}

impl Drop for DigestWriter {
    fn drop(&mut self) {
        // After `finish` it has another name.
        let _ = std::fs::remove_file(&self.partial);
    }
}

fn cannot_write(path: &Path, error: &std::io::Error) -> Failure {
    Failure::new(
        format!("cannot write {}: {error}", path.display()),
        "name a file in a folder that is there and has room",
    )
}

/// An earlier digest, read an answer at a time.
pub struct DigestReader {
    path: PathBuf,
    head: DigestHead,
    lines: Lines<BufReader<File>>,
}

impl DigestReader {
    /// Open one that is whole.
    ///
    /// # Errors
    /// A file that cannot be read or is no digest, or is not whole.
    pub fn open(path: &Path) -> anyhow::Result<Self> {
        let mut whole = Self::begin(path)?;
        for _ in 0..whole.head.requests {
            whole.next_answer()?;
        }
        if let Some(line) = whole.line()? {
            return Err(wrong(path, &format!("line {line:?} after its last answer")).into());
        }
        Self::begin(path)
    }

    fn begin(path: &Path) -> anyhow::Result<Self> {
        let file = File::open(path).map_err(|error| wrong(path, &error.to_string()))?;
        let mut reader = Self {
            path: path.to_owned(),
            head: DigestHead {
                trace: String::new(),
                requests: 0,
                unordered: false,
                lenient: false,
                sent: Sent::from(Knobs::default()),
                family: String::new(),
                version: String::new(),
            },
            lines: BufReader::new(file).lines(),
        };
        if reader.line()?.as_deref() != Some(FIRST_LINE) {
            return Err(wrong(path, &format!("it does not begin with {FIRST_LINE:?}")).into());
        }
        let head = reader.line()?.unwrap_or_default();
        let head = head.strip_prefix("# ").unwrap_or_default();
        reader.head =
            serde_json::from_str(head).map_err(|error| wrong(path, &error.to_string()))?;
        reader.line()?;
        Ok(reader)
    }

    /// Whose it is.
    #[must_use]
    pub fn head(&self) -> &DigestHead {
        &self.head
    }

    /// The next answer.
    ///
    /// # Errors
    /// A file that ends before, or holds something else.
    pub fn next_answer(&mut self) -> anyhow::Result<Answer> {
        let line = self
            .line()?
            .ok_or_else(|| wrong(&self.path, "it ends before its last answer"))?;
        let answer = Answer::from_line(&line);
        Ok(answer.ok_or_else(|| wrong(&self.path, &format!("line {line:?}")))?)
    }

    fn line(&mut self) -> Result<Option<String>, Failure> {
        let line = self.lines.next().transpose();
        line.map_err(|error| wrong(&self.path, &error.to_string()))
    }
}

fn wrong(path: &Path, why: &str) -> Failure {
    Failure::new(
        format!("{} is not a digest of upshift-load: {why}", path.display()),
        "name a file that upshift load replay --digest wrote",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(state: State) -> Answer {
        Answer {
            ordinal: 1,
            state,
            rows: 2,
            affected: 3,
            warnings: 0,
            last_insert_id: 4,
            hash: u64::MAX,
            cells: Cells::from_text("0123456789abcdef").expect("two"),
        }
    }

    fn refused(code: u16, sqlstate: &str) -> State {
        State::Refused {
            code,
            sqlstate: sqlstate.into(),
        }
    }

    #[test]
    fn exact_answers_are_equal_in_everything() {
        let one = answer(State::Ok);
        let change = |change: fn(&mut Answer)| {
            let mut other = one.clone();
            change(&mut other);
            other
        };
        for (other, lenient) in [
            (change(|answer| answer.rows = 0), true),
            (change(|answer| answer.hash = 0), true),
            (change(|answer| answer.state = State::Skipped), true),
            (change(|answer| answer.affected = 0), false),
            (change(|answer| answer.warnings = 1), false),
            (change(|answer| answer.last_insert_id = 0), false),
        ] {
            assert!(other.differs(&one, Likeness::Exact), "{other:?}");
            assert_eq!(other.differs(&one, Likeness::Lenient), lenient, "{other:?}");
            let changed = other.affected != one.affected;
            let of_family = other.differs(&one, Likeness::OneFamily);
            assert_eq!(of_family, lenient || changed, "{other:?}");
        }
        assert!(!one.differs(&one, Likeness::Exact));
    }

    #[test]
    fn lenient_errors_are_alike_by_class_and_exact_ones_by_number() {
        let duplicate = answer(refused(1062, "23000"));
        let postgres = answer(refused(0, "23505"));
        let foreign = answer(refused(1452, "23000"));
        let missing = answer(refused(1146, "42S02"));
        assert!(!postgres.differs(&duplicate, Likeness::Lenient));
        assert!(missing.differs(&duplicate, Likeness::Lenient));
        assert!(foreign.differs(&duplicate, Likeness::Exact));
    }

    #[test]
    fn a_file_holds_all_and_its_damage_is_seen() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("digest");
        let states = [
            State::Ok,
            State::Lost,
            refused(1062, "23000"),
            State::Skipped,
            State::Session,
        ];
        let head = DigestHead {
            trace: "00".into(),
            requests: states.len() as u64,
            unordered: false,
            lenient: true,
            sent: Sent::from(Knobs::default()),
            family: "mysql".into(),
            version: "1".into(),
        };
        let mut writer = DigestWriter::create(&path, &head).expect("creates");
        for state in states.clone() {
            writer.write(&answer(state)).expect("writes");
        }
        assert!(!path.exists(), "it is not complete");
        writer.finish().expect("writes");
        let mut reader = DigestReader::open(&path).expect("reads");
        assert_eq!(reader.head(), &head);
        for state in states {
            assert_eq!(reader.next_answer().expect("reads"), answer(state));
        }
        let text = std::fs::read_to_string(&path).expect("text");
        for (damaged, why) in [
            (text.replace("digest 5", "digest 4"), "begin"),
            (text.replace("\tlost\t", "\tgone\t"), "line"),
            (
                text.lines()
                    .take(5)
                    .map(|line| format!("{line}\n"))
                    .collect(),
                "ends before",
            ),
            (format!("{text}one more\n"), "after its last"),
        ] {
            std::fs::write(&path, damaged).expect("writes");
            let error = DigestReader::open(&path).err().expect(why).to_string();
            assert!(error.contains(why), "{error}");
        }
        std::fs::remove_file(&path).expect("removes");
        drop(DigestWriter::create(&path, &head).expect("creates"));
        assert!(!path.exists() && !path.with_extension("partial").exists());
        let error = DigestWriter::create(Path::new("/no/such/folder"), &head).err();
        let error = error.expect("no folder").to_string();
        assert!(error.contains("/no/such/folder"));
    }
}
