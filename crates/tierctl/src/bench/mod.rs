//! `bench`: random reads of each size with fio, from the disk alone and with the tier (the table of iQIYI's publication).

mod fio;
mod plot;
mod table;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use serde::Serialize;
use serde_json::json;
use signal_hook::consts::{SIGINT, SIGTERM};
use tiercache::config::{MediumChoice, Mode, parse_size_bytes};

use crate::failure::Failure;
use crate::user::User;
use crate::{output, preflight, run};

use fio::{Data, Folder, Measured};

/// Where the row through the kernel's own memory file system has its file.
const TMPFS: &str = "/dev/shm";
/// A row of the tier with fewer hits than this share is not one of warm data.
const HIT_RATIO_MIN: f64 = 0.99;

/// What to measure.
#[derive(clap::Args)]
pub struct Options {
    /// The server's data directory, or an empty folder on its disk. Test files are made in it, and removed.
    #[arg(long)]
    dir: PathBuf,
    /// Sizes of a read, separated by commas.
    #[arg(
        long,
        default_value = "4K,8K,16K,32K,64K,128K,256K,512K,1M",
        value_delimiter = ','
    )]
    sizes: Vec<String>,
    /// Media, separated by commas.
    #[arg(long, default_value = "memory", value_delimiter = ',')]
    medium: Vec<String>,
    /// write-through, write-around, write-invalidate or pass-through.
    #[arg(long, default_value = "write-through")]
    mode: String,
    /// Size of each test file; the tier has room for all of it.
    #[arg(long, default_value = "256M")]
    file_size: String,
    /// Seconds to measure each row, after 1 second that is not counted; with the tier, the whole file is read before.
    #[arg(long, default_value_t = 3)]
    seconds: u32,
    /// Also draw IOPS against size, as SVG, into this file.
    #[arg(long, value_name = "PATH")]
    plot: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// One measured row.
#[derive(Serialize, Clone)]
struct Row {
    block_size_bytes: u64,
    /// none (the disk alone), tmpfs (a file in memory, through the kernel), or the tier's medium.
    medium: String,
    /// The tier's mode; none without a tier.
    mode: String,
    cached: bool,
    iops: f64,
    bandwidth_bytes_per_s: f64,
    latency_us_p50: f64,
    latency_us_p99: f64,
    latency_us_mean: f64,
    /// random, or half (half of each block can be compressed away).
    data: &'static str,
    /// Share of the measured reads that the tier served, by its own counters; None without a tier.
    hit_ratio: Option<f64>,
    /// Bytes of pages held for each byte of the medium that they take; None without a tier.
    capacity_ratio: Option<f64>,
    /// Share of the reading thread's time in the kernel, in percent.
    cpu_system_percent: f64,
}

/// What a row measures.
struct Cell {
    block_bytes: u64,
    /// None: the disk alone or tmpfs.
    tier: Option<run::Tier>,
    medium: String,
    data: Data,
}

/// Files of media that were not there before, removed at the end.
struct Media(Vec<PathBuf>);

impl Media {
    fn of(options: &Options) -> Self {
        let media = options.medium.iter().filter_map(|text| text.parse().ok());
        let paths = media.filter_map(|medium| match medium {
            MediumChoice::File(path) | MediumChoice::Direct(path) => Some(path),
            MediumChoice::Memory | MediumChoice::MemoryLz4 => None,
        });
        Self(paths.filter(|path| !path.exists()).collect())
    }
}

