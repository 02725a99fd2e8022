//! What the tier is told before it starts: size, page, medium, mode, policies, rules.

mod environment;
mod rules;
mod size;

pub use rules::{Action, Rule, Rules};
pub use size::parse_size_bytes;

use std::path::PathBuf;
use std::str::FromStr;

/// Smallest page, in bytes.
pub const PAGE_SIZE_BYTES_MIN: usize = 4 << 10;
/// Largest page, in bytes.
pub const PAGE_SIZE_BYTES_MAX: usize = 64 << 10;

/// Everything that `Tier::open` needs.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// Bytes of the medium that hold pages (for LZ4: compressed bytes).
    pub size_bytes: u64,
    /// Bytes of a page of the tier: a power of two, 4 KiB to 64 KiB.
    pub page_size_bytes: usize,
    /// Where pages live.
    pub medium: MediumChoice,
    /// What happens on a write.
    pub mode: Mode,
    /// Which missed pages are inserted.
    pub promotion: Promotion,
    /// A sequential run longer than this is not inserted; 0 turns the cutoff off.
    pub sequential_cutoff_bytes: u64,
    /// Whether pages missed by asynchronous reads (io_submit), which are read-ahead in InnoDB, are inserted.
    pub admit_read_ahead: bool,
    /// Which files are ours.
    pub rules: Rules,
    /// One read in so many is compared with its file by the caller; 0: none.
    pub audit_every: u32,
    /// A device that holds something else is overwritten.
    pub format: bool,
    /// So many failures of the medium within a minute turn the tier off.
    pub medium_errors_max: u32,
    /// An access of a file or device that takes longer counts as a failure.
    pub medium_latency_ms_max: u32,
    /// File of the statistics page; without it, the page is private to the process.
    pub status_path: Option<PathBuf>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            size_bytes: 1 << 30,
            page_size_bytes: 16 << 10,
            medium: MediumChoice::Memory,
            mode: Mode::WriteThrough,
            promotion: Promotion::Always,
            sequential_cutoff_bytes: 8 << 20,
            admit_read_ahead: false,
            rules: Rules::default(),
            audit_every: 10_000,
            format: false,
            medium_errors_max: 16,
            medium_latency_ms_max: 1000,
            status_path: None,
        }
    }
}

impl Config {
    /// Checks what types cannot say.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let page = self.page_size_bytes;
        if !page.is_power_of_two() || !(PAGE_SIZE_BYTES_MIN..=PAGE_SIZE_BYTES_MAX).contains(&page) {
            let hint = "use 4K, 8K, 16K, 32K or 64K, preferably the server's own page size";
            return Err(ConfigError::new("page size", &page.to_string(), hint));
        }
        if self.size_bytes < 8 * page as u64 {
            let hint = "give at least the size of 8 pages, for example 4G";
            return Err(ConfigError::new("size", &self.size_bytes.to_string(), hint));
        }
        if self.size_bytes / page as u64 > crate::index::SLOTS_MAX {
            let hint = "use larger pages or a smaller size: a tier has at most 2^31 pages";
            return Err(ConfigError::new("size", &self.size_bytes.to_string(), hint));
        }
        if self.medium == MediumChoice::MemoryLz4 && self.size_bytes > self.lz4_size_bytes_max() {
            let hint =
                "use larger pages or a smaller size: compressed pages have at most 2^32 blocks";
            return Err(ConfigError::new("size", &self.size_bytes.to_string(), hint));
        }
        Ok(())
    }

    /// As far as a resize may go: `times` the first size, or as much as the medium can number.
    pub(crate) fn size_bytes_max(&self, times: u64) -> u64 {
        let wanted = self.size_bytes.saturating_mul(times);
        match self.medium {
            MediumChoice::MemoryLz4 => wanted.min(self.lz4_size_bytes_max()),
            _ => wanted.min(crate::index::SLOTS_MAX * self.page_size_bytes as u64),
        }
    }

    /// Blocks and slots of compressed pages have numbers of 32 bits, and 0 is none.
    fn lz4_size_bytes_max(&self) -> u64 {
        let pages = (u64::from(u32::MAX) / crate::medium::BLOCKS_A_PAGE)
            .min(crate::index::SLOTS_MAX / crate::medium::LZ4_SLOTS_A_PAGE);
        pages * self.page_size_bytes as u64
    }
}

/// Where pages live.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MediumChoice {
    /// Anonymous memory, in huge pages when the system has them.
    Memory,
    /// Memory that holds pages compressed with LZ4.
    MemoryLz4,
    /// A file on a fast file system, through the kernel's page cache.
    File(PathBuf),
    /// A file or block device, read and written with O_DIRECT.
    Direct(PathBuf),
}

impl MediumChoice {
    /// Whether pages are gone when the process is.
    pub fn in_memory(&self) -> bool {
        matches!(self, Self::Memory | Self::MemoryLz4)
    }

