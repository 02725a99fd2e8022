//! Data files that are older than the tier's file, and a tier's file that belongs to another server.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use testserver::{Kind, Server};

use crate::bank::Bank;
use crate::tiered::{Tiered, wait_for_hits};

const LOAD: Duration = Duration::from_millis(700);

/// The files keep their inodes and sizes, and get the copy's times of modification: only their contents and times of change differ.
#[test]
#[ignore = "needs servers: run by ./upshift test"]
fn older_data_files_are_not_served_with_newer_pages_after_a_clean_stop() {
    rolled_back(Server::stop, "warm: ");
}

/// What the disk has after a power cut, with a tier's file that lost nothing.
#[test]
#[ignore = "needs servers: run by ./upshift test"]
fn data_files_rolled_back_by_a_power_cut_are_not_served_with_newer_pages() {
    rolled_back(Server::kill, "cold: the last stop was not clean");
}

#[test]
#[ignore = "needs servers: run by ./upshift test"]
fn the_second_server_on_a_tier_file_says_so_and_serves_its_own_data() {
    let mut first = Tiered::new(Kind::MariaDb);
    let first_bank = Bank::open(&first.server);
    first.server.stop();
    first.start();
    let mut second = Tiered::new(Kind::MariaDb);
    let second_bank = Bank::open(&second.server);
    second.server.stop();
    second.medium.clone_from(&first.medium);
    second.start();
    let log = second.server.log();
    assert!(
        log.contains("is used by another server") && log.contains("the server runs without a tier"),
        "{log}"
    );
    for (bank, tiered) in [(&first_bank, &mut first), (&second_bank, &mut second)] {
        bank.load(&mut tiered.server, 1, |_| std::thread::sleep(LOAD));
    }
    first_bank.audit(&first.server);
    second_bank.audit(&second.server);
    assert!(first.counter("hits") > 0, "{}", first.stat());
}

/// Copy the data of a stopped server, load it under the tier, `end` it, and put the copy back over its files. The tier begins as
/// expected and serves none of the pages that it kept.
fn rolled_back(end: fn(&mut Server), expected: &str) {
    let mut tiered = Tiered::new(Kind::MariaDb);
    let bank = Bank::open(&tiered.server);
    tiered.server.stop();
    let (data, older) = (tiered.server.data(), tiered.server.folder().join("older"));
    std::fs::create_dir(&older).expect("a folder");
    copy(&data, &older);
    let mark = bank.mark();
    tiered.start();
    bank.audit(&tiered.server);
    let status = tiered.status();
    bank.load(&mut tiered.server, 1, |server| {
        wait_for_hits(&status);
        end(server);
    });
    assert!(bank.committed() > 0);
    copy(&older, &data);
    bank.rewind(mark);
    tiered.start();
    let began = tiered.began();
    assert!(began.starts_with(expected), "{began}, expected {expected}");
    bank.audit(&tiered.server);
    assert_eq!(bank.committed(), 0, "transfers of after the copy");
    assert_eq!(tiered.counter("warm_verified"), 0, "{}", tiered.stat());
    tiered.server.stop();
    tiered.check_files();
}

/// Contents and times, into the files that are there.
fn copy(from: &Path, to: &Path) {
    let done = Command::new("cp")
        .arg("-a")
        .arg(from.join("."))
        .arg(to)
        .status()
        .expect("cp");
    assert!(done.success());
}
