//! `bench`: random reads of each size with fio, from the disk alone and with the tier (the table of iQIYI's publication).

use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Serialize;
use serde_json::{Value, json};
use tiercache::config::{MediumChoice, Mode, parse_size_bytes};

use crate::failure::Failure;
use crate::run;

/// What to measure.
#[derive(clap::Args)]
pub struct Options {
    /// A folder on the disk to measure; the test file is made in it and removed.
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
    /// Bytes of the test file; the tier has room for all of it.
    #[arg(long, default_value = "256M")]
    file_size: String,
    /// Seconds that each row is measured, after a warm-up of 1 (disk) or at least 10 seconds (tier).
    #[arg(long, default_value_t = 3)]
    seconds: u32,
    /// As JSON.
    #[arg(long)]
    json: bool,
}

/// One measured row.
#[derive(Serialize)]
struct Row {
    block_size_bytes: u64,
    medium: String,
    mode: String,
    cached: bool,
    iops: f64,
    bandwidth_bytes_per_s: f64,
    latency_us_p50: f64,
    latency_us_p99: f64,
    latency_us_mean: f64,
}

/// Measure, and print the table.
pub fn bench(options: &Options) -> Result<(), Failure> {
    let usage = |error: tiercache::ConfigError| Failure::usage(error.to_string(), "");
    let mode: Mode = options.mode.parse().map_err(usage)?;
    let file_bytes = parse_size_bytes(&options.file_size).map_err(usage)?;
    let sizes = options
        .sizes
        .iter()
        .map(|each| parse_size_bytes(each))
        .collect::<Result<Vec<_>, _>>()
        .map_err(usage)?;
    if sizes.iter().any(|size| *size == 0 || *size > file_bytes) || options.seconds == 0 {
        return Err(Failure::usage(
            "a size of 0, no time, or a read larger than the file",
            "see --sizes, --seconds and --file-size",
        ));
    }
    for medium in &options.medium {
        medium.parse::<MediumChoice>().map_err(usage)?;
    }
    if !options.dir.is_dir() {
        return Err(Failure::usage(
            format!("{} is not a folder", options.dir.display()),
            "name one on the disk to measure",
        ));
    }
    let library = run::library()?;
    let file = TestFile::new(&options.dir, file_bytes)?;
    let mut rows = Vec::new();
    for size in sizes {
        // A page of the tier is never larger than the read: partial pages would not come in.
        let page_bytes = size.clamp(4 << 10, 16 << 10);
        let mut add =
            |medium: &str, tier: Option<Vec<(&'static str, String)>>| -> Result<(), Failure> {
                eprintln!(
                    "{} KiB, {}",
                    size >> 10,
                    if tier.is_some() { medium } else { "disk" }
                );
                let cached = tier.is_some();
                let said = fio(
                    &file.path,
                    size,
                    options.seconds,
                    tier.map(|tier| (library.as_path(), tier)),
                )?;
                rows.push(row(&said, size, medium, mode, cached)?);
                Ok(())
            };
        add("none", None)?;
        for medium in &options.medium {
            let tier = run::Tier {
                size: (file_bytes + file_bytes / 8).to_string(),
                medium: medium.clone(),
                mode: options.mode.clone(),
                page_size: page_bytes.to_string(),
                promotion: "always".into(),
                cutoff: "0".into(),
                rules: vec!["cache=*.tierbench".into()],
                status: Some(file.path.with_extension("status")),
            };
            add(medium, Some(run::variables(&tier, std::process::id())?.1))?;
        }
    }
    if options.json {
        println!("{}", json!({"schema_version": 1, "rows": rows}));
    } else {
        print_table(&rows);
    }
    Ok(())
}

/// The file that is read, removed at the end.
struct TestFile {
    path: PathBuf,
}

impl TestFile {
    fn new(folder: &Path, bytes: u64) -> Result<Self, Failure> {
        let path = folder.join(format!("upshift-{}.tierbench", std::process::id()));
        let file = Self { path };
        let done = Command::new("fio")
            .args([
                "--name=fill",
                "--rw=write",
                "--bs=1M",
                "--ioengine=psync",
                "--end_fsync=1",
                "--thread",
            ])
            .arg(format!("--size={bytes}"))
            .arg(format!("--filename={}", file.path.display()))
            .output()
            .map_err(no_fio)?;
        if done.status.success() {
            return Ok(file);
        }
        let said = String::from_utf8_lossy(&done.stderr).trim().to_owned();
        Err(Failure::failed(
            format!("fio could not write {}: {said}", file.path.display()),
            "is there room, and a right to write?",
        ))
    }
}