impl Drop for Media {
    fn drop(&mut self) {
        for path in &self.0 {
            // One that no row came to was never made.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Measure, and print the table.
pub fn bench(options: &Options) -> Result<(), Failure> {
    let file_bytes = parse_size_bytes(&options.file_size)?;
    refuse_what_cannot_be_meant(options)?;
    let sizes = sizes(options, file_bytes)?;
    let library = run::library(None)?;
    let interrupted = Arc::new(AtomicBool::new(false));
    // fio gets Ctrl-C too and ends; this program goes on just long enough to take its files away.
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&interrupted))
            .map_err(|error| Failure::failed(format!("signal {signal}: {error}"), ""))?;
    }
    let _media = Media::of(options);
    let disk = Folder::new(&options.dir)?;
    let memory = Folder::new(Path::new(TMPFS))
        .and_then(|folder| folder.fill(Data::Random, file_bytes).map(|()| folder))
        .inspect_err(|error| eprintln!("WARNING: no tmpfs rows: {}", error.message))
        .ok();
    let cells = cells(options, &sizes, file_bytes, memory.is_some(), &disk)?;
    for data in [Data::Random, Data::Half] {
        if cells.iter().any(|cell| cell.data == data) {
            unless(&interrupted, disk.fill(data, file_bytes))?;
        }
    }
    let mut rows = Vec::new();
    let started = Instant::now();
    for (index, cell) in cells.iter().enumerate() {
        progress(index, cells.len(), cell, started);
        let folder = match (&memory, cell.medium.as_str()) {
            (Some(memory), "tmpfs") => memory,
            _ => &disk,
        };
        rows.push(unless(
            &interrupted,
            measure(cell, folder, &library, options),
        )?);
    }
    if let Some(path) = &options.plot {
        let written = std::fs::write(path, plot::svg(&rows));
        written.map_err(|error| {
            Failure::failed(
                format!("{} cannot be written: {error}", path.display()),
                "name a file that this user may write with --plot",
            )
        })?;
    }
    if options.json {
        output::line(
            &json!({"schema_version": 1, "file_size_bytes": file_bytes, "rows": rows}).to_string(),
        )
    } else {
        output::line(&table::text(&rows))
    }
}

/// What was done, unless a signal came meanwhile.
fn unless<T>(interrupted: &AtomicBool, done: Result<T, Failure>) -> Result<T, Failure> {
    if interrupted.load(Ordering::Relaxed) {
        return Err(Failure {
            exit_code: 130,
            ..Failure::failed("the measurement was interrupted", "")
        });
    }
    done
}

fn refuse_what_cannot_be_meant(options: &Options) -> Result<(), Failure> {
    options.mode.parse::<Mode>()?;
    for medium in &options.medium {
        medium.parse::<MediumChoice>()?;
    }
    let shown = options.dir.display();
    let hint = "name the server's data directory, or an empty folder on the disk to measure";
    let mut entries = std::fs::read_dir(&options.dir).map_err(|error| {
        Failure::usage(
            format!("{shown} is not a folder that can be read: {error}"),
            hint,
        )
    })?;
    if entries.next().is_some() && !preflight::is_innodb(&options.dir) {
        return Err(Failure::usage(
            format!("{shown} is not an InnoDB directory, and not empty"),
            hint,
        ));
    }
    Ok(())
}

fn sizes(options: &Options, file_bytes: u64) -> Result<Vec<u64>, Failure> {
    let sizes: Result<Vec<u64>, _> = options
        .sizes
        .iter()
        .map(|each| parse_size_bytes(each))
        .collect();
    let sizes = sizes?;
    // O_DIRECT reads whole sectors; a page of the tier is a power of two.
    if sizes
        .iter()
        .any(|size| *size < 4096 || *size > file_bytes || !size.is_power_of_two())
        || options.seconds == 0
    {
        return Err(Failure::usage(
            "these reads cannot be measured: a size is smaller than 4K, larger than the file, or no power of two, or --seconds is 0",
            "change --sizes, --file-size or --seconds",
        ));
    }
    Ok(sizes)
}

