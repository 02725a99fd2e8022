//! Random statements in lockstep, on several connections at once: each has a database of its own.

use std::collections::VecDeque;
use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::answer::Answer;
use crate::compare::{self, Rule};
use crate::generate;
use crate::lockstep::{LOST, Pair, Place, Servers, has_warnings};
use crate::minimise::minimise_after;
use crate::peer::{Peer, capability, is_silence};
use crate::report::{Difference, Report, Verdict};
use crate::silence::Silence;
use crate::step::{CONNECTIONS, Step, What};

/// What clients agree on; an episode takes one after the other.
pub const CLIENTS: [u32; 6] = [
    capability::USUAL | capability::MULTI_STATEMENTS | capability::DEPRECATE_EOF,
    capability::USUAL | capability::MULTI_STATEMENTS,
    capability::USUAL
        | capability::MULTI_STATEMENTS
        | capability::DEPRECATE_EOF
        | capability::SESSION_TRACK
        | capability::FOUND_ROWS,
    capability::USUAL
        | capability::MULTI_STATEMENTS
        | capability::DEPRECATE_EOF
        | capability::OPTIONAL_METADATA,
    capability::USUAL
        | capability::DEPRECATE_EOF
        | capability::QUERY_ATTRIBUTES
        | capability::SESSION_TRACK,
    capability::USUAL | capability::FOUND_ROWS | capability::OPTIONAL_METADATA,
];

/// How often stock is asked whether it agrees with itself. Plans, and with them the flag that no index was used, depend on the
/// deleted rows that purge has left. A plan that differs in one run of ten is the same in 40 runs with a probability of 1.6 %.
const CONTROLS: usize = 40;
/// So often in any case, however long a run takes.
const CONTROLS_MIN: usize = 3;
/// No further run begins after this time.
const CONTROLS_TIME_MAX: Duration = Duration::from_secs(20);

/// Episodes of a stream that are kept, for a difference that needs them.
const PAST: usize = 3;

/// How much is run.
#[derive(Debug, Clone, Copy)]
pub struct Extent {
    /// Requests to each server.
    pub statements: u64,
    /// Of the first episode.
    pub seed: u64,
    /// Steps of an episode.
    pub episode: usize,
    /// Databases and connections side by side.
    pub streams: usize,
    /// The run ends after so many differences.
    pub differences_max: usize,
    /// No episode begins after this time.
    pub time_max: Duration,
    /// Replays that each is worth.
    pub trials_max: usize,
}

/// Run them.
///
/// # Errors
/// A server that cannot be reached.
pub fn run(place: &Place, extent: Extent, say: &(dyn Fn(&str) + Sync)) -> io::Result<Report> {
    let begin = Instant::now();
    let (next, done) = (AtomicU64::new(0), AtomicU64::new(0));
    let all = Mutex::new(Report::new("random", extent.seed));
    let failed: Mutex<Option<io::Error>> = Mutex::new(None);
    let is_over = || {
        done.load(Ordering::Relaxed) >= extent.statements
            || begin.elapsed() > extent.time_max
            || all
                .lock()
                .is_ok_and(|all| all.counted() >= extent.differences_max)
            || failed.lock().is_ok_and(|failed| failed.is_some())
    };
    let finished = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for stream in 0..extent.streams {
            let place = Place {
                database: format!("{}{stream}", place.database),
                ..place.clone()
            };
            let (next, done, all, failed, is_over, finished) =
                (&next, &done, &all, &failed, &is_over, &finished);
            scope.spawn(move || {
                let mut pair = Pair::new(place.clone());
                let mut past = VecDeque::new();
                while !is_over() {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let found = one(&mut pair, &place, extent, number, &mut past, done);
                    match found {
                        Ok(report) => {
                            if let Ok(mut all) = all.lock() {
                                all.add(report);
                            }
                        }
                        Err(error) if is_hang(&error) => {
                            pair.leave_database();
                            let seed = extent.seed.wrapping_add(number);
                            let hang = hang(&mut pair, &error, seed, &[]);
                            if let Ok(mut all) = all.lock() {
                                all.differences.push(hang);
                                all.differences.extend(late(&mut pair, seed));
                            }
                        }
                        Err(error) => {
                            if let Ok(mut failed) = failed.lock() {
                                failed.get_or_insert(error);
                            }
                        }
                    }
                }
                finished.fetch_add(1, Ordering::Relaxed);
            });
        }
        let mut said = Instant::now();
        while finished.load(Ordering::Relaxed) < extent.streams as u64 {
            std::thread::sleep(Duration::from_millis(20));
            if said.elapsed() > Duration::from_secs(10) {
                said = Instant::now();
                let statements = done.load(Ordering::Relaxed);
                let rate = statements as f64 / begin.elapsed().as_secs_f64();
                let differences = all.lock().map_or(0, |all| all.steady());
                say(&format!(
                    "{statements} of {} statements, {rate:.0} a second, {differences} differences",
                    extent.statements
                ));
            }
        }
    });
    let mut report = all
        .into_inner()
        .map_err(|_| io::Error::other("a stream panicked"))?;
    match failed.into_inner().unwrap_or(None) {
        // What was found before a server was gone says why it is.
        Some(error) if report.counted() > 0 => say(&format!("the run ends early: {error}")),
        Some(error) => return Err(error),
        None => {}
    }
    report.wall_s = begin.elapsed().as_secs_f64();
    Ok(report)
}

