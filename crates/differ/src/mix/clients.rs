//! The mix, once for each kind of client.

use std::io;
use std::sync::atomic::AtomicU64;
use std::time::Instant;

use crate::lockstep::{Pair, Place};
use crate::minimise::TRIALS_MAX;
use crate::random::{CLIENTS, begun, run_steps};
use crate::report::Report;
use crate::step::Step;

/// How often the statements of a client begin anew after a difference that does not come again: those behind it were not compared.
const ATTEMPTS: usize = 3;

/// Run all of it.
///
/// # Errors
/// A server that cannot be reached, and statements that never ran to their end.
pub fn run(place: &Place) -> io::Result<Report> {
    let begin = Instant::now();
    let mut all = Report::new("mix", 0);
    let steps = super::steps();
    let mut past = Vec::new();
    for (number, wanted) in (0..).zip(CLIENTS) {
        let place = Place {
            wanted,
            ..place.clone()
        };
        match client(&place, &past, &steps, number, &mut all) {
            // What was found before a server was gone says why it is.
            Err(_) if all.counted() > 0 => break,
            other => other?,
        }
        past.extend(begun(steps.clone(), wanted));
    }
    all.wall_s = begin.elapsed().as_secs_f64();
    Ok(all)
}

fn client(
    place: &Place,
    past: &[Step],
    steps: &[Step],
    number: u64,
    all: &mut Report,
) -> io::Result<()> {
    let due: usize = steps.iter().map(|step| step.requests().count()).sum();
    for _ in 0..ATTEMPTS {
        let mut pair = Pair::new(place.clone());
        let none = AtomicU64::new(0);
        let found = run_steps(&mut pair, place, past, steps, number, TRIALS_MAX, &none)?;
        let is_done = found.statements == due as u64 || found.counted() > 0;
        all.add(found);
        if is_done {
            return Ok(());
        }
    }
    let last = all.differences.last();
    Err(io::Error::other(format!(
        "client {number}: the statements ended early {ATTEMPTS} times, and what follows was not compared; the last time: {}",
        last.map_or("", |each| &each.what)
    )))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;
    use crate::fake::{Fakes, Says};

    /// A patched server that refuses a statement so many times.
    fn refused(times: u64) -> io::Result<Report> {
        let asked = AtomicU64::new(0);
        let patched = move |sql: &str| {
            let is_refused =
                sql.contains("nothing FROM wide") && asked.fetch_add(1, Ordering::Relaxed) < times;
            if is_refused {
                Says::Error(1)
            } else {
                Says::Fine
            }
        };
        run(&Fakes::new(|_| Says::Fine, patched).place)
    }

    #[test]
    fn what_follows_a_difference_that_does_not_come_again_is_compared_too() {
        let whole = refused(0).expect("two servers");
        assert_eq!(whole.differences.len(), 0, "{:?}", whole.differences);
        let again = refused(1).expect("two servers");
        assert_eq!(again.differences.len(), 1, "{:?}", again.differences);
        assert_eq!(again.counted(), 0);
        assert!(again.statements > whole.statements);
    }
}
