//! A tier's file that there is no room for, and one of another version, size, page size, host, or that is none.

use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

use testserver::Kind;
use xxhash_rust::xxh3::xxh3_64;

use crate::bank::Bank;
use crate::common::text;
use crate::tiered::Tiered;

const LOAD: Duration = Duration::from_millis(500);
/// Words of the superblock: the last one is the hash of those before it.
const VERSION: usize = 1;
const HOST: usize = 5;
const HASH: usize = 9;

/// The kernel lets no file of the server's grow beyond what its data needs: it refuses the tier's file as a full disk does.
#[test]
#[ignore = "needs servers: run by ./upshift test"]
fn a_server_whose_tier_gets_no_room_runs_without_and_says_so() {
    let (mut tiered, bank) = stopped();
    tiered.through = no_file_beyond_mib(256);
    tiered.size = "400M".into();
    tiered.start();
    assert_runs_without(&tiered, "has no room");
    loaded(&mut tiered, &bank);
}

#[test]
#[ignore = "needs servers: run by ./upshift test"]
fn a_tier_that_gets_no_room_to_grow_says_so_and_goes_on_as_it_was() {
    let (mut tiered, bank) = stopped();
    tiered.through = no_file_beyond_mib(256);
    tiered.start();
    bank.audit(&tiered.server);
    let before = tiered.stat();
    let mut connection = tiered.server.connect("bank").expect("a login");
    let asked = tiered.ask_while(&["resize", "400M"], || {
        testserver::run(
            &mut *connection,
            "SELECT SUM(balance) FROM account USE INDEX ()",
        );
    });
    let now = tiered.stat();
    assert_eq!(asked.status.code(), Some(1), "{}", text(&asked));
    assert!(text(&asked).contains("hint: "), "{}", text(&asked));
    assert_eq!(now["size_bytes"], before["size_bytes"], "{now}");
    let hits = tiered.counter("hits");
    loaded(&mut tiered, &bank);
    assert!(tiered.counter("hits") > hits, "{}", tiered.stat());
}

#[test]
#[ignore = "needs servers: run by ./upshift test"]
fn a_tier_file_of_another_kind_starts_cold_or_is_refused_and_is_said() {
    let (mut tiered, bank) = stopped();
    tiered.start();
    bank.audit(&tiered.server);
    tiered.server.stop();

    set_word(tiered.file(), VERSION, true);
    begins(&mut tiered, &bank, "cold: another version");
    set_word(tiered.file(), HOST, true);
    begins(&mut tiered, &bank, "cold: another host");
    set_word(tiered.file(), HOST, false);
    begins(&mut tiered, &bank, "cold: the superblock is damaged");
    tiered.size = "64M".into();
    // Untouched, it is taken back, as large as it now may be.
    begins(&mut tiered, &bank, "warm: ");

    std::fs::write(tiered.file(), vec![b'x'; 1 << 20]).expect("a file");
    tiered.start();
    assert_runs_without(&tiered, "holds something else");
    loaded(&mut tiered, &bank);
    let there = std::fs::read(tiered.file()).expect("the file");
    assert!(
        there == vec![b'x'; 1 << 20],
        "the file is not the tier's to write"
    );
}

/// A server with a bank, which does not run.
fn stopped() -> (Tiered, Bank) {
    let mut tiered = Tiered::new(Kind::MariaDb);
    let bank = Bank::open(&tiered.server);
    tiered.server.stop();
    (tiered, bank)
}

/// Starts the server, whose tier begins as expected; loads, audits and stops it.
fn begins(tiered: &mut Tiered, bank: &Bank, expected: &str) {
    tiered.start();
    let began = tiered.began();
    assert!(began.starts_with(expected), "{began}, expected {expected}");
    loaded(tiered, bank);
    assert!(tiered.counter("hits") > 0, "{}", tiered.stat());
    tiered.server.stop();
}

fn loaded(tiered: &mut Tiered, bank: &Bank) {
    bank.load(&mut tiered.server, 1, |_| std::thread::sleep(LOAD));
    bank.audit(&tiered.server);
}

fn assert_runs_without(tiered: &Tiered, why: &str) {
    let log = tiered.server.log();
    assert!(
        log.contains(why) && log.contains("the server runs without a tier"),
        "{log}"
    );
}

/// A limit of the kernel's on the size of files that a program writes. The signal that comes with it is not what a full disk sends.
fn no_file_beyond_mib(mib: u32) -> Vec<String> {
    // POSIX counts the limit in units of 512 bytes.
    let script = format!("trap '' XFSZ; ulimit -f {}; exec \"$@\"", mib * 2048);
    ["sh", "-c", &script, "sh"].map(str::to_owned).to_vec()
}

/// Changes a word of the superblock; `whole`: as a tier that means it would have written it.
fn set_word(file: &Path, at: usize, whole: bool) {
    let file = std::fs::File::options()
        .read(true)
        .write(true)
        .open(file)
        .expect("the tier's file");
    let mut block = [0; (HASH + 1) * 8];
    file.read_exact_at(&mut block, 0).expect("a superblock");
    let hash = |block: &[u8]| xxh3_64(&block[..HASH * 8]).to_le_bytes();
    assert_eq!(
        hash(&block),
        block[HASH * 8..],
        "the superblock is laid out otherwise"
    );
    block[at * 8] ^= 0x40;
    if whole {
        let new = hash(&block);
        block[HASH * 8..].copy_from_slice(&new);
    }
    file.write_all_at(&block, 0).expect("written");
}
