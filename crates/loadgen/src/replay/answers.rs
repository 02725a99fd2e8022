//! The answers of a replay on their way into a digest and a comparison, in the order of the requests, as they come.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use super::digest::{Answer, Difference, Differences, DigestReader, DigestWriter, Likeness};

/// What answers are compared with.
pub struct Earlier {
    /// An earlier replay's.
    pub digest: DigestReader,
    /// Those of one more replay like it.
    pub again: Option<DigestReader>,
    /// When two answers are equal.
    pub likeness: Likeness,
}

/// Puts answers in order and passes them on.
pub struct Answers {
    state: Mutex<State>,
}

struct State {
    /// The request whose answer is passed on next.
    next: u64,
    /// By their first request: answers of transactions that ended before an earlier one did.
    waiting: BTreeMap<u64, (bool, Vec<Answer>)>,
    digest: Option<DigestWriter>,
    earlier: Option<Earlier>,
    found: Differences,
    failure: Option<anyhow::Error>,
}

impl Answers {
    /// Write them to `digest` and compare them with `earlier`, either or both.
    #[must_use]
    pub fn new(digest: Option<DigestWriter>, earlier: Option<Earlier>) -> Self {
        Self {
            state: Mutex::new(State {
                next: 1,
                waiting: BTreeMap::new(),
                digest,
                earlier,
                found: Differences::default(),
                failure: None,
            }),
        }
    }

    /// The answers to all requests of a transaction, the first of which is `ordinal`, and whether it overlapped others in the recording.
    pub(super) fn add(&self, ordinal: u64, overlapped: bool, answers: Vec<Answer>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if answers.is_empty() {
            return;
        }
        state.waiting.insert(ordinal, (overlapped, answers));
        loop {
            let next = state.next;
            let Some((overlapped, answers)) = state.waiting.remove(&next) else {
                return;
            };
            state.next += answers.len() as u64;
            for answer in answers {
                state.pass_on(answer, overlapped);
            }
        }
    }

    /// All answers were added: the digest is complete. What the comparison found, if there was one.
    ///
    /// # Errors
    /// A digest that could not be written or read.
    pub fn finish(self) -> anyhow::Result<Option<Differences>> {
        let state = self.state.into_inner();
        let state = state.unwrap_or_else(PoisonError::into_inner);
        if let Some(failure) = state.failure {
            return Err(failure);
        }
        if let Some(digest) = state.digest {
            digest.finish()?;
        }
        Ok(state.earlier.map(|_| state.found))
    }
}

impl State {
    fn pass_on(&mut self, answer: Answer, overlapped: bool) {
        if self.failure.is_some() {
            return;
        }
        if let Err(error) = self.digest_and_compare(answer, overlapped) {
            self.failure = Some(error);
        }
    }

    fn digest_and_compare(&mut self, now: Answer, overlapped: bool) -> anyhow::Result<()> {
        if let Some(digest) = &mut self.digest {
            digest.write(&now)?;
        }
        let Some(earlier) = &mut self.earlier else {
            return Ok(());
        };
        let before = earlier.digest.next_answer()?;
        let likeness = earlier.likeness;
        let again = earlier.again.as_mut().map(DigestReader::next_answer);
        let again = again.transpose()?;
        let unsteady = again.filter(|again| again.differs(&before, likeness));
        let differs = match &unsteady {
            None => now.differs(&before, likeness),
            // The time in a row may be another, and how many rows there are the same.
            Some(again) => {
                !again.counts_otherwise(&before, likeness)
                    && now.counts_otherwise(&before, likeness)
            }
        };
        self.found.unsteady += u64::from(unsteady.is_some() && !differs);
        if differs {
            self.found.count += 1;
            self.found.overlapped += u64::from(overlapped);
            self.found.list(Difference {
                earlier: before,
                now,
                overlapped,
            });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::cells::Cells;
    use super::super::head::{DigestHead, Sent};
    use super::super::tests::Scratch;
    use super::*;
    use crate::replay::State;
    use crate::session::Knobs;

    fn answer(ordinal: u64, rows: u64, hash: u64) -> Answer {
        Answer {
            ordinal,
            state: State::Ok,
            rows,
            affected: 0,
            warnings: 0,
            last_insert_id: 0,
            hash,
            cells: Cells::default(),
        }
    }

    fn digest(name: &str, answers: &[Answer]) -> (Scratch, DigestReader) {
        let head = DigestHead {
            trace: "00".into(),
            requests: answers.len() as u64,
            unordered: true,
            lenient: true,
            sent: Sent::from(Knobs::default()),
            family: "mysql".into(),
            version: "1".into(),
        };
        let scratch = Scratch::new(name);
        let mut writer = DigestWriter::create(&scratch.path, &head).expect("creates");
        for answer in answers {
            writer.write(answer).expect("writes");
        }
        writer.finish().expect("writes");
        let reader = DigestReader::open(&scratch.path).expect("reads");
        (scratch, reader)
    }

    #[test]
    fn what_differs_by_itself_is_told_apart_unless_its_rows_are_not_as_many() {
        // Equal; other rows; the time, read twice; the time, of a row that has gone; rows that come and go by themselves.
        let before = [
            answer(1, 1, 1),
            answer(2, 1, 1),
            answer(3, 1, 1),
            answer(4, 1, 1),
            answer(5, 1, 1),
        ];
        let again = [
            answer(1, 1, 1),
            answer(2, 1, 1),
            answer(3, 1, 2),
            answer(4, 1, 2),
            answer(5, 2, 2),
        ];
        let now = [
            answer(1, 1, 1),
            answer(2, 1, 9),
            answer(3, 1, 3),
            answer(4, 0, 0),
            answer(5, 0, 0),
        ];
        let (_first, before) = digest("answers-before", &before);
        let (_second, again) = digest("answers-again", &again);
        let answers = Answers::new(
            None,
            Some(Earlier {
                digest: before,
                again: Some(again),
                likeness: Likeness::OneFamily,
            }),
        );
        // The second transaction ends first.
        answers.add(3, true, now[2..].to_vec());
        answers.add(1, false, now[..2].to_vec());
        let found = answers.finish().expect("reads").expect("compared");
        let listed: Vec<u64> = found.listed.iter().map(|one| one.now.ordinal).collect();
        assert_eq!(listed, [2, 4]);
        assert_eq!((found.count, found.overlapped, found.unsteady), (2, 1, 2));
    }

    #[test]
    fn a_difference_in_order_is_listed_however_many_overlapped_before_it() {
        let before: Vec<Answer> = (1..=204).map(|each| answer(each, 1, 1)).collect();
        let now: Vec<Answer> = (1..=204).map(|each| answer(each, 1, 2)).collect();
        let (_scratch, before) = digest("answers-listed", &before);
        let earlier = Earlier {
            digest: before,
            again: None,
            likeness: Likeness::OneFamily,
        };
        let answers = Answers::new(None, Some(earlier));
        answers.add(1, true, now[..101].to_vec());
        answers.add(102, false, now[101..103].to_vec());
        answers.add(104, true, now[103..104].to_vec());
        answers.add(105, false, now[104..].to_vec());
        let found = answers.finish().expect("reads").expect("compared");
        assert_eq!((found.count, found.overlapped), (204, 102));
        let listed: Vec<u64> = found.listed.iter().map(|one| one.now.ordinal).collect();
        let expected: Vec<u64> = [102, 103].into_iter().chain(105..=202).collect();
        assert_eq!(listed, expected);
    }
}
