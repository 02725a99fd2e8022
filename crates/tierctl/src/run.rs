//! `run`: a server with the tier preloaded.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use tiercache::config::{Config, MediumChoice};

use crate::failure::Failure;
use crate::user::User;
use crate::{output, pages, preflight, server, unit};

/// How to run a server.
#[derive(clap::Args)]
pub struct Options {
    #[command(flatten)]
    tier: Tier,
    /// Print a systemd drop-in with these settings; start nothing.
    #[arg(long)]
    print_systemd: bool,
    /// The library to preload [default: the one beside this program].
    #[arg(long, value_name = "PATH")]
    library: Option<PathBuf>,
    /// Print a shell command with these settings; start nothing.
    #[arg(long)]
    dry_run: bool,
    /// The server and its arguments, after `--`.
    #[arg(last = true, required = true)]
    server: Vec<OsString>,
}

/// The tier's own settings.
#[derive(clap::Args, Clone)]
pub struct Tier {
    /// Space for pages, such as 512M or 4G; with LZ4, for compressed pages.
    #[arg(long)]
    pub size: String,
    /// memory, memory-lz4, file:PATH (through the kernel's page cache) or direct:PATH (O_DIRECT).
    #[arg(long, default_value = "memory")]
    pub medium: String,
    /// write-through, write-around, write-invalidate or pass-through.
    #[arg(long, default_value = "write-through")]
    pub mode: String,
    /// Size of a page, 4K to 64K; preferably the server's own (innodb_page_size).
    #[arg(long, default_value = "16K")]
    pub page_size: String,
    /// When a page enters the tier: `always`, at its first miss; `nhit:N`, at its Nth (2 to 15).
    #[arg(long, default_value = "always")]
    pub promotion: String,
    /// Longer sequential runs do not enter the tier; 0: all do.
    #[arg(long, default_value = "8M")]
    pub cutoff: String,
    /// Pages that asynchronous reads miss enter the tier, too (InnoDB's read-ahead, most of a table scan).
    #[arg(long, overrides_with = "no_read_ahead")]
    pub read_ahead: bool,
    /// They do not enter the tier (the default).
    #[arg(long, overrides_with = "read_ahead")]
    pub no_read_ahead: bool,
    /// Compare one read in N that the tier serves with the file; 0: none. A difference turns the tier off.
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    pub audit: u32,
    /// Use a device that holds something else, and overwrite it.
    #[arg(long)]
    pub format: bool,
    /// A rule before the default ones: `skip=archive/*`, `pin:30=shop/o*.ibd` or `cache=*.dat`; repeatable.
    #[arg(long = "rule")]
    pub rules: Vec<String>,
    /// File of the statistics page.
    #[arg(long, value_name = "PATH")]
    pub status: Option<PathBuf>,
}