impl Drop for TestFile {
    fn drop(&mut self) {
        for path in [&self.path, &self.path.with_extension("status")] {
            // What was never made need not go.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// One run of fio: O_DIRECT, one read at a time, in a thread (a forked job would not share the tier); its JSON.
fn fio(
    file: &Path,
    block_bytes: u64,
    seconds: u32,
    tier: Option<(&Path, Vec<(&'static str, String)>)>,
) -> Result<Value, Failure> {
    let mut command = Command::new("fio");
    command
        .args([
            "--name=read",
            "--rw=randread",
            "--direct=1",
            "--ioengine=psync",
            "--iodepth=1",
            "--thread",
        ])
        .args([
            "--time_based",
            "--norandommap",
            "--randrepeat=0",
            "--output-format=json",
        ])
        .arg(format!("--bs={block_bytes}"))
        .arg(format!("--runtime={seconds}"))
        .arg(format!(
            "--ramp_time={}",
            warm_up_seconds(seconds, tier.is_some())
        ))
        .arg(format!("--filename={}", file.display()));
    if let Some((library, variables)) = tier {
        command.env("LD_PRELOAD", library).envs(variables);
    }
    let done = command.output().map_err(no_fio)?;
    let text = String::from_utf8_lossy(&done.stdout);
    let json = text
        .find('{')
        .and_then(|start| serde_json::from_str(&text[start..]).ok());
    match json {
        Some(json) if done.status.success() => Ok(json),
        _ => Err(Failure::failed(
            format!(
                "fio failed: {}",
                String::from_utf8_lossy(&done.stderr).trim()
            ),
            "",
        )),
    }
}

/// With the tier the data must become warm first.
fn warm_up_seconds(seconds: u32, cached: bool) -> u32 {
    if cached { seconds.max(10) } else { 1 }
}

fn no_fio(error: std::io::Error) -> Failure {
    Failure::failed(format!("fio does not start: {error}"), "install fio")
}

fn row(
    said: &Value,
    block_size_bytes: u64,
    medium: &str,
    mode: Mode,
    cached: bool,
) -> Result<Row, Failure> {
    let read = &said["jobs"][0]["read"];
    let figure = |value: &Value| {
        value
            .as_f64()
            .ok_or_else(|| Failure::failed("fio's JSON lacks a figure", "fio 3 is needed"))
    };
    let clat = &read["clat_ns"];
    Ok(Row {
        block_size_bytes,
        medium: medium.to_owned(),
        mode: mode.as_str().to_owned(),
        cached,
        iops: figure(&read["iops"])?,
        bandwidth_bytes_per_s: figure(&read["bw_bytes"])?,
        latency_us_p50: figure(&clat["percentile"]["50.000000"])? / 1000.0,
        latency_us_p99: figure(&clat["percentile"]["99.000000"])? / 1000.0,
        latency_us_mean: figure(&clat["mean"])? / 1000.0,
    })
}

fn print_table(rows: &[Row]) {
    println!(
        "{:>8}  {:<14} {:>10} {:>9} {:>9} {:>9} {:>9} {:>8}",
        "size", "medium", "IOPS", "MB/s", "p50 us", "p99 us", "mean us", "x disk"
    );
    let mut disk_iops = 0.0;
    for row in rows {
        if !row.cached {
            disk_iops = row.iops;
        }
        println!(
            "{:>7}K  {:<14} {:>10.0} {:>9.0} {:>9.2} {:>9.2} {:>9.2} {:>8.1}",
            row.block_size_bytes >> 10,
            if row.cached {
                &row.medium
            } else {
                "disk alone"
            },
            row.iops,
            row.bandwidth_bytes_per_s / 1e6,
            row.latency_us_p50,
            row.latency_us_p99,
            row.latency_us_mean,
            row.iops / disk_iops,
        );
    }
}
