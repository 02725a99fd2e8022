//! What it costs to take a table's pages out of a large tier:
//! `cargo run --release -p tiercache --example drop_table [SIZE_GIB] [TABLES]` (default 1024 GiB of 16 KiB pages, 100,000
//! tables of equal size; the index alone, 2 GiB of memory). Then larger tables, of which the tier holds every tenth page.

use std::time::Instant;

use tiercache::index::{Index, Reserved, key};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut words = std::env::args().skip(1);
    let mut number = |default: u64| words.next().map_or(Ok(default), |word| word.parse());
    let (size_gib, tables) = (number(1024)?, number(100_000)?);
    let slots = u32::try_from(size_gib << 30 >> 14)?;
    let index = Index::new(slots, slots, None)?;
    let pages = u64::from(slots) / tables;
    let started = Instant::now();
    for page in 0..pages {
        (0..tables as u32).for_each(|table| insert(&index, table, page));
    }
    println!(
        "{} pages of {tables} tables in {:.1?}",
        index.used(),
        started.elapsed()
    );
    println!(
        "{:>8} {:>8} {:>8} {:>10}",
        "table", "pages", "looked at", "us"
    );
    let mut worst = 0.0f64;
    for table in (0..tables as u32).step_by((tables as usize / 100).max(1)) {
        let (held, looked) = (index.pages_of(table), index.visited());
        let (mut gone, started) = (0u64, Instant::now());
        index.remove_row(table, 0, u64::MAX, |_| gone += 1);
        let us = started.elapsed().as_nanos() as f64 / 1000.0;
        worst = worst.max(us);
        if gone != held || index.pages_of(table) != 0 {
            return Err(format!("{gone} of {held} pages").into());
        }
        if table % (tables as u32 / 5).max(1) == 0 {
            let looked = index.visited() - looked;
            println!("{table:>8} {held:>8} {looked:>8} {us:>10.1}");
        }
    }
    println!("slowest of 100: {worst:.1} us");
    println!(
        "{:>12} {:>8} {:>10} {:>10}",
        "pages", "held", "looked at", "us"
    );
    for shift in [14, 12, 10, 8, 7, 6, 5, 4, 3] {
        let (row, pages) = (tables as u32 + shift, u64::from(slots >> shift));
        (0..pages)
            .step_by(10)
            .for_each(|page| insert(&index, row, page));
        let (held, looked, started) = (index.pages_of(row), index.visited(), Instant::now());
        index.remove_row(row, 0, u64::MAX, |_| ());
        let us = started.elapsed().as_nanos() as f64 / 1000.0;
        let looked = index.visited() - looked;
        println!("{pages:>12} {held:>8} {looked:>10} {us:>10.1}");
    }
    Ok(())
}

fn insert(index: &Index, table: u32, page: u64) {
    let name = key::name(table, page).expect("a page of a table of this size");
    let (mut shard, slots) = index.lock(key::hash(name));
    if let Reserved::Slot(slot, _) = shard.reserve(slots, name, 0, 0) {
        shard.publish(slots, slot);
    }
}
