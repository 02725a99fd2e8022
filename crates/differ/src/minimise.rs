//! Fewer steps that still show a difference: delta debugging (Zeller and Hildebrandt, 2002) from an empty database each time.

use std::io;
use std::time::{Duration, Instant};

use crate::lockstep::Servers;
use crate::step::{Step, What};

/// Replays that a difference is worth.
pub const TRIALS_MAX: usize = 400;
/// No replay begins after this time.
const TIME_MAX: Duration = Duration::from_secs(40);

/// The steps that are left, and what differs at the last of them; None when the difference does not come again.
///
/// # Errors
/// A server that cannot be reached any more.
pub fn minimise(
    servers: &mut dyn Servers,
    steps: &[Step],
    trials_max: usize,
) -> io::Result<Option<(Vec<Step>, String)>> {
    let begin_of_all = Instant::now();
    let mut seen = String::new();
    // What comes after the difference is dropped at once.
    let mut shows = |steps: &[Step]| -> io::Result<Option<usize>> {
        servers.fresh()?;
        for (at, step) in steps.iter().enumerate() {
            if let Some(found) = servers.step(step)? {
                seen = found;
                return Ok(Some(at + 1));
            }
        }
        Ok(None)
    };
    let Some(needed) = shows(steps)? else {
        return Ok(None);
    };
    let mut left = steps[..needed].to_vec();
    let mut used = 1;
    let mut parts = 2;
    while left.len() > 1 && used < trials_max && begin_of_all.elapsed() < TIME_MAX {
        let size = left.len().div_ceil(parts);
        let mut smaller = None;
        // From the end on: what came long before matters least often, what defines tables comes first.
        for begin in (0..left.len()).step_by(size).rev() {
            if used == trials_max || begin_of_all.elapsed() > TIME_MAX {
                break;
            }
            used += 1;
            let rest: Vec<Step> = left[..begin]
                .iter()
                .chain(left.iter().skip(begin + size))
                .cloned()
                .collect();
            if let Some(needed) = shows(&rest)? {
                smaller = Some(rest[..needed].to_vec());
                break;
            }
        }
        match smaller {
            Some(steps) => {
                left = steps;
                parts = (parts - 1).max(2);
            }
            None if size == 1 => break,
            None => parts = (parts * 2).min(left.len()),
        }
    }
    // The last word belongs to the whole, so that the message is that of what is handed back.
    if shows(&left)?.is_none() {
        return Ok(None);
    }
    Ok(Some((readable(left), seen)))
}

/// As [`minimise`]. A difference that does not come again by itself may need what an earlier episode left behind, in a thread of the
/// server or in a handle: the episodes before, each with its beginning, then run before the steps.
///
/// # Errors
/// A server that cannot be reached any more.
pub fn minimise_after(
    servers: &mut dyn Servers,
    past: &[Step],
    steps: &[Step],
    trials_max: usize,
) -> io::Result<Option<(Vec<Step>, String)>> {
    let found = minimise(servers, steps, trials_max)?;
    if found.is_some() || past.is_empty() {
        return Ok(found);
    }
    minimise(servers, &[past, steps].concat(), trials_max)
}

/// Multi-row inserts and the like stay; nothing but trailing space goes.
fn readable(mut steps: Vec<Step>) -> Vec<Step> {
    for step in &mut steps {
        if let What::Query(sql) = &mut step.what {
            sql.truncate(sql.trim_end().len());
        }
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Servers that differ at `bad` when `first` and `second` ran before it, or `left` in the episode before, and at nothing else.
    #[derive(Default)]
    struct Fake {
        before: Vec<String>,
        ran: Vec<String>,
        trials: usize,
        steady: bool,
    }

    impl Servers for Fake {
        fn fresh(&mut self) -> io::Result<()> {
            self.before = std::mem::take(&mut self.ran);
            self.trials += 1;
            Ok(())
        }

        fn step(&mut self, step: &Step) -> io::Result<Option<String>> {
            if step.fresh.is_some() {
                self.fresh()?;
            }
            let What::Query(sql) = &step.what else {
                return Ok(None);
            };
            let ran = |name: &str| self.ran.iter().any(|each| each == name);
            let left = self.before.iter().any(|each| each == "left");
            let differs = self.steady && sql == "bad" && (left || ran("first") && ran("second"));
            self.ran.push(sql.clone());
            Ok(differs.then(|| format!("after {} steps", self.ran.len())))
        }
    }

    fn steps(names: &[&str]) -> Vec<Step> {
        names
            .iter()
            .map(|&name| Step::query("test", name))
            .collect()
    }

    #[test]
    fn only_what_the_difference_needs_is_left() {
        let mut names = vec!["noise"; 300];
        names[40] = "first";
        names[170] = "second";
        names[250] = "bad";
        names.extend(["noise"; 20]);
        let mut servers = Fake {
            steady: true,
            ..Fake::default()
        };
        let (left, seen) = minimise(&mut servers, &steps(&names), TRIALS_MAX)
            .expect("no I/O")
            .expect("it shows");
        assert_eq!(left, steps(&["first", "second", "bad"]));
        assert_eq!(seen, "after 3 steps");
        assert!(servers.trials < 120, "{} replays", servers.trials);
    }

    #[test]
    fn what_does_not_come_again_is_no_script() {
        let mut servers = Fake::default();
        assert_eq!(
            minimise(&mut servers, &steps(&["first", "second", "bad"]), 10).expect("no I/O"),
            None
        );
        assert_eq!(servers.trials, 1);
    }

    #[test]
    fn what_an_earlier_episode_left_behind_is_found() {
        let episode = |names: &[&str]| {
            let mut steps = steps(names);
            steps[0].fresh = Some(1);
            steps
        };
        let past = [
            episode(&["noise", "noise"]),
            episode(&["noise", "left", "noise"]),
        ]
        .concat();
        let last = episode(&["noise", "noise", "bad"]);
        let mut servers = Fake {
            steady: true,
            ..Fake::default()
        };
        assert_eq!(
            minimise_after(&mut servers, &[], &last, TRIALS_MAX).expect("no I/O"),
            None
        );
        let (left, _) = minimise_after(&mut servers, &past, &last, TRIALS_MAX)
            .expect("no I/O")
            .expect("it shows");
        let names: Vec<_> = left
            .iter()
            .map(|step| crate::step::shown(&step.what))
            .collect();
        assert!(names.contains(&"left;".to_owned()) && names.last() == Some(&"bad;".to_owned()));
        // The step that begins the last episode must stay.
        assert_eq!(left.len(), 3, "{names:?}");
    }

    #[test]
    fn replays_are_bounded() {
        let mut names = vec!["noise"; 1000];
        names[0] = "first";
        names[500] = "second";
        names.push("bad");
        let mut servers = Fake {
            steady: true,
            ..Fake::default()
        };
        let (left, _) = minimise(&mut servers, &steps(&names), 5)
            .expect("no I/O")
            .expect("it shows");
        assert!(left.len() > 3 && servers.trials <= 7);
    }
}
