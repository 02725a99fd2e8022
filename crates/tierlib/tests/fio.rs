//! C4, C7, C8 and C20 by another's judgement: fio writes a file that a rule names and verifies what it reads back.

mod common;

use std::process::Command;

#[test]
#[ignore = "needs servers: run by ./upshift test"]
fn fio_verifies_its_file() {
    // With userspace_reap, fio looks for completions in the ring before it asks for them.
    for (engine, option) in [
        ("psync", ""),
        ("pvsync", ""),
        ("libaio", "--userspace_reap=0"),
        ("libaio", "--userspace_reap=1"),
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        let folder = folder.path();
        let done = Command::new("fio")
            .args([
                "--name=v",
                "--size=16M",
                "--bs=16k",
                "--rw=randwrite",
                "--verify=crc32c",
                "--verify_state_save=0",
                // Verified while the file is open: one that is closed right after a write starts without pages.
                "--verify_backlog=64",
                "--direct=1",
            ])
            .args(["--thread", "--iodepth=8", "--verify_fatal=1"])
            .arg(format!("--ioengine={engine}"))
            .args((!option.is_empty()).then_some(option))
            .arg(format!("--filename={}", folder.join("v.ibd").display()))
            .env("LD_PRELOAD", common::library())
            .env("UPSHIFT_TIER_SIZE", "64M")
            .env("UPSHIFT_TIER_STATUS", folder.join("status"))
            .output()
            .expect("fio is installed");
        let text = String::from_utf8_lossy(&done.stdout) + String::from_utf8_lossy(&done.stderr);
        assert!(
            done.status.success() && text.contains("err= 0"),
            "{engine}: {text}"
        );
        let page =
            tiercache::StatusPage::attach(&folder.join("status")).expect("the tier's status page");
        let counted = page.snapshot();
        let (hits, fills) = (
            counted.counter(tiercache::Counter::Hits),
            counted.counter(tiercache::Counter::Fills),
        );
        println!("{engine} {option}: {hits} hits, {fills} fills");
        assert!(
            hits > 0 && fills > 0,
            "{engine} {option}: {hits} hits, {fills} fills"
        );
    }
}
