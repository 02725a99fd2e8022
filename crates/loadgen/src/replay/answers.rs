//! The answers of a replay on their way into a digest and a comparison, in the order of the requests, as they come.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use super::digest::{Answer, Difference, Differences, DigestReader, DigestWriter, Likeness};

/// So many requests that were answered differently are kept to be listed; the others are counted.
const LISTED_MAX: usize = 100;

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
        if let Some(again) = &mut earlier.again
            && again.next_answer()?.differs(&before, earlier.likeness)
        {
            self.found.unsteady += 1;
            return Ok(());
        }
        if now.differs(&before, earlier.likeness) {
            self.found.count += 1;
            self.found.overlapped += u64::from(overlapped);
            if self.found.listed.len() < LISTED_MAX {
                self.found.listed.push(Difference {
                    earlier: before,
                    now,
                    overlapped,
                });
            }
        }
        Ok(())
    }
}
