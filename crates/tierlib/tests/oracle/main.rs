//! C1 to C20 at once: random calls of the C library under the preloaded library, against a plain model in memory.
//!
//! `oracle` starts this test program again with the library preloaded; there `worker` makes the calls.
//! UPSHIFT_ORACLE_OPERATIONS (default 200000), UPSHIFT_ORACLE_SEED (default: one fixed seed, then a fresh one).
//! On a failure, the thread that fails alone is sought, and the fewest of its steps that still fail.

mod actor;
#[path = "../common/mod.rs"]
mod common;
mod rare;
mod shrink;

use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use actor::Actor;
use common::{counter, preloaded};
use shrink::shrink;

workers!(worker);

const THREADS: u64 = 4;
/// How long a failure may be made smaller.
const SHRINK: Duration = Duration::from_secs(120);

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().expect("a number"))
}

fn steps() -> u64 {
    number("UPSHIFT_ORACLE_OPERATIONS").unwrap_or(200_000) / THREADS
}

#[test]
fn oracle() {
    let fresh = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .expect("a clock after 1970")
        .as_nanos() as u64;
    let seeds = number("UPSHIFT_ORACLE_SEED").map_or(vec![1, fresh], |seed| vec![seed]);
    for seed in seeds {
        println!("seed {seed}");
        let text = run(seed, None).unwrap_or_else(|text| panic!("{}{text}", smaller(seed)));
        let hits = counter(&text, "hits");
        assert!(hits > 1000, "seed {seed}: only {hits} hits: {text}");
        println!("seed {seed}: {hits} hits");
    }
}

/// The worker, with all threads or with some steps of one; what it printed, as an error if it failed.
fn run(seed: u64, only: Option<(u64, &[u64])>) -> Result<String, String> {
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = preloaded("worker", &folder);
    command.env("UPSHIFT_ORACLE_SEED", seed.to_string());
    if let Some((thread, steps)) = only {
        let file = folder.path().join("steps");
        let lines: Vec<String> = steps.iter().map(u64::to_string).collect();
        std::fs::write(&file, lines.join("\n")).expect("a file for the steps");
        command.env("UPSHIFT_ORACLE_THREAD", thread.to_string());
        command.env("UPSHIFT_ORACLE_STEPS", file);
    }
    let done = command.output().expect("the test program runs");
    let text = String::from_utf8_lossy(&done.stderr) + String::from_utf8_lossy(&done.stdout);
    if done.status.success() {
        Ok(text.into_owned())
    } else {
        Err(text.into_owned())
    }
}

/// The failure of this seed in fewer steps, as text.
fn smaller(seed: u64) -> String {
    let all: Vec<u64> = (0..steps()).collect();
    let end = Instant::now() + SHRINK;
    for thread in 0..THREADS {
        let fails =
            |steps: &[u64]| Instant::now() < end && run(seed, Some((thread, steps))).is_err();
        if fails(&all) {
            let few = shrink(all, fails);
            return format!("seed {seed}: thread {thread} fails alone with its steps {few:?}\n");
        }
    }
    format!("seed {seed}: fails only with all threads\n")
}

fn worker() {
    let seed = number("UPSHIFT_ORACLE_SEED").expect("a seed");
    let only = number("UPSHIFT_ORACLE_THREAD");
    let steps: Vec<u64> = match std::env::var_os("UPSHIFT_ORACLE_STEPS") {
        None => (0..steps()).collect(),
        Some(file) => {
            let text = std::fs::read_to_string(Path::new(&file)).expect("the steps");
            text.lines()
                .map(|line| line.parse().expect("a number"))
                .collect()
        }
    };
    std::thread::scope(|scope| {
        let chosen = (0..THREADS).filter(|thread| only.is_none_or(|only| only == *thread));
        for thread in chosen {
            let steps = &steps;
            scope.spawn(move || {
                let mut actor = Actor::new(seed.wrapping_mul(THREADS).wrapping_add(thread), thread);
                steps.iter().for_each(|step| actor.step(*step));
                actor.check_all();
            });
        }
    });
}