/// Neither server answers, in a step or while an episode begins.
pub(crate) fn is_hang(error: &io::Error) -> bool {
    is_silence(error)
}

/// Stock hangs, too: nothing follows for the patches.
pub(crate) fn hang(pair: &mut Pair, error: &io::Error, seed: u64, steps: &[Step]) -> Difference {
    Difference {
        what: error.to_string(),
        statement: steps.last().map_or(String::new(), Step::shown),
        steps: steps.to_vec(),
        seed,
        silence: pair.unanswered(),
        verdict: Verdict::Hang,
        ..Difference::default()
    }
}

/// Answers that came late in whichever run of the steps. What was never answered is told by what ended the run.
pub(crate) fn late(pair: &mut Pair, seed: u64) -> impl Iterator<Item = Difference> {
    let all = pair.silences.drain(..);
    all.filter(Silence::is_slow)
        .map(move |each| Difference::late(each, seed))
}

/// One episode.
fn one(
    pair: &mut Pair,
    place: &Place,
    extent: Extent,
    number: u64,
    past: &mut VecDeque<Vec<Step>>,
    done: &AtomicU64,
) -> io::Result<Report> {
    let seed = extent.seed.wrapping_add(number);
    let wanted = CLIENTS[(seed % CLIENTS.len() as u64) as usize];
    let steps = generate::episode(seed, extent.episode);
    pair.want(wanted);
    let place = Place {
        wanted,
        ..place.clone()
    };
    let before = past.make_contiguous().concat();
    let found = run_steps(pair, &place, &before, &steps, seed, extent.trials_max, done);
    past.push_back(begun(steps, wanted));
    if past.len() > PAST {
        past.pop_front();
    }
    found
}

/// Steps as an episode that can follow another one. A client that the first one names stays.
#[must_use]
pub fn begun(mut steps: Vec<Step>, wanted: u32) -> Vec<Step> {
    if let Some(first) = steps.first_mut() {
        first.fresh.get_or_insert(wanted);
    }
    steps
}

/// Steps as a report has them: the first one says of which client and in which database they ran, for a replay.
fn told(steps: Vec<Step>, wanted: u32, database: &str) -> Vec<Step> {
    let mut steps = begun(steps, wanted);
    if let Some(first) = steps.first_mut() {
        first.database = Some(database.to_owned());
    }
    steps
}

/// Run steps on an empty database, and make a script of a difference. `past` has the episodes before, as [`begun`] makes them.
///
/// # Errors
/// A server that cannot be reached.
pub fn run_steps(
    pair: &mut Pair,
    place: &Place,
    past: &[Step],
    steps: &[Step],
    seed: u64,
    trials_max: usize,
    done: &AtomicU64,
) -> io::Result<Report> {
    let mut report = Report::new("random", seed);
    let allowed = pair.allowed;
    pair.fresh()?;
    let mut found = None;
    for (at, step) in steps.iter().enumerate() {
        let differs = match pair.step(step) {
            Err(error) if is_hang(&error) => {
                let ran = told(steps[..=at].to_vec(), place.wanted, pair.database());
                let hang = hang(pair, &error, seed, &ran);
                report.differences.push(hang);
                pair.leave_database();
                break;
            }
            other => other?,
        };
        let sent = 1 + step.ahead.len() as u64;
        report.statements += sent;
        done.fetch_add(sent, Ordering::Relaxed);
        let count = report.groups.entry(step.group.to_string()).or_default();
        count.statements += sent;
        count.errors += u64::from(pair.answers.0.error != 0);
        count.rows += pair.answers.0.rows;
        if let Some(what) = differs {
            found = Some((at, what));
            break;
        }
    }
    report.allowed = pair.allowed - allowed;
    if let Some((at, what)) = found {
        let silence = pair.unanswered();
        let explained = explain(pair, place, past, &steps[..=at], what, seed, trials_max)?;
        report.differences.push(Difference {
            silence,
            ..explained
        });
    }
    report.differences.extend(lost_besides(pair, &report, seed));
    report.differences.extend(late(pair, seed));
    Ok(report)
}

