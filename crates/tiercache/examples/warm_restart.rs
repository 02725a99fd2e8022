//! How long a file medium takes to be taken back after a clean stop:
//! `cargo run --release -p tiercache --example warm_restart FOLDER [BYTES]` (default 4 GiB of 16 KiB pages).

use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use tiercache::{Config, Identity, Lookup, MediumChoice, Tier};

const PAGE: usize = 16 << 10;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder: PathBuf = std::env::args()
        .nth(1)
        .ok_or("name a folder for the files")?
        .into();
    let size_bytes: u64 = std::env::args()
        .nth(2)
        .map_or(Ok(4 << 30), |text| text.parse())?;
    let (cache, path) = (
        folder.join("warm_restart.cache"),
        folder.join("warm_restart.ibd"),
    );
    let config = Config {
        size_bytes,
        page_size_bytes: PAGE,
        medium: MediumChoice::File(cache.clone()),
        sequential_cutoff_bytes: 0,
        ..Config::default()
    };
    let data = File::create(&path)?;
    data.set_len(size_bytes)?;
    std::thread::sleep(Duration::from_millis(50));
    let name = path.clone().into_os_string().into_encoded_bytes();
    let pages = size_bytes / PAGE as u64;
    let mut page = vec![0; PAGE];
    for round in ["filled", "taken back"] {
        let started = Instant::now();
        let tier = Tier::open(config.clone())?;
        let opened = started.elapsed();
        let file = tier
            .file(&name, Identity::of(data.as_raw_fd())?)
            .ok_or("a rule leaves the file alone")?;
        let (mut hits, started) = (0u64, Instant::now());
        for number in 0..pages {
            match tier.read(file, number * PAGE as u64, &mut page) {
                Lookup::Hit => hits += 1,
                Lookup::Miss(token) => tier.fill(token, &vec![0; PAGE]),
                Lookup::Bypass(_) => (),
            }
        }
        let read = started.elapsed();
        let started = Instant::now();
        tier.stop();
        println!(
            "{round}: {}; opened in {opened:.2?}, {hits} of {pages} read from it in {read:.2?}, stopped in {:.2?}",
            tier.status().snapshot().start,
            started.elapsed()
        );
    }
    std::fs::remove_file(cache)?;
    std::fs::remove_file(path)?;
    Ok(())
}