/// Run the server: on success this process becomes it.
pub fn run(options: &Options) -> Result<(), Failure> {
    if options.print_systemd && options.tier.format {
        return Err(Failure::usage(
            "a unit with --format would overwrite, at each start, whatever device has the name by then",
            "use --format once, with `upshift cache run`; then print the drop-in without it",
        ));
    }
    let program = server::find(&options.server[0])?;
    server::refuse_what_cannot_be_covered(&program)?;
    let library = library(options.library.as_deref())?;
    let user = User::of_server(&program, &options.server[1..])?;
    let pid = std::process::id();
    let (config, variables) = variables(&options.tier, pid, user)?;
    let mut warnings = Vec::new();
    if let Err(refusal) = preflight::of_medium(&config, user) {
        if !options.print_systemd && !options.dry_run {
            return Err(refusal.at_start());
        }
        warnings.push(refusal.when_printed()?);
    }
    warnings.extend(preflight::of_server(
        &program,
        &options.server[1..],
        &config,
    )?);
    for warning in warnings {
        eprintln!("WARNING: {}", output::shown(&warning));
    }
    let own_page = options.tier.status.is_none();
    if options.print_systemd {
        return unit::print(&library, &variables, own_page);
    }
    if options.dry_run {
        let line = command_line(&library, &variables, &options.server);
        if !own_page {
            return output::line(&line);
        }
        let folder = quoted(&pages::folder(user.uid).to_string_lossy());
        let make = format!("install -d -m 700 -o {} {folder}", user.uid);
        return output::line(&format!("{make} && {line}"));
    }
    if own_page {
        pages::make_folder(user)?;
    }
    let error = Command::new(&program)
        .args(&options.server[1..])
        .env("LD_PRELOAD", preload(&library))
        .envs(variables)
        // The tier belongs to this process, which becomes the server, and to no program that the server starts.
        .env("UPSHIFT_TIER_OWNER", pid.to_string())
        .exec();
    Err(Failure::failed(
        format!("{} does not start: {error}", program.display()),
        "start it without `upshift cache run` to see whether the tier is to blame",
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

/// Whether a device that holds something else is overwritten.
pub const FORMAT: &str = "UPSHIFT_TIER_FORMAT";

/// Environment variables: name and value.
pub type Variables = Vec<(&'static str, String)>;

/// The environment that the library reads; every setting is checked here, before a server starts.
pub fn variables(tier: &Tier, pid: u32, user: User) -> Result<(Config, Variables), Failure> {
    // A server goes to its data directory before the tier opens: relative paths would lead into it.
    let absolute = |path: &Path| {
        std::path::absolute(path).map_err(|error| {
            Failure::usage(
                format!("{}: {error}", path.display()),
                "name an absolute path",
            )
        })
    };
    let medium = match tier.medium.parse()? {
        MediumChoice::File(path) => MediumChoice::File(absolute(&path)?),
        MediumChoice::Direct(path) => MediumChoice::Direct(absolute(&path)?),
        in_memory => in_memory,
    };
    let own_page = || pages::of_new(pid, user.uid);
    let status = absolute(&tier.status.clone().unwrap_or_else(own_page))?;
    let switch = |on| if on { "on" } else { "off" }.to_owned();
    // All of them: what is not said here would be the caller's own environment.
    let variables = vec![
        ("UPSHIFT_TIER_SIZE", tier.size.clone()),
        ("UPSHIFT_TIER_MEDIUM", medium.to_string()),
        ("UPSHIFT_TIER_MODE", tier.mode.clone()),
        ("UPSHIFT_TIER_PAGE_SIZE", tier.page_size.clone()),
        ("UPSHIFT_TIER_PROMOTION", tier.promotion.clone()),
        ("UPSHIFT_TIER_SEQUENTIAL_CUTOFF", tier.cutoff.clone()),
        ("UPSHIFT_TIER_READ_AHEAD", switch(tier.read_ahead)),
        ("UPSHIFT_TIER_AUDIT", tier.audit.to_string()),
        (FORMAT, switch(tier.format)),
        ("UPSHIFT_TIER_RULES", tier.rules.join(",")),
        ("UPSHIFT_TIER_STATUS", status.display().to_string()),
    ];
    let value = |name: &str| {
        let found = variables.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| OsString::from(value))
    };
    let config = Config::from_variables(value)?;
    config.validate()?;
    Ok((config, variables))
}

/// The library: where the option or `UPSHIFT_TIER_LIBRARY` says, else beside this program.
pub fn library(said: Option<&Path>) -> Result<PathBuf, Failure> {
    let variable = || std::env::var_os("UPSHIFT_TIER_LIBRARY").filter(|path| !path.is_empty());
    let named = said
        .map(PathBuf::from)
        .or_else(|| variable().map(PathBuf::from));
    let beside = || {
        let program = std::env::current_exe().ok()?;
        Some(program.parent()?.join("libupshift_tier.so"))
    };
    let path = match &named {
        Some(path) => path.canonicalize().ok(),
        None => beside(),
    };
    let path = path
        .filter(|path| path.is_file())
        .ok_or_else(|| match &named {
            Some(path) => Failure::usage(
                format!("there is no library {}", path.display()),
                "name libupshift_tier.so with --library, or leave the option out",
            ),
            None => Failure::failed(
                "there is no library libupshift_tier.so beside this program",
                "use `./upshift cache`, which builds it, or name it with --library",
            ),
        })?;
    // The loader would find no such library, say so, and start the server without a tier.
    if path.to_string_lossy().contains([' ', ':']) {
        return Err(Failure::usage(
            format!(
                "{} cannot be preloaded: the loader takes spaces and colons in a path for separators",
                path.display()
            ),
            "copy the library to a path without them, and name it with --library",
        ));
    }
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_for_a_shell() {
        assert_eq!(quoted("--datadir=/d"), "--datadir=/d");
        assert_eq!(quoted("a b's"), r"'a b'\''s'");
        assert_eq!(quoted(""), "''");
    }
}