/// A connection that the patched server lost in some run of the steps, where no difference of the report is such a loss.
pub(crate) fn lost_besides(pair: &mut Pair, report: &Report, seed: u64) -> Option<Difference> {
    let (what, statement) = pair.lost.take()?;
    let silence = pair.unanswered().filter(|each| each.statement == statement);
    let is_told = report
        .differences
        .iter()
        .any(|each| each.what.contains(LOST));
    (!is_told).then(|| Difference {
        what,
        statement,
        seed,
        silence,
        ..Difference::default()
    })
}

pub(crate) fn explain(
    pair: &mut Pair,
    place: &Place,
    past: &[Step],
    steps: &[Step],
    what: String,
    seed: u64,
    trials_max: usize,
) -> io::Result<Difference> {
    let statement = steps.last().map_or(String::new(), Step::shown);
    let again = begun(steps.to_vec(), place.wanted);
    let database = pair.database().to_owned();
    let smaller = match minimise_after(pair, past, &again, trials_max) {
        // A patched server that is gone or hangs, by now or after a replay, must not take its difference along.
        Err(error) if is_hang(&error) || pair.lost.is_some() => {
            pair.leave_database();
            None
        }
        other => other?,
    };
    let Some((left, what)) = smaller else {
        return Ok(Difference {
            what,
            statement,
            steps: told(again, place.wanted, &database),
            seed,
            ..Difference::default()
        });
    };
    // Its open transaction would keep stock's own runs from making the database anew.
    pair.leave();
    let place = Place {
        database,
        ..place.clone()
    };
    let steady = match stock_is_steady(&place, &left) {
        Err(error) if is_hang(&error) => false,
        other => other?,
    };
    let statement = left.last().map_or(String::new(), Step::shown);
    let left = told(left, place.wanted, &place.database);
    Ok(Difference {
        what,
        statement,
        script: crate::step::script(&left),
        steps: left,
        steady,
        seed,
        ..Difference::default()
    })
}

/// Whether stock answers these steps in the same way each time.
fn stock_is_steady(place: &Place, steps: &[Step]) -> io::Result<bool> {
    let begin = Instant::now();
    let first = alone(place, steps)?;
    for control in 1..CONTROLS {
        if control >= CONTROLS_MIN && begin.elapsed() > CONTROLS_TIME_MAX {
            break;
        }
        let again = alone(place, steps)?;
        let pairs = first.iter().zip(&again).zip(steps);
        for ((one, other), step) in pairs {
            if compare::difference(&one.0, &other.0, step.rule()).is_some()
                || compare::difference(&one.1, &other.1, Rule::Whole).is_some()
            {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

/// What stock alone answers, and what it says to SHOW WARNINGS where [`Pair`] asks for them.
fn alone(place: &Place, steps: &[Step]) -> io::Result<Vec<(Answer, Answer)>> {
    let (mut answer, mut warnings) = (Answer::default(), Answer::default());
    let show = What::Query("SHOW WARNINGS".to_owned());
    let mut peers = begin_alone(place, place.wanted)?;
    let mut answers = Vec::new();
    for step in steps {
        if let Some(wanted) = step.fresh {
            peers.clear();
            peers = begin_alone(place, wanted)?;
        }
        let peer = &mut peers[step.on];
        let asked = peer
            .send_ahead(step.requests(), usize::MAX)
            .and_then(|()| peer.receive(&mut answer));
        if asked.is_err() {
            answer.clear();
        }
        warnings.clear();
        if step.diagnose && has_warnings(&answer) {
            let asked = peer.send(&show).and_then(|()| peer.receive(&mut warnings));
            if asked.is_err() {
                warnings.clear();
            }
        }
        answers.push((answer.clone(), warnings.clone()));
    }
    Ok(answers)
}

/// New connections to stock, and an empty database.
fn begin_alone(place: &Place, wanted: u32) -> io::Result<Vec<Peer>> {
    let mut peers = Vec::new();
    for _ in 0..CONNECTIONS {
        peers.push(Peer::connect(&place.stock, wanted)?);
    }
    let database = &place.database;
    let mut begin = vec![
        (
            0,
            What::Query(format!("DROP DATABASE IF EXISTS {database}")),
        ),
        (0, What::Query(format!("CREATE DATABASE {database}"))),
    ];
    for on in 0..CONNECTIONS {
        begin.extend(
            place
                .session
                .iter()
                .map(|sql| (on, What::Query(sql.clone()))),
        );
        begin.push((on, What::Database(database.clone())));
    }
    let mut answer = Answer::default();
    for (on, what) in begin {
        peers[on].send(&what)?;
        peers[on].receive(&mut answer)?;
    }
    Ok(peers)
}

#[cfg(test)]
mod tests;
