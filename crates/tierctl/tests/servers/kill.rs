//! SIGKILL at random moments under load, and warm restarts after clean stops.

use std::time::Duration;

use rand::{RngExt, SeedableRng, rngs::SmallRng};
use testserver::{Kind, Server};

use crate::bank::Bank;
use crate::tiered::{Tiered, wait_for_hits};

/// How many rounds instead of `ROUNDS`: even ones kill, odd ones stop.
const VARIABLE: &str = "UPSHIFT_RELIABILITY_ROUNDS";
const ROUNDS: u32 = 5;
/// Loads last between these.
const LOAD_MS: std::ops::Range<u64> = 200..1500;

#[test]
#[ignore = "needs servers: run by ./upshift test"]
fn no_commit_is_lost_when_a_loaded_mariadb_is_killed() {
    rounds(Kind::MariaDb);
}

#[test]
#[ignore = "needs a MySQL: UPSHIFT_TEST_MYSQLD names a mysqld 8.0 or newer"]
fn no_commit_is_lost_when_a_loaded_mysql_is_killed() {
    if Server::has_mysql() {
        rounds(Kind::MySql);
    }
}

fn rounds(kind: Kind) {
    let count = std::env::var(VARIABLE).map_or(ROUNDS, |text| text.parse().expect(VARIABLE));
    let seed = rand::random();
    eprintln!("seed {seed}");
    let mut random = SmallRng::seed_from_u64(seed);
    let mut tiered = Tiered::new(kind);
    let bank = Bank::open(&tiered.server);
    tiered.server.stop();
    let mut expected = "cold: a new file";
    for round in 0..count {
        begin(&mut tiered, &bank, expected);
        let load = Duration::from_millis(random.random_range(LOAD_MS));
        let killed = round % 2 == 0;
        let before = bank.committed();
        bank.load(&mut tiered.server, random.random(), |server| {
            std::thread::sleep(load);
            if killed { server.kill() } else { server.stop() }
        });
        let now = bank.committed();
        assert!(now > before, "nothing was committed in {load:?}");
        eprintln!(
            "round {round}: {} after {load:?} and {} commits, {} hits, {} pages verified, {} rejected",
            if killed { "killed" } else { "stopped" },
            now - before,
            tiered.counter("hits"),
            tiered.counter("warm_verified"),
            tiered.counter("warm_rejected"),
        );
        if !killed {
            tiered.check_files();
        }
        expected = if killed {
            "cold: the last stop was not clean"
        } else {
            "warm: "
        };
    }
    begin(&mut tiered, &bank, expected);
    tiered.server.stop();
    tiered.check_files();
}

/// Starts the server, and audits through its tier, which must have begun as expected and serve.
fn begin(tiered: &mut Tiered, bank: &Bank, expected: &str) {
    tiered.start();
    let began = tiered.began();
    assert!(began.starts_with(expected), "{began}, expected {expected}");
    bank.audit(&tiered.server);
    // Once more, from what the first audit brought in.
    bank.audit(&tiered.server);
    wait_for_hits(&tiered.status());
    if expected.starts_with("warm") {
        assert!(tiered.counter("warm_verified") > 0, "{}", tiered.stat());
        assert_eq!(tiered.counter("warm_rejected"), 0, "{}", tiered.stat());
    }
}
