//! fio's part: the test files, one run of reads, and what it says.

use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use tiercache::status::{Counter, Snapshot, StatusPage};

use crate::failure::Failure;
use crate::run::Variables;

/// Ends the names of the test files, for the rule that caches them.
pub const SUFFIX: &str = "tierbench";
/// One read of the pass that makes the data warm.
const WARM_READ_BYTES: u64 = 256 << 10;
/// Where fio puts what the command before the job "read" prints.
const LOOK: &str = "read.prerun.txt";

/// What the test file holds.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Data {
    /// Cannot be compressed.
    Random,
    /// Half of each block can be compressed away.
    Half,
}

impl Data {
    /// The word in the JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Random => "random",
            Self::Half => "half",
        }
    }
}

/// What one run said.
pub struct Measured {
    pub iops: f64,
    pub bandwidth_bytes_per_s: f64,
    pub latency_us_p50: f64,
    pub latency_us_p99: f64,
    pub latency_us_mean: f64,
    pub cpu_system_percent: f64,
    /// By the tier's own counters, from the end of the warming pass on.
    pub hit_ratio: Option<f64>,
    /// Bytes of pages for each byte of the medium.
    pub capacity_ratio: Option<f64>,
}

/// A folder of test files, removed at the end.
pub struct Folder(PathBuf);

impl Folder {
    /// A new folder in this one.
    pub fn new(parent: &Path) -> Result<Self, Failure> {
        let path = parent.join(format!("upshift-bench-{}", std::process::id()));
        let made = std::fs::DirBuilder::new().mode(0o700).create(&path);
        made.map_err(|error| {
            Failure::failed(
                format!("{} cannot be made: {error}", path.display()),
                "see whether the folder's disk has room, and whether this user may write there",
            )
        })?;
        Ok(Self(path))
    }

    fn file(&self, data: Data) -> PathBuf {
        self.0.join(format!("{}.{SUFFIX}", data.name()))
    }

    /// Where the tier under fio has its statistics page.
    pub fn status(&self) -> PathBuf {
        self.0.join("status")
    }