    /// The word of the choice, without its path.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::MemoryLz4 => "memory-lz4",
            Self::File(_) => "file",
            Self::Direct(_) => "direct",
        }
    }
}

impl std::fmt::Display for MediumChoice {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Memory | Self::MemoryLz4 => out.write_str(self.kind()),
            Self::File(path) | Self::Direct(path) => {
                write!(out, "{}:{}", self.kind(), path.display())
            }
        }
    }
}

impl FromStr for MediumChoice {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, ConfigError> {
        match text.split_once(':') {
            None if text == "memory" => Ok(Self::Memory),
            None if text == "memory-lz4" => Ok(Self::MemoryLz4),
            Some(("file", path)) if !path.is_empty() => Ok(Self::File(path.into())),
            Some(("direct", path)) if !path.is_empty() => Ok(Self::Direct(path.into())),
            _ => Err(ConfigError::new(
                "medium",
                text,
                "use memory, memory-lz4, file:PATH or direct:PATH",
            )),
        }
    }
}

/// What happens on a write, and whether reads are served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Mode {
    /// Written pages are inserted once the file has them.
    WriteThrough = 0,
    /// Written pages are refreshed where the tier had them; no others are inserted.
    WriteAround = 1,
    /// Written pages are taken out.
    WriteInvalidate = 2,
    /// Nothing is served or inserted; writes still invalidate.
    PassThrough = 3,
}

impl Mode {
    /// All modes, in the order of their numbers.
    pub const ALL: [Self; 4] = [
        Self::WriteThrough,
        Self::WriteAround,
        Self::WriteInvalidate,
        Self::PassThrough,
    ];

    /// The word for people and for the environment.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::WriteThrough => "write-through",
            Self::WriteAround => "write-around",
            Self::WriteInvalidate => "write-invalidate",
            Self::PassThrough => "pass-through",
        }
    }

    /// The mode with this number.
    pub fn from_number(number: u64) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| *mode as u64 == number)
    }
}

impl FromStr for Mode {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, ConfigError> {
        let found = Self::ALL.into_iter().find(|mode| mode.as_str() == text);
        found.ok_or_else(|| {
            ConfigError::new(
                "mode",
                text,
                "use write-through, write-around, write-invalidate or pass-through",
            )
        })
    }
}

/// Which missed pages are inserted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Promotion {
    /// Every one.
    Always,
    /// A page at its n-th miss.
    NHit(u8),
}

impl std::fmt::Display for Promotion {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Always => out.write_str("always"),
            Self::NHit(hits) => write!(out, "nhit:{hits}"),
        }
    }
}

impl FromStr for Promotion {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, ConfigError> {
        let wrong = || {
            ConfigError::new(
                "promotion",
                text,
                "use always, or nhit:N with N from 2 to 15",
            )
        };
        match text.split_once(':') {
            None if text == "always" => Ok(Self::Always),
            Some(("nhit", hits)) => match hits.parse() {
                Ok(hits @ 2..=15) => Ok(Self::NHit(hits)),
                _ => Err(wrong()),
            },
            _ => Err(wrong()),
        }
    }
}

/// A setting that cannot be used, and what would be right.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError {
    /// Which setting.
    pub setting: String,
    /// What it was set to.
    pub value: String,
    /// What would be right.
    pub hint: String,
}

impl ConfigError {
    pub(crate) fn new(setting: &str, value: &str, hint: &str) -> Self {
        Self {
            setting: setting.into(),
            value: value.into(),
            hint: hint.into(),
        }
    }
}

impl std::fmt::Display for ConfigError {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            out,
            "{} {:?} cannot be used: {}",
            self.setting, self.value, self.hint
        )
    }
}

impl std::error::Error for ConfigError {}

#[cfg(test)]
mod tests {
    use super::{Config, MediumChoice};

    #[test]
    fn compressed_pages_never_have_more_blocks_than_numbers() {
        let config = |size_bytes| Config {
            size_bytes,
            page_size_bytes: 4096,
            medium: MediumChoice::MemoryLz4,
            ..Config::default()
        };
        let most = config(1 << 40).lz4_size_bytes_max();
        assert!(config(most).validate().is_ok() && config(most + 4096).validate().is_err());
        assert!(
            config(1 << 40).validate().is_err(),
            "2^32 blocks of 256 bytes"
        );
        // Blocks are numbered from 1.
        let blocks = config(most).size_bytes_max(8) / 256;
        assert!(blocks < 1 << 32, "{blocks}");
        let in_memory = Config {
            medium: MediumChoice::Memory,
            ..config(1 << 40)
        };
        assert_eq!(in_memory.size_bytes_max(8), 8 << 40);
        assert!(in_memory.validate().is_ok());
    }
}
