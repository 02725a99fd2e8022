//! `run`: a server with the tier preloaded.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use tiercache::config::Config;

use crate::failure::Failure;
use crate::{output, place, preflight, server};

/// How to run a server.
#[derive(clap::Args)]
pub struct Options {
    #[command(flatten)]
    tier: Tier,
    /// Print a systemd drop-in that does the same, and run nothing.
    #[arg(long)]
    print_systemd: bool,
    /// Print the command, and run nothing.
    #[arg(long)]
    dry_run: bool,
    /// The server and its arguments, after `--`.
    #[arg(last = true, required = true)]
    server: Vec<OsString>,
}

/// The tier's own settings.
#[derive(clap::Args, Clone)]
pub struct Tier {
    /// Room for pages: 512M, 4G.
    #[arg(long)]
    pub size: String,
    /// memory, memory-lz4, file:PATH (mapped) or direct:PATH (O_DIRECT).
    #[arg(long, default_value = "memory")]
    pub medium: String,
    /// write-through, write-around, write-invalidate or pass-through.
    #[arg(long, default_value = "write-through")]
    pub mode: String,
    /// Bytes of a page: best the server's own page size.
    #[arg(long, default_value = "16K")]
    pub page_size: String,
    /// always, or nhit:N (a page comes in at its Nth miss).
    #[arg(long, default_value = "always")]
    pub promotion: String,
    /// A sequential run longer than this is not let in; 0: all are.
    #[arg(long, default_value = "8M")]
    pub cutoff: String,
    /// on or off: let in what asynchronous reads (InnoDB's read-ahead, most of a table scan) miss.
    #[arg(long, default_value = "off")]
    pub read_ahead: String,
    /// Rules before the default ones: `skip=archive/*`, `pin:30=shop/o*.ibd`, `cache=*.dat`; repeatable.
    #[arg(long = "rule")]
    pub rules: Vec<String>,
    /// File of the statistics page.
    #[arg(long, value_name = "PATH")]
    pub status: Option<PathBuf>,
}

/// Run the server: on success this process becomes it.
pub fn run(options: &Options) -> Result<(), Failure> {
    let program = server::find(&options.server[0])?;
    server::refuse_what_cannot_be_covered(&program)?;
    let library = library()?;
    let (config, variables) = variables(&options.tier, std::process::id())?;
    preflight::of_medium(&config)?;
    for warning in preflight::of_server(&program, &options.server[1..], &config)? {
        eprintln!("WARNING: {warning}");
    }
    if options.print_systemd {
        return print_systemd(&library, &variables, options.tier.status.is_none());
    }
    if options.dry_run {
        return output::line(&command_line(&library, &variables, &options.server));
    }
    if options.tier.status.is_none() {
        place::make_folder()?;
    }
    let error = Command::new(&program)
        .args(&options.server[1..])
        .env("LD_PRELOAD", preload(&library))
        .envs(variables)
        .exec();
    Err(Failure::failed(
        format!("{} does not start: {error}", program.display()),
        "",
    ))
}

/// The same as a line for a shell.
fn command_line(library: &Path, variables: &[(&str, String)], server: &[OsString]) -> String {
    let preload = preload(library);
    let set = variables
        .iter()
        .map(|(name, value)| format!("{name}={}", quoted(value)));
    let words = server.iter().map(|word| quoted(&word.to_string_lossy()));
    let first = format!("LD_PRELOAD={}", quoted(&preload.to_string_lossy()));
    let all: Vec<String> = std::iter::once(first).chain(set).chain(words).collect();
    all.join(" ")
}

/// A word as a POSIX shell reads it back.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./=:,@%+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// The library before whatever is preloaded already: an allocator stays where it is.
fn preload(library: &Path) -> OsString {
    let mut all = library.as_os_str().to_owned();
    if let Some(others) = std::env::var_os("LD_PRELOAD").filter(|others| !others.is_empty()) {
        all.push(":");
        all.push(others);
    }
    all
}

/// Environment variables: name and value.
pub type Variables = Vec<(&'static str, String)>;

/// The environment that the library reads; every setting is checked here, before a server starts.
pub fn variables(tier: &Tier, pid: u32) -> Result<(Config, Variables), Failure> {
    let status = tier.status.clone().unwrap_or_else(|| place::of_new(pid));
    let mut variables = vec![
        ("UPSHIFT_TIER_SIZE", tier.size.clone()),
        ("UPSHIFT_TIER_MEDIUM", tier.medium.clone()),
        ("UPSHIFT_TIER_MODE", tier.mode.clone()),
        ("UPSHIFT_TIER_PAGE_SIZE", tier.page_size.clone()),
        ("UPSHIFT_TIER_PROMOTION", tier.promotion.clone()),
        ("UPSHIFT_TIER_SEQUENTIAL_CUTOFF", tier.cutoff.clone()),
        ("UPSHIFT_TIER_READ_AHEAD", tier.read_ahead.clone()),
        ("UPSHIFT_TIER_STATUS", status.display().to_string()),
    ];
    if !tier.rules.is_empty() {
        variables.push(("UPSHIFT_TIER_RULES", tier.rules.join(",")));
    }
    let value = |name: &str| {
        let found = variables.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| OsString::from(value))
    };
    let config = Config::from_variables(value)?;
    config.validate()?;
    Ok((config, variables))
}

/// The library: where `UPSHIFT_TIER_LIBRARY` says, else beside this program.
pub fn library() -> Result<PathBuf, Failure> {
    let beside = || {
        Some(
            std::env::current_exe()
                .ok()?
                .parent()?
                .join("libupshift_tier.so"),
        )
    };
    let path = std::env::var_os("UPSHIFT_TIER_LIBRARY")
        .map(PathBuf::from)
        .or_else(beside);
    path.filter(|path| path.is_file()).ok_or_else(|| {
        Failure::failed(
            "libupshift_tier.so is not there",
            "run it as `./upshift cache`, which builds it, or set UPSHIFT_TIER_LIBRARY",
        )
    })
}

fn print_systemd(
    library: &Path,
    variables: &[(&str, String)],
    own_place: bool,
) -> Result<(), Failure> {
    output::line("# systemctl edit mysql, paste this, then systemctl restart mysql\n[Service]")?;
    output::line(&environment("LD_PRELOAD", &library.to_string_lossy()))?;
    for (name, value) in variables {
        if *name == "UPSHIFT_TIER_STATUS" && own_place {
            output::line("RuntimeDirectory=upshift-mysql\nRuntimeDirectoryPreserve=yes")?;
            output::line(&environment(name, "/run/upshift-mysql/tier.status"))?;
        } else {
            output::line(&environment(name, value))?;
        }
    }
    Ok(())
}

/// A line of a unit file, quoted as systemd reads it (`%` starts a specifier there).
fn environment(name: &str, value: &str) -> String {
    let value = value
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('%', "%%");
    format!("Environment=\"{name}={value}\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_for_a_shell_and_for_systemd() {
        assert_eq!(quoted("--datadir=/d"), "--datadir=/d");
        assert_eq!(quoted("a b's"), r"'a b'\''s'");
        assert_eq!(quoted(""), "''");
        assert_eq!(
            environment("A", r#"50% "x""#),
            r#"Environment="A=50%% \"x\"""#
        );
    }
}