    /// Writes the test file.
    pub fn fill(&self, data: Data, bytes: u64) -> Result<(), Failure> {
        let mut command = Command::new("fio");
        command
            .args(["--name=fill", "--rw=write", "--bs=1M", "--ioengine=psync"])
            .args(["--end_fsync=1", "--thread", "--refill_buffers"])
            .arg(format!("--size={bytes}"))
            .arg(format!("--filename={}", self.file(data).display()));
        if data == Data::Half {
            command.args([
                "--buffer_compress_percentage=50",
                "--buffer_compress_chunk=4k",
            ]);
        }
        let done = command.output().map_err(no_fio)?;
        if done.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&done.stderr).trim().to_owned();
        Err(Failure::failed(
            format!("fio could not write into {}: {said}", self.0.display()),
            "see whether the folder's disk has room, and whether this user may write there",
        ))
    }

    /// Random reads, one at a time, in a thread (a forked job would not share the tier). With a tier the whole file is read once
    /// before, and the tier's counters are looked at between the two.
    pub fn read(
        &self,
        data: Data,
        block_bytes: u64,
        seconds: u32,
        direct: bool,
        tier: Option<(&Path, Variables)>,
    ) -> Result<Measured, Failure> {
        let mut command = Command::new("fio");
        command
            .args([
                "--ioengine=psync",
                "--iodepth=1",
                "--thread",
                "--output-format=json",
            ])
            .arg(format!("--direct={}", u8::from(direct)))
            .arg(format!("--filename={}", self.file(data).display()))
            .current_dir(&self.0);
        if let Some((library, variables)) = &tier {
            let own =
                std::env::current_exe().map_err(|error| Failure::failed(error.to_string(), ""))?;
            let look = format!(
                "'{}' stat --json --status '{}'",
                own.display(),
                self.status().display()
            );
            command
                .args(["--name=warm", "--rw=read"])
                .arg(format!("--bs={WARM_READ_BYTES}"))
                .args(["--name=read", "--stonewall"])
                .arg(format!("--exec_prerun={look}"))
                .env("LD_PRELOAD", library)
                .envs(variables.iter().map(|(name, value)| (name, value)));
        } else {
            command.arg("--name=read");
        }
        command
            .args([
                "--rw=randread",
                "--time_based",
                "--norandommap",
                "--randrepeat=0",
                "--ramp_time=1",
            ])
            .arg(format!("--bs={block_bytes}"))
            .arg(format!("--runtime={seconds}"));
        let done = command.output().map_err(no_fio)?;
        let text = String::from_utf8_lossy(&done.stdout);
        let json: Option<Value> = text
            .find('{')
            .and_then(|start| serde_json::from_str(&text[start..]).ok());
        let Some(json) = json.filter(|_| done.status.success()) else {
            let said = String::from_utf8_lossy(&done.stderr);
            return Err(Failure::failed(
                format!("fio failed: {}", said.trim()),
                "run fio without the tier to see whether the disk is to blame",
            ));
        };
        let mut measured = measured(&json)?;
        if tier.is_some() {
            self.add_counters(&mut measured)?;
        }
        Ok(measured)
    }

    fn add_counters(&self, measured: &mut Measured) -> Result<(), Failure> {
        let lost = |why: String| {
            Failure::failed(
                format!("the tier's counters: {why}"),
                "see whether fio is dynamically linked: the loader preloads nothing into a static one",
            )
        };
        let after = StatusPage::attach(&self.status())
            .map_err(|error| lost(error.to_string()))?
            .snapshot();
        let text = std::fs::read(self.0.join(LOOK)).map_err(|error| lost(error.to_string()))?;
        let before: Value =
            serde_json::from_slice(&text).map_err(|error| lost(error.to_string()))?;
        measured.hit_ratio = hit_ratio(&before, &after);
        let held_bytes = after.used_pages * after.page_size_bytes;
        measured.capacity_ratio =
            (after.used_bytes > 0).then(|| held_bytes as f64 / after.used_bytes as f64);
        Ok(())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.0) {
            eprintln!("WARNING: {} stays: {error}", self.0.display());
        }
    }
}

/// Hits of all reads since: misses and bypasses count against it.
fn hit_ratio(before: &Value, after: &Snapshot) -> Option<f64> {
    let past = |now: &Value| -> u64 {
        now["bypasses"]
            .as_object()
            .into_iter()
            .flatten()
            .filter_map(|(_, value)| value.as_u64())
            .sum()
    };
    let counted = |name: &str| before["counters"][name].as_u64().unwrap_or(0);
    let hits = after.counter(Counter::Hits) - counted("hits");
    let misses = after.counter(Counter::Misses) - counted("misses");
    let bypasses = after.bypasses.iter().map(|(_, value)| value).sum::<u64>() - past(before);
    let all = hits + misses + bypasses;
    (all > 0).then(|| hits as f64 / all as f64)
}

fn measured(json: &Value) -> Result<Measured, Failure> {
    let lacking = || Failure::failed("fio's JSON lacks a figure", "install fio 3 or newer");
    let jobs = json["jobs"].as_array().ok_or_else(lacking)?;
    let job = jobs
        .iter()
        .find(|job| job["jobname"] == "read")
        .ok_or_else(lacking)?;
    let read = &job["read"];
    let figure = |value: &Value| value.as_f64().ok_or_else(lacking);
    let clat = &read["clat_ns"];
    Ok(Measured {
        iops: figure(&read["iops"])?,
        bandwidth_bytes_per_s: figure(&read["bw_bytes"])?,
        latency_us_p50: figure(&clat["percentile"]["50.000000"])? / 1000.0,
        latency_us_p99: figure(&clat["percentile"]["99.000000"])? / 1000.0,
        latency_us_mean: figure(&clat["mean"])? / 1000.0,
        cpu_system_percent: figure(&job["sys_cpu"])?,
        hit_ratio: None,
        capacity_ratio: None,
    })
}

fn no_fio(error: std::io::Error) -> Failure {
    Failure::failed(
        format!("fio does not start: {error}"),
        "install it (apt install fio)",
    )
}