/// The rows to measure, size by size: the disk, tmpfs, each medium; LZ4 with data of both kinds.
fn cells(
    options: &Options,
    sizes: &[u64],
    file_bytes: u64,
    with_tmpfs: bool,
    disk: &Folder,
) -> Result<Vec<Cell>, Failure> {
    let mut cells = Vec::new();
    for block_bytes in sizes.iter().copied() {
        let mut add = |medium: &str, data, tier| {
            cells.push(Cell {
                block_bytes,
                tier,
                medium: medium.into(),
                data,
            });
        };
        add("none", Data::Random, None);
        if with_tmpfs {
            add("tmpfs", Data::Random, None);
        }
        for medium in &options.medium {
            let tier = tier(options, medium, block_bytes, file_bytes, disk);
            preflight::of_medium(
                &run::variables(&tier, std::process::id(), User::own())?.0,
                User::own(),
            )
            .map_err(preflight::Refusal::at_start)?;
            add(medium, Data::Random, Some(tier.clone()));
            if medium == "memory-lz4" {
                add(medium, Data::Half, Some(tier));
            }
        }
    }
    Ok(cells)
}

fn tier(
    options: &Options,
    medium: &str,
    block_bytes: u64,
    file_bytes: u64,
    disk: &Folder,
) -> run::Tier {
    run::Tier {
        size: (file_bytes + file_bytes / 4).to_string(),
        medium: medium.into(),
        mode: options.mode.clone(),
        // Never larger than the read: parts of pages do not come in.
        page_size: block_bytes.clamp(4 << 10, 16 << 10).to_string(),
        promotion: "always".into(),
        cutoff: "0".into(),
        read_ahead: false,
        no_read_ahead: false,
        audit: 0,
        format: false,
        rules: vec![format!("cache=*.{}", fio::SUFFIX)],
        status: Some(disk.status()),
    }
}

fn progress(index: usize, count: usize, cell: &Cell, started: Instant) {
    let left = match index {
        0 => String::new(),
        done => {
            let seconds = started.elapsed().as_secs() as usize * (count - done) / done;
            format!(", {}:{:02} left", seconds / 60, seconds % 60)
        }
    };
    let name = if cell.medium == "none" {
        "disk alone"
    } else {
        &cell.medium
    };
    eprintln!(
        "[{}/{count}] {} KiB, {name}, {}{left}",
        index + 1,
        cell.block_bytes >> 10,
        cell.data.name()
    );
}

fn measure(
    cell: &Cell,
    folder: &Folder,
    library: &Path,
    options: &Options,
) -> Result<Row, Failure> {
    let environment = match &cell.tier {
        Some(tier) => Some((
            library,
            run::variables(tier, std::process::id(), User::own())?.1,
        )),
        None => None,
    };
    let direct = cell.medium != "tmpfs";
    let said = folder.read(
        cell.data,
        cell.block_bytes,
        options.seconds,
        direct,
        environment,
    )?;
    let mode: Mode = options.mode.parse()?;
    let refused = said
        .hit_ratio
        .filter(|ratio| *ratio < HIT_RATIO_MIN && mode != Mode::PassThrough);
    if let Some(ratio) = refused {
        return Err(Failure::failed(
            format!(
                "only {:.1} % of the reads of {} bytes were hits in {}: that is no measurement of warm data",
                ratio * 100.0,
                cell.block_bytes,
                cell.medium
            ),
            "choose a smaller --file-size",
        ));
    }
    Ok(row(cell, &said, mode))
}

fn row(cell: &Cell, said: &Measured, mode: Mode) -> Row {
    let cached = cell.tier.is_some();
    Row {
        block_size_bytes: cell.block_bytes,
        medium: cell.medium.clone(),
        mode: if cached { mode.as_str() } else { "none" }.to_owned(),
        cached,
        iops: said.iops,
        bandwidth_bytes_per_s: said.bandwidth_bytes_per_s,
        latency_us_p50: said.latency_us_p50,
        latency_us_p99: said.latency_us_p99,
        latency_us_mean: said.latency_us_mean,
        data: cell.data.name(),
        hit_ratio: said.hit_ratio,
        capacity_ratio: said.capacity_ratio,
        cpu_system_percent: said.cpu_system_percent,
    }
}
